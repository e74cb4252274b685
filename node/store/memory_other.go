//go:build !linux

package store

// memoryBytes returns the memory of the machine, 0 when it is not known.
func memoryBytes() uint64 { return 0 }
