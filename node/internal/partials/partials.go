// Package partials is the partial-aggregate cache: it stores the aggregate states of rows of sealed
// blocks, which never change, so that the next query over the same rows does not read them. It is
// bounded in bytes and evicts the tables that were not used recently.
//
// It knows neither plugins nor files: a state is bytes, and a segment is a handle that tables are
// attached to. It starts no goroutines. Its main types are [Cache] and [Table].
package partials

import (
	"sync"
	"unsafe"
)

// Key identifies an aggregation: its modules and their parameters. Equal keys mean that the same
// rows have the same state.
type Key [32]byte

// Partial is the rows of a block that are inside a box. It has bounds in the dimensions in which
// the block reaches beyond the box; the partial of a block inside the box has none.
type Partial struct {
	Block   uint32
	Bounded uint32      // a bit for each dimension that has bounds
	From    [Cuts]int64 // of the dimensions in Bounded, ascending
	To      [Cuts]int64
}

// Cuts is how many dimensions may have bounds.
const Cuts = 2

const (
	maxVariants = 8 // partials of one block in a table; the oldest is replaced first

	// tableBytes is roughly the size of a table without entries, map entries included.
	tableBytes = 256
)

// Stats are counts since the cache was created, and current sizes.
type Stats struct {
	Hits    uint64 // partials whose state was found
	Misses  uint64 // partials whose state was not found
	Stored  uint64
	Evicted uint64 // for lack of memory, or for another partial of their block
	States  int
	Bytes   int64
}

// Cache bounds the bytes of all tables. Eviction is CLOCK over tables.
//
// Locks: Table.mu > Cache.mu.
type Cache struct {
	limit int64

	mu    sync.Mutex
	ring  []*Table // guarded by mu, as all below
	hand  int
	stats Stats
}

// New returns a cache of at most maxBytes.
func New(maxBytes int64) *Cache { return &Cache{limit: maxBytes} }

// Stats returns the current figures.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// SegmentTables holds the tables of one sealed segment. The zero value is ready.
type SegmentTables struct {
	cache  *Cache // of all its tables
	tables map[Key]*Table
}

// Drop removes all tables of a segment that is no longer used.
func (s *SegmentTables) Drop() {
	c := s.cache
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range s.tables {
		c.remove(t)
	}
}

// Table returns the table of a key in a segment of that many blocks. The first call for a key
// returns nil: states are stored only for aggregations that repeat. A query calls it once for each
// segment.
func (c *Cache) Table(s *SegmentTables, key Key, blocks, stateBytes int) *Table {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := s.tables[key]
	if t == nil {
		t = &Table{cache: c, segment: s, key: key, size: stateBytes}
		if !c.reserve(t, tableBytes) {
			return nil
		}
		if s.tables == nil {
			s.cache, s.tables = c, map[Key]*Table{}
		}
		s.tables[key] = t
		t.ringIndex = len(c.ring)
		c.ring = append(c.ring, t)
		return nil
	}
	t.used = true
	if t.newest == nil {
		if !c.reserve(t, int64(4*blocks)) {
			return nil
		}
		t.newest = make([]uint32, blocks)
	}
	return t
}

// Peek returns the table of a key in a segment if it may have states, else nil. It does not count
// as a use for eviction.
func (c *Cache) Peek(s *SegmentTables, key Key) *Table {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := s.tables[key]; t != nil && t.newest != nil {
		return t
	}
	return nil
}

// reserve reserves more bytes for a table and evicts others when needed. It is called with mu held.
func (c *Cache) reserve(t *Table, more int64) bool {
	for c.stats.Bytes+more > c.limit {
		if t.evicted || !c.evict(t) {
			return false
		}
	}
	if t.evicted {
		return false
	}
	c.stats.Bytes += more
	t.bytes += more
	return true
}

// evict removes a table that was not used since the hand passed it, but not asks.
func (c *Cache) evict(asks *Table) bool {
	for range 2 * len(c.ring) {
		c.hand = (c.hand + 1) % len(c.ring)
		t := c.ring[c.hand]
		switch {
		case t == asks:
		case t.used:
			t.used = false
		default:
			c.stats.Evicted += uint64(t.states)
			c.remove(t)
			return true
		}
	}
	return false
}

// remove removes a table from the cache. Holders of it may continue to read it.
func (c *Cache) remove(t *Table) {
	t.evicted = true
	delete(t.segment.tables, t.key)
	last := len(c.ring) - 1
	c.ring[t.ringIndex] = c.ring[last]
	c.ring[t.ringIndex].ringIndex = t.ringIndex
	c.ring[last] = nil
	c.ring = c.ring[:last]
	c.stats.Bytes -= t.bytes
	c.stats.States -= t.states
}

