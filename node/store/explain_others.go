package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
)

// ExplainDiff is [Store.Diff] for nothing but to say what it found and what that cost. The plan is
// that of the rows that were acquired between the two acqs.
//
// Cost: that of the diff, and of reading these rows once more, which TookNs leaves out.
func (s *Store) ExplainDiff(ctx context.Context, ask *record.Diff) (api.Explanation, error) {
	st, err := s.Diff(ctx, ask, func(*record.Differences) error { return nil })
	if err != nil {
		return api.Explanation{}, err
	}
	checked := *ask
	if err := checked.Normalize(); err != nil {
		return api.Explanation{}, err
	}
	s.scanning.RLock()
	defer s.scanning.RUnlock()
	some, _, err := s.selectInto(ctx, &checked.Box, checked.Select, checked.ToNs)
	if err != nil {
		return api.Explanation{}, err
	}
	q := record.Query{Box: checked.Box, KeysOnly: true}
	if to := min(checked.ToNs, st.HorizonNs); checked.FromNs < to {
		q.Box[record.Acq] = record.RangeSet{{From: checked.FromNs, To: to}}
	} else {
		some = false
	}
	sc := s.scans.Begin(ctx, &q, st.HorizonNs)
	defer sc.Close()
	sc.Empty = sc.Empty || !some
	out, err := sc.Explain(time.Now(), nil)
	out.Shards, out.HorizonNs = len(s.shards), st.HorizonNs
	out.HeadFound, out.Found, out.Examined = st.HeadRows, st.Rows, st.RowsExamined
	out.Opened, out.OpenedBytes, out.Hidden = st.BlocksScanned, st.BytesRead, st.VersionsHidden
	out.Devices, out.SelectNs = st.Devices, st.SelectNs
	out.Workers, out.TookNs = st.Workers, st.TookNs
	return out, err
}

// ExplainChanges says what the next slice of a feed from an acq on reads, see
// [Store.FeedSelected]: up to the acq that the explanation has as its horizon. Devices are those of
// which rows are shown anywhere in it.
func (s *Store) ExplainChanges(
	ctx context.Context, box record.Box, selector string, keysOnly bool, fromNs int64,
) (api.Explanation, error) {
	began := time.Now()
	f, err := s.FeedSelected(box, selector, keysOnly, fromNs)
	if err != nil {
		return api.Explanation{}, err
	}
	defer f.Close()
	end, err := f.planSlice(ctx)
	if err != nil {
		return api.Explanation{}, err
	}
	s.scanning.RLock()
	defer s.scanning.RUnlock()
	if s.closed.Load() {
		return api.Explanation{}, ErrClosed
	}
	q := record.Query{Box: f.box, KeysOnly: keysOnly}
	some := f.next < end
	if some {
		q.Box[record.Acq] = record.RangeSet{{From: f.next, To: end}}
	}
	shown, devices := new(atomic.Uint64), 0
	sink := Sink(func(b *record.Batch) error {
		shown.Add(uint64(b.Len()))
		return nil
	})
	if f.selected != nil {
		some = f.selected.narrow(&q.Box) && some
		sink, devices = f.selected.only(sink), f.selected.shown()
	}
	selectNs := int64(time.Since(began))
	sc := s.scans.Begin(ctx, &q, end)
	defer sc.Close()
	sc.Empty = sc.Empty || !some
	out, err := sc.ExplainRows(began, sink)
	out.Shards, out.HorizonNs, out.Found = len(s.shards), end, shown.Load()
	if f.selected != nil {
		out.Devices, out.SelectNs = devices, selectNs
	}
	return out, err
}

// planSlice returns where the next slice ends, and finds which devices it shows.
func (f *Feed) planSlice(ctx context.Context) (endNs int64, err error) {
	horizon, err := f.store.ExtendHorizon(ctx)
	if err != nil {
		return 0, err
	}
	if f.next > horizon {
		return 0, fmt.Errorf("acq %d, horizon %d: %w", f.next, horizon, ErrAhead)
	}
	for {
		end, passed, err := f.sliceEnd(horizon)
		if err == nil && f.selected != nil && end > f.next {
			end, err = f.selected.prepare(ctx, f.next, end, passed, f.divisor)
		}
		if !errors.Is(err, errSliceFull) {
			return end, err
		}
		f.span = max(1, min(f.span, passed)/fullShrink)
	}
}
