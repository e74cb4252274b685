// Package memory determines the memory limit of the process, and divides it.
//
// It knows nothing of what the memory is used for, and starts no goroutines. Its main type is
// [Total].
package memory

// Total is the memory of a node in bytes; 0: unknown.
//
// Three eighths of it are for the Go heap, a quarter for heads, which are outside of it, and the
// rest for plugins, the page cache, and what is not counted.
type Total int64

// Part returns one n-th of a total, at most most; it returns most if the total is unknown.
func (t Total) Part(parts, most int64) int64 {
	if t <= 0 {
		return most
	}
	return min(max(1, int64(t)/parts), most)
}
