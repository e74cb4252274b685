// Package kept keeps what plugins have made of rows of sealed blocks, which never change, so that
// the next question that has the same of them in its box need not read them. A cache is bounded in
// bytes; what nobody asked for lately goes.
//
// It knows neither plugins nor files: a state is bytes, and a segment is a place to which tables of
// them belong. Its main types are [Cache] and [Table].
package kept

import (
	"sync"
	"unsafe"
)

// Key says what rows went through: modules and their parameters. Two of them are equal only when
// the same rows have the same state.
type Key [32]byte

// Part is what a box holds of a block: its rows between bounds, in dimensions in which the block
// reaches beyond the box. A block that lies inside the box is a part without bounds.
type Part struct {
	Block uint32
	Need  uint32      // a bit for each dimension that has bounds
	From  [Cuts]int64 // of the dimensions in Need, ascending
	To    [Cuts]int64
}

// Cuts is how many dimensions may have bounds.
const Cuts = 2

const (
	maxVariants = 8 // parts of one block in a table; the one not replaced for longest goes

	// tableBytes is about what a table takes without entries, its place in maps included.
	tableBytes = 256
)

// Stats are counts since the cache was made, and sizes now.
type Stats struct {
	Hits    uint64 // parts that a state was there for
	Misses  uint64 // parts that none was there for
	Kept    uint64 // states that were kept
	Evicted uint64 // states that went because there was no room, or for another part of their block
	States  int
	Bytes   int64
}

// Cache bounds the bytes of all tables.
//
// Locks: Table.mu > Cache.mu.
type Cache struct {
	limit int64

	mu    sync.Mutex
	ring  []*Table // guarded by mu, as all below; the hand goes round
	hand  int
	stats Stats
}

// New returns a cache of at most so many bytes.
func New(maxBytes int64) *Cache { return &Cache{limit: maxBytes} }

// Stats returns the present figures.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// Segment is a sealed segment as tables belong to it. The zero value is ready.
type Segment struct {
	cache  *Cache // of its tables; one only
	tables map[Key]*Table
}

// Drop forgets everything of a segment, which nobody uses any more.
func (s *Segment) Drop() {
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

// Table returns the table of a key in a segment of so many blocks. It is nil the first time: what
// is asked once is not kept. Whoever may ask several times for one question asks once.
func (c *Cache) Table(s *Segment, key Key, blocks, stateBytes int) *Table {
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
		t.place = len(c.ring)
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

// Look returns the table of a key in a segment if it may have states, nil else. Who looks does not
// ask: a table goes or stays as if nobody had.
func (c *Cache) Look(s *Segment, key Key) *Table {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := s.tables[key]; t != nil && t.newest != nil {
		return t
	}
	return nil
}

// reserve makes room for more bytes of a table, at the expense of others. The caller holds mu.
func (c *Cache) reserve(t *Table, more int64) bool {
	for c.stats.Bytes+more > c.limit {
		if t.gone || !c.evict(t) {
			return false
		}
	}
	if t.gone {
		return false
	}
	c.stats.Bytes += more
	t.bytes += more
	return true
}

// evict removes a table that nobody asked for since the hand came by, but not the one that asks.
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

// remove forgets a table. Who has it may go on reading it.
func (c *Cache) remove(t *Table) {
	t.gone = true
	delete(t.segment.tables, t.key)
	last := len(c.ring) - 1
	c.ring[t.place] = c.ring[last]
	c.ring[t.place].place = t.place
	c.ring[last] = nil
	c.ring = c.ring[:last]
	c.stats.Bytes -= t.bytes
	c.stats.States -= t.states
}

// Table has the states of one key in one segment.
type Table struct {
	cache   *Cache
	segment *Segment
	key     Key
	size    int // of a state

	// Guarded by the cache's mu.
	bytes  int64
	states int
	place  int  // in the ring
	used   bool // since the hand came by
	gone   bool

	newest []uint32 // by block, number of the entry + 1; made once, the entries guarded by mu

	mu      sync.Mutex
	entries []entry // guarded by mu, as all below
	data    []byte  // their states
	hits    uint64  // not yet in the stats
	misses  uint64
}

type entry struct {
	part Part
	rows uint32 // that went into its state
	next uint32 // an older one of the block, number + 1
}

const entryBytes = int(unsafe.Sizeof(entry{}))

// Lock takes the lock that Find, Has and Put need, for several of them.
func (t *Table) Lock() { t.mu.Lock() }

// Unlock gives the lock back.
func (t *Table) Unlock() {
	c := t.cache
	c.mu.Lock()
	c.stats.Hits += t.hits
	c.stats.Misses += t.misses
	c.mu.Unlock()
	t.hits, t.misses = 0, 0
	t.mu.Unlock()
}

// Find copies the state of a part to dst, if there is one, and returns how many rows went into it.
//
// Cost: some ns; no allocation.
func (t *Table) Find(p *Part, dst []byte) (rows uint32, found bool) {
	if i := t.lookup(p); i >= 0 {
		t.hits++
		copy(dst, t.data[i*t.size:][:t.size])
		return t.entries[i].rows, true
	}
	t.misses++
	return 0, false
}

// Has reports whether Find would find a part.
func (t *Table) Has(p *Part) bool { return t.lookup(p) >= 0 }

func (t *Table) lookup(p *Part) int {
	for at := t.newest[p.Block]; at != 0; at = t.entries[at-1].next {
		if e := &t.entries[at-1]; e.part == *p {
			return int(at - 1)
		}
	}
	return -1
}

// Put keeps the state of a part into which so many rows went, if there is room, and it is not there
// already.
func (t *Table) Put(p *Part, rows uint32, state []byte) {
	if t.lookup(p) >= 0 {
		return
	}
	at, replaced := t.oldest(p.Block)
	if !replaced {
		if !t.grow() {
			return
		}
		at = len(t.entries)
		t.entries = append(t.entries, entry{})
		t.data = t.data[:len(t.data)+t.size]
	}
	t.entries[at] = entry{*p, rows, t.newest[p.Block]}
	t.newest[p.Block] = uint32(at + 1)
	copy(t.data[at*t.size:][:t.size], state)
	t.count(replaced)
}

func (t *Table) count(replaced bool) {
	c := t.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Kept++
	if replaced {
		c.stats.Evicted++
	} else if !t.gone {
		t.states++
		c.stats.States++
	}
}

// oldest takes the oldest entry of a block out when it has as many as it may have.
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

// firstEntries is how many entries a table has room for at first.
const firstEntries = 64

// grow makes room for one entry more, half as many again as there are.
func (t *Table) grow() bool {
	if len(t.entries) < cap(t.entries) {
		return true
	}
	more := max(firstEntries, len(t.entries)/2)
	c := t.cache
	c.mu.Lock()
	ok := c.reserve(t, int64(more*(entryBytes+t.size)))
	c.mu.Unlock()
	if !ok {
		return false
	}
	room := len(t.entries) + more
	t.entries = append(make([]entry, 0, room), t.entries...)
	t.data = append(make([]byte, 0, room*t.size), t.data...)
	return true
}
