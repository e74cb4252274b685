package index

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestMemory: what is taken overlaps nothing, begins at a line and keeps what is written to it.
func TestMemory(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var m memory
	type taken struct {
		values []int64
		first  int64
	}
	var all []taken
	for i := range int64(400) {
		n := 1 + rng.IntN(1<<(4+rng.IntN(15)))
		values := take[int64](&m, n)
		if len(values) != n || uintptr(unsafe.Pointer(&values[0]))%lineBytes != 0 {
			t.Fatalf("%d values at %p, want %d", len(values), &values[0], n)
		}
		first := i << 32
		for k := range values {
			values[k] = first + int64(k)
		}
		all = append(all, taken{values, first})
	}
	for _, one := range all {
		for k, v := range one.values {
			if v != one.first+int64(k) {
				t.Fatalf("value %d of those from %d is %d", k, one.first, v)
			}
		}
	}
	if take[byte](&m, 0) != nil {
		t.Error("no values have memory")
	}
	if large := take[byte](&m, 3*slabBytes+1); len(large) != 3*slabBytes+1 {
		t.Errorf("%d values", len(large))
	}
	m.giveBack()
	if m.owner != nil || m.rest != nil {
		t.Error("memory that was given back can be taken from")
	}
}

// TestMemoryIsShared: many small memories lie in a few slabs, none in what another one has, and
// what some give back others get.
func TestMemoryIsShared(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng, all, held := rand.New(rand.NewPCG(seed, 0)), [40]memory{}, [40][][]byte{}
	for i := range 3000 {
		k := rng.IntN(len(all))
		if rng.IntN(12) == 0 {
			all[k].giveBack()
			held[k] = nil
			continue
		}
		bytes := take[byte](&all[k], 1+rng.IntN(1<<(6+rng.IntN(16))))
		for at := range bytes {
			bytes[at] = byte(k)
		}
		held[k] = append(held[k], bytes)
		if i%100 > 0 {
			continue
		}
		taken := map[*slab]uint32{}
		for k := range all {
			if all[k].owner == nil {
				continue
			}
			for _, s := range all[k].owner.slabs.shares {
				if taken[s.slab]&s.units != 0 {
					t.Fatalf("two have units %b of a slab", taken[s.slab]&s.units)
				}
				taken[s.slab] |= s.units
			}
			for _, bytes := range held[k] {
				for _, b := range bytes {
					if b != byte(k) {
						t.Fatalf("memory %d has a byte of memory %d", k, b)
					}
				}
			}
		}
		slabs.mu.Lock() // what the collector finds of heads of other tests is given back meanwhile
		for s, units := range taken {
			if s.taken&units != units { // heads of other tests may have some more
				t.Errorf("units %b of a slab are marked as taken, %b are", s.taken, units)
			}
		}
		slabs.mu.Unlock()
	}
	for k := range all {
		all[k].giveBack()
	}
	slabs.mu.Lock()
	for _, s := range slabs.partly {
		if s.taken == 0 {
			t.Error("a slab that nobody has anything of is still shared")
		}
	}
	slabs.mu.Unlock()
	var few [slabUnits]memory
	slabsOf := map[*slab]bool{}
	for k := range few {
		take[byte](&few[k], unitBytes)
		slabsOf[few[k].owner.slabs.shares[0].slab] = true
	}
	if len(slabsOf) > 8 {
		t.Errorf("%d memories of one unit lie in %d slabs", len(few), len(slabsOf))
	}
	for k := range few {
		few[k].giveBack()
	}
}

// TestHeadUnpin: rows can be looked at until the last use ends, and then not by mistake. Heads
// that come later may have their memory.
func TestHeadUnpin(t *testing.T) {
	rows := shapes()[0].rows(rand.New(rand.NewPCG(1, 1)), 3*slabRows)
	first := NewHead(NewWatermarks())
	first.Pin()
	first.Pin()
	first.Insert(rows)
	if first.rows.memory.owner == nil {
		t.Fatal("a large head has no memory of its own")
	}
	first.Unpin()
	frozen := func(h *Head) *record.Batch {
		b := new(record.Batch)
		h.ReadAll(b)
		return b
	}
	if got := frozen(first); !slices.Equal(got.MID, rows.MID) {
		t.Error("rows of a head in use differ")
	}
	bytes := first.Bytes()
	first.Unpin()
	second := NewHead(NewWatermarks())
	second.Insert(rows)
	if got := frozen(second); !slices.Equal(got.CapNs, rows.CapNs) ||
		!slices.Equal(got.Data, rows.Data) {
		t.Error("rows in the memory of other ones differ")
	}
	if first.Rows() != rows.Len() || first.Bytes() != bytes {
		t.Errorf("after the last use: %d rows, %d bytes", first.Rows(), first.Bytes())
	}
	defer func() {
		if recover() == nil {
			t.Error("a head was looked at after its last use")
		}
	}()
	first.CountBelow(0)
}
