//go:build !linux

package index

func mapLarge(size int) (bytes []byte, mapped bool) { return make([]byte, size), false }

func unmapLarge([]byte) {}

func preferLarge([]byte) {}
