//go:build !linux

package wasmhost

// mapRegion falls back to the Go heap on systems where pages cannot be zeroed cheaply.
func mapRegion(size uint64, _ bool) []byte { return make([]byte, size) }

// zeroRegion reports false: a large region is left to the garbage collector.
func zeroRegion([]byte) bool { return false }

func unmapRegion([]byte) {}
