package partials_test

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/pentad-db/pentad/node/internal/partials"
)

// tableOf returns a table: it is there from the second time on.
func tableOf(
	t *testing.T, c *partials.Cache, s *partials.SegmentTables, key partials.Key, blocks, size int,
) *partials.Table {
	t.Helper()
	if got := c.Table(s, key, blocks, size); got != nil {
		t.Fatal("a table the first time")
	}
	got := c.Table(s, key, blocks, size)
	if got == nil {
		t.Fatal("no table the second time")
	}
	return got
}

func TestFindsWhatWasPut(t *testing.T) {
	c, s := partials.New(1<<20), &partials.SegmentTables{}
	table := tableOf(t, c, s, partials.Key{1}, 10, 8)
	table.Lock()
	defer table.Unlock()
	whole := partials.Partial{Block: 3}
	cut := partials.Partial{Block: 3, Bounded: 2, From: [2]int64{5}, To: [2]int64{9}}
	table.Put(&whole, 7, []byte("wholeone"))
	table.Put(&cut, 2, []byte("cut here"))
	table.Put(&cut, 9, []byte("not this"))
	f := func(p partials.Partial, want string, rows uint32) {
		t.Helper()
		state := make([]byte, 8)
		has := table.Has(&p)
		got, ok := table.Find(&p, state)
		if ok != (want != "") || ok != has || ok && (string(state) != want || got != rows) {
			t.Errorf("%+v: %q of %d rows, %v", p, state, got, ok)
		}
	}
	f(whole, "wholeone", 7)
	f(cut, "cut here", 2)
	f(partials.Partial{Block: 4}, "", 0)
	other := cut
	other.To[0]++
	f(other, "", 0)
	other = cut
	other.Bounded = 4
	f(other, "", 0)
}

// TestPeek: Peek finds tables that have states, and does not count as a use.
func TestPeek(t *testing.T) {
	c, s := partials.New(1<<20), &partials.SegmentTables{}
	for range 3 {
		if c.Peek(s, partials.Key{1}) != nil {
			t.Fatal("a table before the first use")
		}
	}
	c.Table(s, partials.Key{1}, 10, 8)
	if c.Peek(s, partials.Key{1}) != nil {
		t.Error("a table that cannot have states")
	}
	table := c.Table(s, partials.Key{1}, 10, 8)
	if table == nil || c.Peek(s, partials.Key{1}) != table || c.Peek(s, partials.Key{2}) != nil {
		t.Error("another table")
	}
}

func TestDropLeavesNothing(t *testing.T) {
	c, gone, stays := partials.New(1<<20), &partials.SegmentTables{}, &partials.SegmentTables{}
	for key := range byte(3) {
		for _, s := range []*partials.SegmentTables{gone, stays} {
			table := tableOf(t, c, s, partials.Key{key}, 100, 16)
			table.Lock()
			table.Put(&partials.Partial{Block: 1}, 0, make([]byte, 16))
			table.Unlock()
		}
	}
	before := c.Stats()
	gone.Drop()
	if after := c.Stats(); after.States != 3 || after.Bytes != before.Bytes/2 ||
		after.Evicted != 0 {
		t.Errorf("after one of two segments was dropped: %+v, before: %+v", after, before)
	}
	stays.Drop()
	if after := c.Stats(); after.States != 0 || after.Bytes != 0 {
		t.Errorf("after all were dropped: %+v", after)
	}
}

// TestPutAfterDrop: a table of a dropped segment stores nothing.
func TestPutAfterDrop(t *testing.T) {
	c, s := partials.New(1<<20), &partials.SegmentTables{}
	table := tableOf(t, c, s, partials.Key{1}, 500, 16)
	put := func(block uint32) {
		table.Lock()
		defer table.Unlock()
		table.Put(&partials.Partial{Block: block}, 0, make([]byte, 16))
	}
	put(0)
	s.Drop()
	for block := range uint32(500) {
		put(block)
	}
	s.Drop()
	if st := c.Stats(); st.States != 0 || st.Bytes != 0 {
		t.Errorf("kept of a segment that is gone: %+v", st)
	}
}

// TestBounded puts more than there is space for, under many keys, from several goroutines: what is
// found is what was put, and the bound holds.
func TestBounded(t *testing.T) {
	const limit, size, blocks = 64 << 10, 32, 200
	c := partials.New(limit)
	segments := make([]partials.SegmentTables, 4)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(worker), 1))
			state := make([]byte, size)
			for range 3000 {
				s, key := r.IntN(len(segments)), byte(r.IntN(20))
				table := c.Table(&segments[s], partials.Key{key}, blocks, size)
				if table == nil {
					continue
				}
				table.Lock()
				for range 10 {
					p := partials.Partial{Block: r.Uint32N(blocks), Bounded: 1,
						From: [2]int64{r.Int64N(12)}}
					sum := uint64(s)<<48 | uint64(key)<<40 | uint64(p.Block)<<8 |
						uint64(p.From[0])
					if _, ok := table.Find(&p, state); ok {
						if got := binary.LittleEndian.Uint64(state); got != sum {
							t.Errorf("found %x, put %x", got, sum)
						}
						continue
					}
					binary.LittleEndian.PutUint64(state, sum)
					table.Put(&p, 0, state)
				}
				table.Unlock()
				if bytes := c.Stats().Bytes; bytes > limit {
					t.Errorf("%d bytes, at most %d", bytes, limit)
				}
			}
		})
	}
	wg.Wait()
	st := c.Stats()
	if st.Hits == 0 || st.Misses == 0 || st.Evicted == 0 || st.States == 0 {
		t.Errorf("nothing was put to the test: %+v", st)
	}
	for i := range segments {
		segments[i].Drop()
	}
	if st := c.Stats(); st.Bytes != 0 || st.States != 0 {
		t.Errorf("after all were dropped: %+v", st)
	}
}

func TestFindTakesNoMemory(t *testing.T) {
	c, s := partials.New(1<<20), &partials.SegmentTables{}
	table := tableOf(t, c, s, partials.Key{1}, 10, 8)
	p, state := partials.Partial{Block: 3}, make([]byte, 8)
	table.Lock()
	table.Put(&p, 0, state)
	table.Unlock()
	if n := testing.AllocsPerRun(100, func() {
		table.Lock()
		_, ok := table.Find(&p, state)
		table.Unlock()
		if !ok {
			t.Fatal("not found")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestSavedStates: states of different sizes are found, replaced and bounded by their bytes.
func TestSavedStates(t *testing.T) {
	const limit, most = 64 << 10, 8 // of one block
	c, s := partials.New(limit), &partials.SegmentTables{}
	table := tableOf(t, c, s, partials.Key{1}, 20, 0)
	kept := int64(0)
	table.Lock()
	for i := range 20 * most * 2 {
		p := partials.Partial{Block: uint32(i % 20), Bounded: 1,
			From: [partials.Cuts]int64{int64(i)}}
		table.PutSaved(&p, &partials.Saved{State: make([]byte, i), Rows: uint32(i)})
		got, found := table.FindSaved(&p)
		if found && (len(got.State) != i || got.Rows != uint32(i)) || !found && i < 20*most {
			t.Fatalf("state %d: %d bytes of %d rows, %v", i, len(got.State), got.Rows, found)
		}
		if i >= 20*most {
			kept += int64(len(got.State)) // the last of each block are there
		}
	}
	table.Unlock()
	if st := c.Stats(); st.Bytes > limit || st.Bytes < kept {
		t.Errorf("%+v, and states have %d bytes", st, kept)
	}
}
