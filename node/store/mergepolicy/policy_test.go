package mergepolicy

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSegmentsStayFew: however much segments differ in size, merges leave fewer than those from
// which on puts are slowed down, and write each row a few times.
func TestSegmentsStayFew(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	const full = 1 << 21
	for name, size := range map[string]func() int64{
		"of one size": func() int64 { return full },
		"up to full":  func() int64 { return 1000 + rng.Int64N(full) },
		"of all sizes": func() int64 {
			return int64(1000 * math.Pow(2000, rng.Float64()))
		},
		"tiny and full": func() int64 { return []int64{2000, full}[rng.IntN(2)] },
	} {
		var all []Segment
		put, merged, most := int64(0), int64(0), 0
		for range 600 {
			next := Segment{Rows: size(), MaxRows: MaxRows}
			all = append(all, next)
			put += next.Rows
			for run := Due(all); !run.IsNone(); run = Due(all) {
				all[run.From].Rows = run.Rows
				all = slices.Delete(all, run.From+1, run.To)
				merged += run.Rows
			}
			most = max(most, Backlog(all))
		}
		if times := float64(merged) / float64(put); most >= 24 || times > 4.5 {
			t.Errorf("segments %s: up to %d of them, rows merged %.1f times", name, most, times)
		}
	}
}

func TestIdle(t *testing.T) {
	most := int64(MaxRows)
	f := func(rows []int64, failedFirst, wantFrom, wantTo int) {
		t.Helper()
		all := make([]Segment, len(rows))
		for i := range rows {
			all[i] = Segment{Rows: rows[i], MaxRows: most, FailedLately: i == failedFirst}
		}
		got := Idle(all)
		if got.From != wantFrom || got.To != wantTo {
			t.Errorf("%v: %+v", rows, got)
		}
	}
	f(nil, -1, 0, 0)
	f([]int64{1000}, -1, 0, 0)
	f([]int64{1000, 249}, -1, 0, 0)
	f([]int64{1000, 250}, -1, 0, 2)
	f([]int64{1001, 200, 50}, -1, 1, 3)
	f([]int64{1000, 100, 50, 30, 20}, -1, 1, 5)
	f([]int64{71e6, 17e6, 12e6}, -1, 0, 3)
	f([]int64{71e6, 17e6, 12e6}, 0, 1, 3)
	f([]int64{71e6, 17e6, 19e6}, -1, 1, 3) // 107 M rows would not have 16 bits for their blocks
	f([]int64{90e6, 90e6}, -1, 0, 0)
	f([]int64{40e6, 40e6, 40e6, 20e6}, -1, 1, 4)
	most = 1 << 24 // of rows from below: a merge keeps some bytes of each
	f([]int64{9e6, 7e6, 5e6}, -1, 1, 3)
	f([]int64{9e6, 8e6, 9e6}, -1, 0, 0)
}

// TestIdleOfCarried: an idle store clusters carried blocks of a segment with smaller ones next to
// it, even if they are few, and leaves a larger one as it is that has none.
func TestIdleOfCarried(t *testing.T) {
	f := func(rows []int64, carried, wantFrom, wantTo int) {
		t.Helper()
		all := make([]Segment, len(rows))
		for i := range rows {
			all[i] = Segment{Rows: rows[i], MaxRows: MaxRows, Carried: i == carried}
		}
		if got := Idle(all); got.From != wantFrom || got.To != wantTo {
			t.Errorf("%v: %+v", rows, got)
		}
	}
	f([]int64{1000}, 0, 0, 1)
	f([]int64{1000, 10}, 0, 0, 2)
	f([]int64{1000, 10}, 1, 1, 2)
	f([]int64{9000, 1000, 10}, 1, 1, 3)
	f([]int64{100e6, 8e6, 1e6}, 1, 1, 3)
	f([]int64{9000, 10, 10}, 0, 0, 3)
}

// Only segments that merges still make fewer are counted: not those of at least a quarter of the
// largest, which four of are never merged.
func TestBacklog(t *testing.T) {
	most := int64(MaxRows)
	f := func(small, large, want int) {
		t.Helper()
		var all []Segment
		add := func(count int, rows int64) {
			for range count {
				all = append(all, Segment{Rows: rows, MaxRows: most})
			}
		}
		add(small, most/4-1)
		add(large, most/4)
		if got := Backlog(all); got != want {
			t.Errorf("%d small, %d large segments: %d, want %d", small, large, got, want)
		}
	}
	f(0, 0, 0)
	f(24, 0, 24)
	f(0, 240, 0)
	f(25, 240, 25)
	most = 1 << 24
	f(27, 240, 27)
}

// Neighbours of about one size are due, the smallest first, but for those with a damaged segment
// between them; those of a window that has ended may be fewer.
func TestDue(t *testing.T) {
	f := func(all []Segment, want Run) {
		t.Helper()
		for i := range all {
			all[i].MaxRows = MaxRows
		}
		if got := Due(all); got != want {
			t.Errorf("%+v: %+v, want %+v", all, got, want)
		}
	}
	one := func(rows int64) Segment { return Segment{Rows: rows} }
	f(nil, Run{})
	f([]Segment{one(5), one(5), one(5)}, Run{})
	f([]Segment{one(5), one(5), one(5), one(5)}, Run{0, 4, 20})
	f([]Segment{one(5000), one(5), one(5), one(5), one(5)}, Run{1, 5, 20})
	f([]Segment{one(84), one(84), one(21), one(11)}, Run{}) // would write 84 again for 21
	f([]Segment{one(84), one(84), one(84), one(11)}, Run{0, 4, 263})
	f([]Segment{one(21), one(21), one(21), one(11)}, Run{0, 4, 74})
	f([]Segment{one(5), one(5), {Damaged: true}, one(5), one(5)}, Run{})
	f([]Segment{{Rows: 5, FailedLately: true}, one(5), one(5), one(5)}, Run{})
	at := func(ns int64) Segment { return Segment{Rows: 5, Newest: Window{10, ns, ns}} }
	f([]Segment{at(1), at(2), at(3)}, Run{})
	f([]Segment{at(1), at(2), at(13)}, Run{0, 2, 10})
}
