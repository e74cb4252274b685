//go:build !race

package rounds

// Race reports whether the race detector watches: it is slow, and its pools forget at random.
const Race = false
