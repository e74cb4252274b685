package index

import (
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"unsafe"
)

const (
	// slabBytes is a large page of memory, and unitBytes a part of one: heads share large pages, as
	// those of many groups would each leave much of their last one empty.
	slabBytes = 2 << 20
	unitBytes = 64 << 10
	slabUnits = slabBytes / unitBytes
	allUnits  = 1<<slabUnits - 1
	// slabRows is how many rows a head has before it takes units: most heads of many groups and
	// shards stay small.
	slabRows = 1 << 12
	// lineBytes is a line of the processor's caches, where everything that is taken begins.
	lineBytes = 64
)

// memory is what the rows of a large head lie in. It is none of the garbage collector's: that would
// let as much garbage pile up as there are rows, and it would be in small pages, of which the first
// touch costs more than the rows that go there. Nothing in it may hold pointers.
type memory struct {
	owner *memoryOwner // nil: there is none yet
	rest  []byte       // not taken yet
}

// memoryOwner gives back what it holds when no one has it any more.
type memoryOwner struct {
	slabs *memorySlabs
	end   runtime.Cleanup
}

// memorySlabs are what a memory consists of.
type memorySlabs struct {
	shares []share
	whole  []*slab // larger than slabBytes, of this memory alone
}

// slab is one large page of memory, or several that follow one another.
type slab struct {
	bytes  []byte
	mapped bool            // it is no part of the heap
	end    runtime.Cleanup // unmaps it when no one has it any more
	taken  uint32          // units, while it is shared
}

// share is some units of a slab that follow one another.
type share struct {
	slab  *slab
	units uint32 // a bit for each
}

// slabPool has the slabs of slabBytes that heads share. Anything may be in their units.
type slabPool struct {
	whole sync.Pool // slabs of which nothing is taken

	mu      sync.Mutex
	partly  []*slab // some units of them are taken, and others are not
	ready   []*slab // nothing of them is taken, and all of it was touched
	resting int     // how many are to be ready while none is needed, see KeepPrefaulted
	begun   uint    // counts slabs of which something was taken
}

var slabs = slabPool{whole: sync.Pool{New: func() any { return newSlab(slabBytes) }}}

func newSlab(size int) *slab {
	s := &slab{}
	if s.bytes, s.mapped = mapLarge(size); s.mapped {
		s.end = runtime.AddCleanup(s, unmapLarge, s.bytes)
	}
	return s
}

// take returns so many units that follow one another, and their bytes.
func (p *slabPool) take(n int) (share, []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at, s := range p.partly {
		if r, bytes, ok := s.take(n); ok {
			if s.taken == allUnits {
				p.partly = slices.Delete(p.partly, at, at+1)
			}
			return r, bytes
		}
	}
	s := p.begin()
	r, bytes, _ := s.take(n)
	if s.taken != allUnits {
		p.partly = append(p.partly, s)
	}
	return r, bytes
}

// take is that of one slab, false where it has not so many together.
func (s *slab) take(n int) (r share, bytes []byte, ok bool) {
	starts := ^s.taken // where n free units begin
	for k, have := n-1, 1; k > 0 && starts != 0; {
		step := min(k, have)
		starts &= starts >> step
		k, have = k-step, have+step
	}
	if starts == 0 {
		return share{}, nil, false
	}
	first := bits.TrailingZeros32(starts)
	units := uint32(1<<n-1) << first
	s.taken |= units
	from, to := first*unitBytes, (first+n)*unitBytes
	return share{s, units}, s.bytes[from:to:to], true
}

// giveBack lets others take what was taken.
func (p *slabPool) giveBack(shares []share) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range shares {
		if r.slab.taken == allUnits {
			p.partly = append(p.partly, r.slab)
		}
		r.slab.taken &^= r.units
	}
	p.partly = slices.DeleteFunc(p.partly, func(s *slab) bool {
		if s.taken == 0 {
			p.end(s)
		}
		return s.taken == 0
	})
}

// giveBack lets other heads use what is held.
func (h *memorySlabs) giveBack() {
	slabs.giveBack(h.shares)
	for _, s := range h.whole {
		if s.mapped {
			s.end.Stop()
			unmapLarge(s.bytes)
		}
	}
	*h = memorySlabs{}
}

// giveBack lets other heads use the memory.
func (m *memory) giveBack() {
	if m.owner != nil {
		m.owner.end.Stop()
		m.owner.slabs.giveBack()
	}
	*m = memory{}
}

// more returns at least this many bytes that no one has taken.
func (m *memory) more(size int) []byte {
	if m.owner == nil {
		m.owner = &memoryOwner{slabs: &memorySlabs{}}
		m.owner.end = runtime.AddCleanup(m.owner, (*memorySlabs).giveBack, m.owner.slabs)
	}
	h := m.owner.slabs
	if size > slabBytes {
		s := newSlab((size + slabBytes - 1) &^ (slabBytes - 1))
		h.whole = append(h.whole, s)
		return s.bytes
	}
	r, bytes := slabs.take((size + unitBytes - 1) / unitBytes)
	h.shares = append(h.shares, r)
	return bytes
}

// flat is what may lie in a slab.
type flat interface {
	byte | int32 | int64 | entry
}

// take returns space for this many values, with anything in it. It lasts until giveBack.
func take[T flat](m *memory, n int) []T {
	if n == 0 {
		return nil
	}
	var value T
	size := (n*int(unsafe.Sizeof(value)) + lineBytes - 1) &^ (lineBytes - 1)
	from := m.rest
	if size > len(from) {
		from = m.more(size)
	}
	if rest := from[size:]; len(from) == len(m.rest) || len(rest) > len(m.rest) {
		m.rest = rest
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(from))), n)
}

// emptied returns a slice without values and with space for this many, in the memory of one that is
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
