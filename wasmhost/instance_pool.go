package wasmhost

import (
	"bytes"
	"slices"
	"sync"
	"weak"
)

// To start an instance takes 10 to 90 µs, depending on the processor's caches, and a millisecond
// for a program built by Go. So a closed instance is reset to its state after the start, and pooled
// for the next query of the same tenant.

const (
	minPooled      = 4         // of a module and owner, or one for each permit if more
	poolShare      = 16        // the pool has at most this share of Options.TotalBytes, in addition
	maxImageBytes  = 8 << 20   // of memory, which is compared after each query; 3 MiB with Go
	pooledOverhead = 256 << 10 // besides its memory, in the runtime, for a program built by Go
	imagePage      = 4 << 10   // unit of comparison and copying
	maxPooledStack = 16 << 10  // a stack never shrinks
)

// image is the state of an instance after its start: all that calls can change.
type image struct {
	memory  []byte // without trailing zeros
	size    uint64 // of memory
	globals []uint64
	depth   uint64
	wasi    wasiState // without its meter
	usage   Usage
}

// imageOf returns the image of an instance that has just started, nil for one that is not pooled.
func (g *guest) imageOf() *image {
	e := g.entry
	// An instance that was refused memory may get it the next time.
	if !e.resets || g.lease.refused || g.memory.Size() > maxImageBytes {
		return nil
	}
	s := &e.host.instances
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

// reset resets an instance to an image, and reports whether it could.
func (i *instance) reset(m *image) bool {
	// An instance with another depth is in the middle of a call.
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

// shrink shrinks a memory that has grown to its former size: the runtime takes as the new size what
// the allocator returns when more is requested, up to a page beyond the limit.
func (i *instance) shrink(size uint64) bool {
	if uint64(i.memory.Size()) > size {
		i.lease.cutTo = size
		i.memory.Grow(1)
		i.lease.cutTo = 0
	}
	return uint64(i.memory.Size()) == size
}

// retire ends the use of an instance like drop, but returns it to the pool if it can be reset.
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
		g.trampoline, g.stack = nil, nil // obtain creates new ones
	}
	g.closed = true
	e.host.permits.releaseCached(&g.permit)
	g.report()
	e.host.counter.instances.Add(-1)
	e.host.instances.put(pooledInstance{e, g.poolOwner, m, g.instance},
		max(minPooled, e.host.opt.MaxCalls))
	e.host.unpin(e)
}

// pooledInstance is an instance that was reset to an image.
type pooledInstance struct {
	entry *entry
	owner uint64
	image *image
	*instance
}

func (s *pooledInstance) bytes() uint64 {
	return s.image.size + uint64(len(s.image.memory)) + pooledOverhead
}

// instancePool is the pool of a host.
type instancePool struct {
	mu    sync.Mutex
	list  []pooledInstance // guarded by mu, oldest first
	bytes uint64           // guarded by mu
}

// take returns an instance of an owner, if there is one.
func (s *instancePool) take(e *entry, owner uint64) (it pooledInstance, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.list) - 1; i >= 0; i-- {
		if it := s.list[i]; it.entry == e && it.owner == owner {
			s.remove(i)
			return it, true
		}
	}
	return pooledInstance{}, false
}

// put adds an instance. It ends the oldest of its module and owner beyond most of them, and the
// oldest of all beyond the limits of the pool, but not the new one.
func (s *instancePool) put(it pooledInstance, most int) {
	mostBytes := uint64(it.entry.host.budget.limit / poolShare)
	s.mu.Lock()
	s.list = append(s.list, it)
	s.bytes += it.bytes()
	var ended []pooledInstance
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
func (s *instancePool) remove(i int) {
	s.bytes -= s.list[i].bytes()
	s.list = slices.Delete(s.list, i, i+1)
}

// drop ends the instances that will not be used again.
func (s *instancePool) drop(gone func(*pooledInstance) bool) {
	s.mu.Lock()
	var ended []pooledInstance
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
