package record

// LastingMark begins the id of a writer that is never forgotten: one that keeps what it has not
// been answered for, such as an edge node, and may come again after weeks.
const LastingMark = "edge"

// Lasting reports whether a writer is never forgotten. It sends one batch at a time, so only the
// answer to its newest one is kept; older sequences are refused.
func Lasting(writer [16]byte) bool { return string(writer[:len(LastingMark)]) == LastingMark }
