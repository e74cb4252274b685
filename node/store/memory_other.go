//go:build !linux

package store

// memoryBytes returns how much memory the process may have, 0 when it is not known.
func memoryBytes() uint64 { return 0 }
