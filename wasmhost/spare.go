package wasmhost

import (
	"bytes"
	"slices"
	"sync"
	"weak"
)

// An instance takes long to make: 10 to 90 µs, as what it takes is in the caches or not, and a
// program built by Go a millisecond. So one that is closed is made what it was when it had started,
// and kept for the next query of the same tenant.

const (
	minSpares     = 4         // that a module and owner may have, and one for each slot
	spareShare    = 16        // of Options.TotalBytes, beside which all have this part at most
	maxImageBytes = 8 << 20   // of memory, which is compared at the end of a query; Go's has 3 MiB
	spareBytes    = 256 << 10 // beside its memory; the runtime's part of a program built by Go
	imagePage     = 4 << 10   // what is compared, and copied if it differs
	maxSpareStack = 16 << 10  // one that has grown stays so
)

// image is all that a call can change of an instance, as it is after the start.
type image struct {
	memory  []byte // without the zeros at its end
	size    uint64 // of memory
	globals []uint64
	depth   uint64
	wasi    wasiState // without its meter
	usage   Usage
}

// imageOf returns the image of an instance that has just started, nil for one that is not to be
// kept.
func (g *guest) imageOf() *image {
	e := g.entry
	// What an instance was refused once would not be another time.
	if !e.resets || g.lease.refused || g.memory.Size() > maxImageBytes {
		return nil
	}
	s := &e.host.spares
	s.mu.Lock()
	m := e.image.Value()
	s.mu.Unlock()
	if m == nil {
		m = g.capture()
		s.mu.Lock()
		e.image = weak.Make(m)
		s.mu.Unlock()
	}
	return m
}

func (g *guest) capture() *image {
	memory := g.lease.region[:g.memory.Size()]
	m := &image{size: uint64(len(memory)), depth: g.depth.Get(), usage: g.usage}
	if g.wasi != nil {
		m.wasi.restore(g.wasi)
	}
	m.memory = bytes.Clone(bytes.TrimRight(memory, "\x00"))
	for _, global := range g.globals {
		m.globals = append(m.globals, global.Get())
	}
	return m
}

// reset makes an instance what the image says, and reports whether it could.
func (i *instance) reset(m *image) bool {
	// What has not given back its depth is in the middle of a call.
	if i.depth.Get() != m.depth || !i.shrink(m.size) {
		return false
	}
	memory := i.lease.region
	for at := 0; at < len(m.memory); at += imagePage {
		page := m.memory[at:min(at+imagePage, len(m.memory))]
		if now := memory[at:][:len(page)]; !bytes.Equal(now, page) {
			copy(now, page)
		}
	}
	i.lease.idle(uint64(len(m.memory)))
	for j, global := range i.globals {
		global.Set(m.globals[j])
	}
	if i.wasi != nil {
		i.wasi.restore(&m.wasi)
	}
	return true
}

// shrink makes a memory that has grown as small as it was: the runtime takes for its size what the
// allocator returns when it is asked for more, which it is up to a page beyond what there may be.
func (i *instance) shrink(size uint64) bool {
	if uint64(i.memory.Size()) > size {
		i.lease.cutTo = size
		i.memory.Grow(1)
		i.lease.cutTo = 0
	}
	return uint64(i.memory.Size()) == size
}

// retire ends the use of an instance like drop, but keeps it if that is worth it.
func (g *guest) retire() {
	if g.closed {
		return
	}
	e, m := g.entry, g.image
	if m == nil || !g.reset(m) {
		g.drop()
		return
	}
	if g.stackGrew() {
		g.door, g.stack = nil, nil // obtain makes others
	}
	g.closed = true
	e.host.slots.letGo(&g.slot)
	g.tell()
	e.host.counter.instances.Add(-1)
	e.host.spares.put(spare{e, g.spares, m, g.instance}, max(minSpares, e.host.opt.MaxCalls))
	e.host.release(e)
}

// spare is an instance that is as the image says.
type spare struct {
	entry *entry
	owner uint64
	image *image
	*instance
}

func (s *spare) bytes() uint64 {
	return s.image.size + uint64(len(s.image.memory)) + spareBytes
}

// spares are those of a host.
type spares struct {
	mu    sync.Mutex
	list  []spare // guarded by mu, the one that has been there longest first
	bytes uint64  // guarded by mu
}

// take returns one for an owner, if there is any.
func (s *spares) take(e *entry, owner uint64) (it spare, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.list) - 1; i >= 0; i-- {
		if it := s.list[i]; it.entry == e && it.owner == owner {
			s.remove(i)
			return it, true
		}
	}
	return spare{}, false
}

// put keeps an instance, one of so many of its module and owner at most, and ends those for which
// there is no room beside it. This one stays.
func (s *spares) put(it spare, most int) {
	mostBytes := uint64(it.entry.host.budget.limit / spareShare)
	s.mu.Lock()
	s.list = append(s.list, it)
	s.bytes += it.bytes()
	var ended []spare
	its := 0
	for i := len(s.list) - 1; i >= 0; i-- {
		if same := s.list[i]; same.entry == it.entry && same.owner == it.owner {
			if its++; its > most {
				ended = append(ended, same)
				s.remove(i)
			}
		}
	}
	for len(s.list) > 1 && (s.bytes > mostBytes || len(s.list) > maxPooledRegions) {
		ended = append(ended, s.list[0])
		s.remove(0)
	}
	s.mu.Unlock()
	for _, e := range ended {
		e.end()
	}
}

// remove is called with mu held.
func (s *spares) remove(i int) {
	s.bytes -= s.list[i].bytes()
	s.list = slices.Delete(s.list, i, i+1)
}

// drop ends those that nobody will ask for again.
func (s *spares) drop(gone func(*spare) bool) {
	s.mu.Lock()
	var ended []spare
	for i := len(s.list) - 1; i >= 0; i-- {
		if gone(&s.list[i]) {
			ended = append(ended, s.list[i])
			s.remove(i)
		}
	}
	s.mu.Unlock()
	for _, e := range ended {
		e.end()
	}
}
