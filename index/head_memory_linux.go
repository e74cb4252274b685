//go:build !race

package index

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapLarge maps memory of a multiple of slabBytes in large pages, where the system has some. Where
// nothing can be mapped it comes from the heap.
func mapLarge(size int) (bytes []byte, mapped bool) {
	const flags = unix.MAP_ANON | unix.MAP_PRIVATE
	all, err := unix.MmapPtr(-1, 0, nil, uintptr(size+slabBytes), unix.PROT_READ|unix.PROT_WRITE,
		flags)
	if err != nil {
		return make([]byte, size), false
	}
	before := -uintptr(all) & (slabBytes - 1) // what comes before the first large page
	from := unsafe.Add(all, before)
	if before > 0 {
		_ = unix.MunmapPtr(all, before)
	}
	if after := slabBytes - before; after > 0 {
		_ = unix.MunmapPtr(unsafe.Add(from, size), after)
	}
	bytes = unsafe.Slice((*byte)(from), size)
	_ = unix.Madvise(bytes, unix.MADV_HUGEPAGE)
	return bytes, true
}

// unmapLarge ends what mapLarge began.
func unmapLarge(bytes []byte) {
	_ = unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(bytes)), uintptr(len(bytes)))
}

// preferLarge asks for large pages where some lie in what no one has touched yet.
func preferLarge(bytes []byte) {
	from := uintptr(unsafe.Pointer(unsafe.SliceData(bytes)))
	before := int(-from & (slabBytes - 1))
	if whole := (len(bytes) - before) &^ (slabBytes - 1); whole > 0 {
		_ = unix.Madvise(bytes[before:before+whole], unix.MADV_HUGEPAGE)
	}
}
