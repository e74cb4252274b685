package tombstone

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/store/bounds"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/sdk/record"
)

func randomSource(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func boxOf(d record.Dim, from, to int64) record.Box {
	var x record.Box
	x[d] = record.RangeSet{{From: from, To: to}}
	return x
}

// randomBox is a box of which some parts are all, some one value and some a few ranges.
func randomBox(t *testing.T, rng *rand.Rand) record.Box {
	t.Helper()
	q := record.Query{}
	for d := range record.NumDims {
		for range rng.IntN(3) {
			from := rng.Int64N(1000)
			to := from + 1 + rng.Int64N(1+from/3)
			q.Box[d] = append(q.Box[d], record.Range{From: from, To: to})
		}
	}
	if err := q.Normalize(); err != nil {
		t.Fatal(err)
	}
	return q.Box
}

// A tree finds the events that a look at each of them finds.
func TestEventTree(t *testing.T) {
	rng := randomSource(t)
	found, missed := 0, 0
	for _, count := range []int{0, 1, treeFan, treeFan + 1, 40, treeFan * treeFan, 1000} {
		var all []*Range
		for len(all) < count {
			e := event.Event{AcqNs: 1 + rng.Int64N(2000), Kind: event.Erase, Box: randomBox(t, rng)}
			if r, ok := Of(&e); ok {
				all = append(all, r)
			}
		}
		before := slices.Clone(all)
		tree := NewTree(all)
		if !slices.Equal(all, before) {
			t.Fatal("the list was sorted")
		}
		for range 200 {
			box := randomBox(t, rng)
			b := bounds.Of(&box)
			want, newest := map[*Range]bool{}, int64(0)
			for _, r := range all {
				if r.Box.Overlaps(&box) {
					want[r], newest = true, max(newest, r.AcqNs)
				}
			}
			found, missed = found+len(want), missed+count-len(want)
			if got := tree.NewestOf(&box, &b, 0); got != newest {
				t.Fatalf("%d events: newest of %v is %d, want %d", count, box, got, newest)
			}
			tree.Each(&box, &b, func(r *Range) {
				if !want[r] {
					t.Fatalf("%d events: %v for %v, twice or wrongly", count, r.Box, box)
				}
				delete(want, r)
			})
			if len(want) > 0 {
				t.Fatalf("%d events: %d that meet %v are not found", count, len(want), box)
			}
		}
	}
	if found == 0 || missed == 0 {
		t.Fatalf("%d found, %d missed", found, missed)
	}
}

// Of many events a tree looks at few for a box of one device, of one tenant or of one moment,
// whichever of these the events differ in.
func TestEventTreeLooksAtFew(t *testing.T) {
	const count = 10_000
	for _, d := range []record.Dim{record.CID, record.MID, record.Cap, record.Acq} {
		var all []*Range
		for i := range int64(count) {
			e := event.Event{AcqNs: 1e9 + i, Kind: event.Erase, Box: boxOf(d, i*100, i*100+50)}
			r, ok := Of(&e)
			if !ok {
				t.Fatal(e)
			}
			all = append(all, r)
		}
		tree := NewTree(all)
		box := boxOf(d, 500_000, 500_001)
		b := bounds.Of(&box)
		if n := tree.looks(&b); n > 10*treeFan {
			t.Errorf("%v: %d looks for one event", d, n)
		}
	}
}

// looks counts the nodes and events whose bounds are held against those of a box.
func (t *Tree) looks(b *bounds.Box) int {
	if !t.bounds.Overlaps(b) {
		return 1
	}
	n := 1 + len(t.tombstones)
	for _, child := range t.children {
		n += child.looks(b)
	}
	return n
}
