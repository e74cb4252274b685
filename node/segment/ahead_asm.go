//go:build amd64 || arm64

package segment

// prefetch has the processor load lines of 64 bytes from p on, at least one. It never faults.
//
//go:noescape
func prefetch(p *byte, lines int)
