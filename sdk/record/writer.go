package record

// Writer is the identity under which a client sends its batches. Two that differ in either field
// are two writers.
type Writer struct {
	ID [16]byte // drawn at random by the client
	// Persistent is set of a writer that a store never forgets: one that keeps what it has not been
	// answered for, such as an edge node, and may come again after weeks. It sends one batch at a
	// time, so only the answer to its newest one is kept; older sequences are refused.
	Persistent bool
}
