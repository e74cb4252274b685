// Package memory determines the memory limit of the process, and divides it.
//
// It knows nothing of what the memory is used for, and starts no goroutines. Its main type is
// [Total].
package memory

// Total is the memory of a node in bytes; 0: unknown.
//
// Some of it is for what every node needs, the rest is divided. Three eighths of all are for the Go
// heap, a quarter of the rest for heads, which are outside of it, and what is left for plugins, the
// page cache, and what is not counted.
type Total int64

const (
	// Least is with what a node takes puts, answers queries, and stays alive.
	Least = 256 << 20
	// undivided is what a node needs whatever its share of the rest: code, stacks, compiled
	// plugins, buffers of connections, files and scans, garbage. Of little memory it is a half.
	undivided = 96 << 20
)

// Part returns one n-th of what is divided, at most most; it returns most if the total is unknown.
func (t Total) Part(parts, most int64) int64 {
	if t <= 0 {
		return most
	}
	divided := int64(t) - min(undivided, int64(t)/2)
	return min(max(1, divided/parts), most)
}
