package wasmhost

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/tetratelabs/wazero/experimental"
)

const (
	// maxPooledRegions bounds the regions kept for the next instance: one per worker of a few
	// queries. A pooled region takes at most pooledBytes of real memory.
	maxPooledRegions = 64
	// pooledBytes is where clearing memory becomes more expensive than returning it to the system
	// and taking page faults later: about 10 µs, the cost of two faults on some machines.
	pooledBytes = 512 << 10

	hugePage = 2 << 20
)

// memoryPool allocates the linear memories of instances. A region is reserved at its maximum size,
// so that growing moves nothing and costs no memory until pages are touched.
type memoryPool struct {
	huge   bool // regions have pages of hugePage
	mu     sync.Mutex
	free   map[uint64][][]byte // guarded by mu, by size of the region
	pooled int                 // guarded by mu
	mapped int64               // guarded by mu: bytes of address space
	closed bool                // guarded by mu: returned regions are unmapped
}

func newMemoryPool(huge bool) *memoryPool {
	return &memoryPool{huge: huge, free: map[uint64][][]byte{}}
}

func (p *memoryPool) mappedBytes() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mapped
}

// take returns a zeroed region, nil if the system has no memory.
func (p *memoryPool) take(size uint64) []byte {
	p.mu.Lock()
	if list := p.free[size]; len(list) > 0 {
		region := list[len(list)-1]
		p.free[size] = list[:len(list)-1]
		p.pooled--
		p.mu.Unlock()
		return region
	}
	p.mu.Unlock()
	region := mapRegion(size, p.huge)
	if region != nil {
		p.mu.Lock()
		p.mapped += int64(size)
		p.mu.Unlock()
	}
	return region
}

// give returns a region to the pool, whose first used bytes may not be zero.
func (p *memoryPool) give(region []byte, used uint64) {
	keep := true
	if used <= pooledBytes {
		clear(region[:used])
	} else {
		keep = zeroRegion(region)
	}
	size := uint64(len(region))
	p.mu.Lock()
	keep = keep && !p.closed && p.pooled < maxPooledRegions
	if keep {
		p.free[size] = append(p.free[size], region)
		p.pooled++
	} else {
		p.mapped -= int64(size)
	}
	p.mu.Unlock()
	if !keep {
		unmapRegion(region)
	}
}

func (p *memoryPool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for size, list := range p.free {
		for _, region := range list {
			unmapRegion(region)
			p.mapped -= int64(size)
		}
	}
	p.free, p.pooled = nil, 0
}

// budget limits the memory of all instances.
type budget struct {
	limit int64
	used  atomic.Int64
}

// take takes bytes from the budget, and reports whether that was possible.
func (b *budget) take(bytes int64) bool {
	if b.used.Add(bytes) <= b.limit {
		return true
	}
	b.used.Add(-bytes)
	return false
}

// full explains why an instance was refused memory.
func (b *budget) full() string {
	return fmt.Sprintf("the %d MiB that all instances have together are in use; ask again",
		b.limit>>20)
}

// lease is the memory of one instance. It is both the allocator for wazero and the memory that this
// returns, because an instance has exactly one.
type lease struct {
	pool   *memoryPool
	budget *budget
	limit  uint64 // size of the region
	most   uint64 // limit of the memory within the region
	region []byte
	used   uint64 // up to here the region may not be zero
	// charged is how much it has taken from the budget; less than used while the instance is
	// pooled.
	charged uint64
	refused bool   // the budget was exhausted once
	cutTo   uint64 // size that the next Reallocate returns, 0 for the requested one
	// refuels reports that a Reallocate requests fuel instead of a page, and returns the size.
	refuels func() (uint64, bool)
}

// Allocate implements experimental.MemoryAllocator.
func (l *lease) Allocate(_, _ uint64) experimental.LinearMemory {
	l.region = l.pool.take(l.limit)
	return l
}

// Reallocate implements experimental.LinearMemory. The bytes do not move.
func (l *lease) Reallocate(size uint64) []byte {
	now, fuel := uint64(0), false
	if l.refuels != nil && l.cutTo == 0 {
		now, fuel = l.refuels()
	}
	switch {
	case fuel:
		size = now
	case l.cutTo > 0:
		size = l.cutTo
	case !l.charge(size):
		return nil
	}
	return l.region[:size:size]
}

// charge takes from the budget what is missing for size bytes, and reports whether that was
// possible.
func (l *lease) charge(size uint64) bool {
	if size > min(l.most, uint64(len(l.region))) {
		return false
	}
	whole := size
	if l.pool.huge { // the first byte touched takes a huge page
		whole = (size + hugePage - 1) &^ (hugePage - 1)
	}
	if whole > l.charged && !l.budget.take(int64(whole-l.charged)) {
		l.refused = true
		return false
	}
	l.charged, l.used = max(l.charged, whole), max(l.used, size)
	return true
}

// idle zeroes the memory after size bytes, and returns everything to the budget.
func (l *lease) idle(size uint64) {
	const page = 64 << 10 // of the system too
	near := min((size+page-1)&^(page-1), l.used)
	clear(l.region[size:near])
	if far := l.region[near:l.used]; len(far) <= pooledBytes || !zeroRegion(far) {
		clear(far)
	}
	l.budget.used.Add(-int64(l.charged))
	l.charged = 0
}

// Free implements experimental.LinearMemory. It may be called twice.
func (l *lease) Free() {
	if l.region != nil {
		l.pool.give(l.region, l.used)
		l.budget.used.Add(-int64(l.charged))
		l.region, l.used, l.charged = nil, 0, 0
	}
}
