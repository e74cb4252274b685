// Package memory says how much memory the process may have, and which part of it is for what.
//
// It knows nothing of what the memory holds, and starts no goroutines. Its main type is [Total].
package memory

// Total is how many bytes of memory a node may have; 0: that is not known.
//
// Three eighths of it are for the heap of Go, a quarter for rows that are not sealed, which lie
// outside of it, and the rest for plugins, for what the system keeps of files, and for what is not
// counted.
type Total int64

// Part returns a part of a total, but no more than most, and most of one that is not known.
func (t Total) Part(parts, most int64) int64 {
	if t <= 0 {
		return most
	}
	return min(max(1, int64(t)/parts), most)
}
