package segment

import (
	"iter"
	"runtime/debug"
	"unsafe"
)

// CatchPageFaults runs f, which reads segments, and returns its error. A page of one of them that
// the disk does not give out, or that was cut off while the file is mapped, is damage and not the
// end of the process. It must be called on each goroutine that reads.
func CatchPageFaults(f func() error, segments iter.Seq[*File]) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		fault := recover()
		if fault == nil {
			return
		}
		if at, ok := fault.(interface{ Addr() uintptr }); ok {
			if err = damageAt(at.Addr(), segments); err != nil {
				return
			}
		}
		panic(fault)
	}()
	return f()
}

// damageAt returns the damage of the segment that is mapped at an address, nil if none is.
func damageAt(address uintptr, segments iter.Seq[*File]) error {
	for s := range segments {
		if offset, ok := s.offsetOf(address); ok {
			return s.corrupt(offset, "the disk cannot read these bytes: is the file "+
				"cut, or the disk failing?")
		}
	}
	return nil
}

// CatchPageFaults is [CatchPageFaults] for one segment.
func (s *File) CatchPageFaults(f func() error) error {
	return CatchPageFaults(f, func(yield func(*File) bool) { yield(s) })
}

// offsetOf returns the offset in the file of an address in the mapping.
func (s *File) offsetOf(address uintptr) (offset uint64, ok bool) {
	offset = uint64(address) - uint64(uintptr(unsafe.Pointer(unsafe.SliceData(s.data))))
	return offset, offset < uint64(len(s.data))
}
