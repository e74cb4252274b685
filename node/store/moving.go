package store

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/devices"
	"github.com/pentad-db/pentad/node/store/scan"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// newTracker returns what finds when devices meet the selector of a query of devices that move, and
// where their locations are.
func (s *Store) newTracker(
	q *record.Query, selector *registry.Selector,
) (*devices.Tracker, *registry.LocationLayout, error) {
	moving, err := registry.ParseMoving(q.Moving)
	if err != nil {
		return nil, nil, err
	}
	if moving.Layout == nil {
		return nil, nil, errors.New("store: where locations are in payloads is not known")
	}
	return devices.NewTracker(selector, s.opt.trackBytes), moving.Layout, nil
}

// trackDevices finds when the devices of a query meet its selector, by what they are described as,
// which the tracker knows, and by their locations as of an acq: those in the time of the query, and
// the last ones before it.
//
// Errors: *record.InvalidError where that takes too much memory.
func (s *Store) trackDevices(
	ctx context.Context, q *record.Query, t *devices.Tracker, at *registry.LocationLayout,
	asOfNs int64,
) (*devices.Tracks, error) {
	locations := record.Query{View: record.ViewAsOf, AsOfAcqNs: asOfNs, Box: record.Box{
		record.CID: q.Box[record.CID], record.MID: q.Box[record.MID],
		record.MOID: {record.At(int64(at.MOID))}}}
	within, some := timeOf(q), true
	if !t.Unknown() {
		some = narrow(&locations.Box, t.Wanted())
	}
	if some {
		locations.Box[record.Cap] = record.RangeSet{{From: within.FromNs, To: within.ToNs}}
		if err := s.eachLocation(ctx, &locations, at, t); err != nil {
			return nil, err
		}
	}
	if some && within.FromNs > record.Cap.Min() {
		locations.Last = 1
		locations.Box[record.Cap] = record.RangeSet{{From: record.Cap.Min(), To: within.FromNs}}
		if err := s.eachLocation(ctx, &locations, at, t); err != nil {
			return nil, err
		}
	}
	tracks, err := t.Tracks(within, at.MaxAgeNs)
	if errors.Is(err, devices.ErrTooMany) {
		return nil, &record.InvalidError{Part: "moving", Reason: record.TooLarge, Row: -1,
			Detail: fmt.Sprintf("the locations of the devices take more than %d MiB; ask for a "+
				"shorter time, or for fewer devices", s.opt.trackBytes>>20)}
	}
	return tracks, err
}

// timeOf returns the time from the begin to the end of the caps of a query.
func timeOf(q *record.Query) devices.Span {
	caps := q.Box[record.Cap]
	if len(caps) == 0 {
		return devices.Span{FromNs: record.Cap.Min(), ToNs: record.Cap.Max()}
	}
	return devices.Span{FromNs: caps[0].From, ToNs: caps[len(caps)-1].To}
}

// eachLocation tells a tracker the locations that a query finds.
func (s *Store) eachLocation(
	ctx context.Context, q *record.Query, at *registry.LocationLayout, t *devices.Tracker,
) error {
	sc := s.scans.Begin(ctx, q, q.AsOfAcqNs)
	defer sc.Close()
	if sc.Empty {
		return nil
	}
	sc.DropTombstones = true
	var mu sync.Mutex
	return s.recordDamage(sc.Run(func(int) (Consumer, error) {
		return Consumer{Columns: segment.AllColumns, Rows: func(b *record.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			for i := range b.Len() {
				if b.Tomb(i) {
					continue
				}
				if p, ok := at.Place(b.Payload(i)); ok {
					t.See(b.MID[i], b.CapNs[i], &p)
				} else { // a receiver that did not know either
					t.See(b.MID[i], b.CapNs[i], nil)
				}
			}
			return nil
		}}, nil
	}))
}

// beginTracked begins a scan of the rows of devices at the times of their tracks.
func (s *Store) beginTracked(
	ctx context.Context, q *record.Query, tracks *devices.Tracks, horizon int64,
) *scan.Scan {
	narrowed := *q
	some := narrow(&narrowed.Box, tracks.MIDs())
	if some && q.Last == 0 {
		whole := tracks.Whole()
		some = narrowCap(&narrowed.Box, record.Range{From: whole.FromNs, To: whole.ToNs})
	}
	sc := s.scans.Begin(ctx, &narrowed, horizon)
	sc.Empty = sc.Empty || !some
	sc.Stats.Devices = len(tracks.MIDs())
	sc.SetDrop(func(b *record.Batch, drop func(i int)) {
		var of []devices.Span // of the device of the row before
		last := int64(0)
		for i, mid := range b.MID {
			if i == 0 || mid != last {
				of, last = tracks.Of(mid), mid
			}
			if !devices.Has(of, b.CapNs[i]) {
				drop(i)
			}
		}
	})
	return sc
}

// narrowCap restricts a box to a range of cap, and reports whether any is left.
func narrowCap(box *record.Box, to record.Range) bool {
	caps := box[record.Cap]
	if len(caps) == 0 {
		caps = record.RangeSet{record.All(record.Cap)}
	}
	var left record.RangeSet
	for _, r := range caps {
		if r = (record.Range{From: max(r.From, to.From), To: min(r.To, to.To)}); r.From < r.To {
			left = append(left, r)
		}
	}
	if box[record.Cap] = left; len(left) == 1 && left[0] == record.All(record.Cap) {
		box[record.Cap] = nil
	}
	return len(left) > 0
}
