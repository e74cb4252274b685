package index

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

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
	if m.slabs != nil || m.rest != nil {
		t.Error("memory that was given back can be taken from")
	}
}

// TestHeadRelease: rows can be looked at until the last use ends, and then not by mistake. Heads
// that come later may have their memory.
func TestHeadRelease(t *testing.T) {
	rows := shapes()[0].rows(rand.New(rand.NewPCG(1, 1)), 3*slabRows)
	first := NewHead(NewWatermarks())
	first.Retain()
	first.Retain()
	first.Insert(rows)
	if len(first.rows.memory.slabs) == 0 {
		t.Fatal("a large head has no slab")
	}
	first.Release()
	frozen := func(h *Head) *record.Batch {
		b := new(record.Batch)
		h.Freeze(b)
		return b
	}
	if got := frozen(first); !slices.Equal(got.MID, rows.MID) {
		t.Error("rows of a head in use differ")
	}
	bytes := first.Bytes()
	first.Release()
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
	first.Below(0)
}
