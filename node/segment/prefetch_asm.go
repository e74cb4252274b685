//go:build amd64 || arm64

package segment

// prefetch has the processor load lines of 64 bytes from p on, at least one. It never faults.
//
//go:noescape
func prefetch(p *byte, lines int)

// prefetchRows has it load the ends of packed values of rows; what lies between distant ones it
// loads by itself. There is at least one span.
//
//go:noescape
func prefetchRows(body *byte, width int, rows *Span, n int)
