package feed

import (
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestMergedOpenSlices merges a source that has many records of one acq with one that has few: each
// record is handed on once, in slices as large as the source gave them, and the acq stays open for
// as long as there are more.
func TestMergedOpenSlices(t *testing.T) {
	slice := func(closedNs int64, mids []int64, acqs ...int64) *store.Slice {
		s := &store.Slice{ClosedNs: closedNs}
		for i, acq := range acqs {
			s.Rows.AppendStamped(record.Key{MID: mids[i], AcqNs: acq}, nil)
		}
		return s
	}
	mids := func(from int64) []int64 { return []int64{from, from + 1, from + 2} }
	many, few := newBuffer(nil, 0), newBuffer(nil, 0)
	var wg sync.WaitGroup
	send := func(a *buffer, all ...*store.Slice) {
		wg.Go(func() {
			defer close(a.slices)
			for _, s := range all {
				a.slices <- s
			}
		})
	}
	send(many, slice(5, mids(0), 3, 4), slice(5, mids(10), 5, 5, 5), slice(5, mids(20), 5, 5, 5),
		slice(5, mids(30), 5, 5, 5), slice(6, mids(40), 5), slice(20, mids(50), 7))
	send(few, slice(4, mids(100), 3), slice(9, mids(110), 5, 8), slice(20, mids(120), 10))
	met := map[int64]int{}
	last, open := int64(0), 0
	closed, err := mergeChanges(t.Context(), []*buffer{many, few}, 0, 0, new(Demand),
		func(s *store.Slice) error {
			for i, acq := range s.Rows.AcqNs {
				met[s.Rows.MID[i]]++
				if acq < last {
					t.Errorf("acq %d after %d", acq, last)
				}
				last = acq
			}
			if s.IsOpen() {
				open++
			}
			if s.Rows.Len() > 4 {
				t.Errorf("a slice of %d records", s.Rows.Len())
			}
			return nil
		})
	wg.Wait()
	if err != nil || closed != 20 || len(met) != 17 || open != 3 ||
		slices.Max(slices.Collect(maps.Values(met))) != 1 {
		t.Errorf("closed %d, %d records, %d open slices, %v", closed, len(met), open, err)
	}
}

// TestMergedSlicesFitAFrame also where many rows share an acq; all of one acq is in one slice.
func TestMergedSlicesFitAFrame(t *testing.T) {
	rows := func(count int, acqs ...int64) *buffer {
		a := &buffer{}
		for _, acq := range acqs {
			for range count {
				a.rows.AppendStamped(record.Key{AcqNs: acq}, nil)
			}
		}
		return a
	}
	all := []*buffer{rows(30_000, 5, 6), rows(30_000, 5), rows(30_000, 7)}
	var got []int
	var closed []int64
	err := emitMerged(all, 9, func(s *store.Slice) error {
		got, closed = append(got, s.Rows.Len()), append(closed, s.ClosedNs)
		return nil
	})
	if err != nil || !slices.Equal(got, []int{60_000, 60_000}) ||
		!slices.Equal(closed, []int64{6, 9}) {
		t.Errorf("slices of %v rows, closed at %v, %v", got, closed, err)
	}
}
