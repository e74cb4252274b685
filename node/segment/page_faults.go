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
			for s := range segments {
				if offset, ok := s.offsetOf(at.Addr()); ok {
					err = s.corrupt(offset, "the disk cannot read these bytes: is the file "+
						"cut, or the disk failing?")
					return
				}
			}
		}
		panic(fault)
	}()
	return f()
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
