package index

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestCellTable: every cell is found under its key, and no other, while the table grows.
func TestCellTable(t *testing.T) {
	h := NewHead(NewWatermarks())
	rng := rand.New(rand.NewPCG(3, 1))
	want := map[cellKey]*cell{}
	for range 5000 {
		key := cellKey{cid: rng.Int32N(4), moid: math.MaxInt32 - rng.Int32N(4),
			deviceRange: rng.Int64N(1000) - 500}
		if _, ok := h.find(key); ok != (want[key] != nil) {
			t.Fatalf("%v is found: %v", key, ok)
		}
		c := h.cell(key)
		if want[key] != nil && want[key] != c || c.key != key {
			t.Fatalf("%v has the cell of %v", key, c.key)
		}
		want[key] = c
	}
	for key, c := range want {
		if id, ok := h.find(key); !ok || h.list[id] != c {
			t.Fatalf("%v is lost", key)
		}
	}
	if len(h.list) != len(want) {
		t.Errorf("%d cells, want %d", len(h.list), len(want))
	}
}

// TestFlagsWithinGroup: rows of one batch flag each other the same, whether their cell gets its
// table before them, among them or not at all.
func TestFlagsWithinGroup(t *testing.T) {
	for rows := 1; rows <= 3*lookUpRows; rows++ {
		h, b := NewHead(NewWatermarks()), new(record.Batch)
		newest := map[int64]int64{}
		want := 0
		rng := rand.New(rand.NewPCG(uint64(rows), 1))
		for i := range rows {
			k := record.Key{MID: rng.Int64N(8), CapNs: rng.Int64N(100), AcqNs: int64(i) + 1}
			if most, ok := newest[k.MID]; ok && k.CapNs <= most {
				want++
			}
			newest[k.MID] = max(newest[k.MID], k.CapNs)
			b.AppendStamped(k, nil)
		}
		if h.Insert(b); h.Flagged() != want {
			t.Fatalf("%d rows: %d are flagged, want %d", rows, h.Flagged(), want)
		}
	}
}
