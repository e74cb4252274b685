package index

import (
	"runtime"
	"sync"
	"unsafe"
)

const (
	// slabBytes is a large page of memory.
	slabBytes = 2 << 20
	// slabRows is how many rows a head has before it takes slabs: most heads of many groups and
	// shards stay small.
	slabRows = 1 << 14
	// lineBytes is a line of the processor's caches, where everything in a slab begins.
	lineBytes = 64
)

// memory is what the rows of a large head lie in. It is none of the garbage collector's: that would
// let as much garbage pile up as there are rows, and it would be in small pages, of which the first
// touch costs more than the rows that go there. Nothing in it may hold pointers.
type memory struct {
	slabs []*slab
	rest  []byte // of one of them, not taken yet
}

// slab is some memory of a head.
type slab struct {
	bytes  []byte
	mapped bool            // it is no part of the heap
	end    runtime.Cleanup // unmaps it when nobody has it any more
}

// slabs are those of slabBytes that no head has. Anything may be in them.
var slabs = sync.Pool{New: func() any { return newSlab(slabBytes) }}

func newSlab(size int) *slab {
	s := &slab{}
	if s.bytes, s.mapped = mapLarge(size); s.mapped {
		s.end = runtime.AddCleanup(s, unmapLarge, s.bytes)
	}
	return s
}

// slabFor returns a slab of at least so many bytes.
func slabFor(size int) *slab {
	if size <= slabBytes {
		return slabs.Get().(*slab)
	}
	return newSlab((size + slabBytes - 1) &^ (slabBytes - 1))
}

// giveBack lets other heads use the memory.
func (m *memory) giveBack() {
	for _, s := range m.slabs {
		switch {
		case len(s.bytes) == slabBytes:
			slabs.Put(s)
		case s.mapped:
			s.end.Stop()
			unmapLarge(s.bytes)
		}
	}
	*m = memory{}
}

// flat is what may lie in a slab.
type flat interface {
	byte | int32 | int64 | entry
}

// take returns room for so many values, with anything in it. It lasts until giveBack.
func take[T flat](m *memory, n int) []T {
	if n == 0 {
		return nil
	}
	var value T
	size := (n*int(unsafe.Sizeof(value)) + lineBytes - 1) &^ (lineBytes - 1)
	from := m.rest
	if size > len(from) {
		s := slabFor(size)
		m.slabs = append(m.slabs, s)
		from = s.bytes
	}
	if rest := from[size:]; len(from) == len(m.rest) || len(rest) > len(m.rest) {
		m.rest = rest
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(from))), n)
}

// emptied returns a slice without values and with room for so many, in the memory of one that is
// not needed any more if it is enough: several times the rows of a seal. slices.Grow would touch
// all of it before it can be had in large pages.
func emptied[T any](old []T, n int) []T {
	if cap(old) >= n {
		return old[:0]
	}
	made := make([]T, 0, n)
	preferLarge(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(made))),
		n*int(unsafe.Sizeof(*new(T)))))
	return made
}
