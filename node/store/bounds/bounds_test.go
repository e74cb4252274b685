package bounds

import (
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// Bounds of rows meet those of a box when a row may be in it.
func TestRowsMeetBoxes(t *testing.T) {
	var rows record.Batch
	for _, mid := range []int64{40, 10, 30} {
		rows.Append(record.Key{CID: 1, MID: mid, MOID: 2, CapNs: mid * 100}, nil)
	}
	b := OfRows(&rows)
	f := func(d record.Dim, from, to int64, want bool) {
		t.Helper()
		var box record.Box
		box[d] = record.RangeSet{{From: from, To: to}}
		o := Of(&box)
		if b.Overlaps(&o) != want || o.Overlaps(&b) != want {
			t.Errorf("%v [%d, %d): want %v", d, from, to, want)
		}
	}
	f(record.MID, 0, 10, false)
	f(record.MID, 0, 11, true)
	f(record.MID, 20, 25, true) // between two rows
	f(record.MID, 40, 41, true)
	f(record.MID, 41, 50, false)
	f(record.CID, 2, 3, false)
	f(record.Cap, 4000, 4001, true)
	f(record.Acq, 5, 6, true) // rows have none before they are stamped
	wide := Of(new(record.Box))
	if b.Include(&wide); !b.Overlaps(All()) || !wide.Overlaps(&b) {
		t.Errorf("%v", b)
	}
}

// Of a set of acqs only what is below an end is left.
func TestClip(t *testing.T) {
	set := record.RangeSet{{From: 1, To: 5}, {From: 8, To: 12}}
	f := func(end int64, want int, last int64) {
		t.Helper()
		got := Clip(set, end)
		if len(got) != want || want > 0 && got[want-1].To != last {
			t.Errorf("below %d: %v", end, got)
		}
	}
	f(1, 0, 0)
	f(2, 1, 2)
	f(8, 1, 5)
	f(9, 2, 9)
	f(20, 2, 12)
}
