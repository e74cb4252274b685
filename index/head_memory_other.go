//go:build !linux || race

package index

// The race detector sees the heap only.

func mapLarge(size int) (bytes []byte, mapped bool) { return make([]byte, size), false }

func unmapLarge([]byte) {}

func preferLarge([]byte) {}