// Table holds the states of one key in one segment.
type Table struct {
	cache   *Cache
	segment *SegmentTables
	key     Key
	size    int // of a state; 0: sizes differ

	// Guarded by the cache's mu.
	bytes     int64
	states    int
	ringIndex int
	used      bool // since the hand passed it
	evicted   bool

	newest []uint32 // by block: index of its newest entry + 1; allocated once, values guarded by mu

	mu      sync.Mutex
	entries []entry  // guarded by mu, as all below
	data    []byte   // their states, if all have one size
	saved   [][]byte // their states, if sizes differ
	unions  unions
	hits    uint64 // not yet added to the stats
	misses  uint64
}

type entry struct {
	partial Partial
	rows    uint32 // that went into its state
	next    uint32 // index of an older entry of the block + 1
}

const entryBytes = int(unsafe.Sizeof(entry{}))

// Lock takes the lock that callers of Find, Has and Put must hold.
func (t *Table) Lock() { t.mu.Lock() }

// Unlock releases the lock.
func (t *Table) Unlock() {
	c := t.cache
	c.mu.Lock()
	c.stats.Hits += t.hits
	c.stats.Misses += t.misses
	c.mu.Unlock()
	t.hits, t.misses = 0, 0
	t.mu.Unlock()
}

// Find copies the state of a partial to dst, if there is one, and returns how many rows it covers.
//
// Cost: some ns; no allocation.
func (t *Table) Find(p *Partial, dst []byte) (rows uint32, found bool) {
	if i := t.lookup(p); i >= 0 {
		t.hits++
		copy(dst, t.data[i*t.size:][:t.size])
		return t.entries[i].rows, true
	}
	t.misses++
	return 0, false
}

// Has reports whether Find would find a partial.
func (t *Table) Has(p *Partial) bool { return t.lookup(p) >= 0 }

func (t *Table) lookup(p *Partial) int {
	for at := t.newest[p.Block]; at != 0; at = t.entries[at-1].next {
		if e := &t.entries[at-1]; e.partial == *p {
			return int(at - 1)
		}
	}
	return -1
}

// Put stores the state of a partial, which covers that many rows, if it is not there already and
// memory allows.
func (t *Table) Put(p *Partial, rows uint32, state []byte) {
	if at, ok := t.enter(p, rows); ok {
		copy(t.data[at*t.size:][:t.size], state)
	}
}

// reserve reserves bytes for the table.
func (t *Table) reserve(n int64) bool {
	t.cache.mu.Lock()
	defer t.cache.mu.Unlock()
	return t.cache.reserve(t, n)
}

// release gives bytes back, unless they were when the table was removed.
func (t *Table) release(n int64) {
	t.cache.mu.Lock()
	defer t.cache.mu.Unlock()
	if !t.evicted {
		t.cache.stats.Bytes -= n
		t.bytes -= n
	}
}

// enter makes the entry of a partial, if it is not there already and memory allows.
func (t *Table) enter(p *Partial, rows uint32) (at int, ok bool) {
	if t.lookup(p) >= 0 {
		return 0, false
	}
	at, replaced := t.oldest(p.Block)
	if !replaced {
		if !t.grow() {
			return 0, false
		}
		at = len(t.entries)
		t.entries = append(t.entries, entry{})
		if t.size == 0 {
			t.saved = append(t.saved, nil)
		} else {
			t.data = t.data[:len(t.data)+t.size]
		}
	}
	if replaced {
		t.dropUnions()
	}
	t.entries[at] = entry{*p, rows, t.newest[p.Block]}
	t.newest[p.Block] = uint32(at + 1)
	t.count(replaced)
	return at, true
}

func (t *Table) count(replaced bool) {
	c := t.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Stored++
	if replaced {
		c.stats.Evicted++
	} else if !t.evicted {
		t.states++
		c.stats.States++
	}
}

// oldest unlinks the oldest entry of a block that has maxVariants entries.
func (t *Table) oldest(block uint32) (at int, found bool) {
	link, n := &t.newest[block], 1
	for *link != 0 {
		e := &t.entries[*link-1]
		if e.next == 0 && n == maxVariants {
			at = int(*link - 1)
			*link = 0
			return at, true
		}
		link, n = &e.next, n+1
	}
	return 0, false
}

// firstEntries is the initial capacity of a table.
const firstEntries = 64

// grow makes space for one more entry; capacity grows by half.
func (t *Table) grow() bool {
	if len(t.entries) < cap(t.entries) {
		return true
	}
	more := max(firstEntries, len(t.entries)/2)
	bytes := t.size
	if bytes == 0 {
		bytes = int(unsafe.Sizeof(t.saved[0]))
	}
	if !t.reserve(int64(more * (entryBytes + bytes))) {
		return false
	}
	capacity := len(t.entries) + more
	t.entries = append(make([]entry, 0, capacity), t.entries...)
	if t.size == 0 {
		t.saved = append(make([][]byte, 0, capacity), t.saved...)
	} else {
		t.data = append(make([]byte, 0, capacity*t.size), t.data...)
	}
	return true
}
