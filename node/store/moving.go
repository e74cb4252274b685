package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/devices"
	"github.com/pentad-db/pentad/node/store/scan"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
	"github.com/pentad-db/pentad/sdk/where"
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
// the last ones before it. What that cost is added to cost.
//
// Where a device meets the selector only in some region, the locations there are read first, by a
// condition that leaves blocks of others unread. The rest, of the devices that were there, only
// says until when: their keys are enough.
//
// Errors: *record.InvalidError where that takes too much memory.
func (s *Store) trackDevices(
	ctx context.Context, q *record.Query, t *devices.Tracker, at *registry.LocationLayout,
	asOfNs int64, cost *ScanStats,
) (*devices.Tracks, error) {
	locations := record.Query{View: record.ViewAsOf, AsOfAcqNs: asOfNs, Box: record.Box{
		record.CID: q.Box[record.CID], record.MID: q.Box[record.MID],
		record.MOID: {record.At(int64(at.MOID))}}}
	within, some := timeOf(q), true
	if !t.Unknown() {
		some = narrow(&locations.Box, t.Wanted())
	}
	places, all, byVisits := t.Region()
	if byVisits {
		locations.Where = regionWhere(places, all, at)
	}
	if some {
		locations.Box[record.Cap] = record.RangeSet{{From: within.FromNs, To: within.ToNs}}
		if err := s.eachLocation(ctx, &locations, at, t, cost); err != nil {
			return nil, err
		}
	}
	if some && within.FromNs > record.Cap.Min() {
		locations.Last, locations.Where = 1, ""
		locations.Box[record.Cap] = record.RangeSet{{From: record.Cap.Min(), To: within.FromNs}}
		if err := s.eachLocation(ctx, &locations, at, t, cost); err != nil {
			return nil, err
		}
	}
	var tracks *devices.Tracks
	var err error
	if byVisits {
		tracks, err = s.trackVisits(ctx, &locations, t, within, at.MaxAgeNs, cost)
	} else {
		tracks, err = t.Tracks(within, at.MaxAgeNs)
	}
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

// trackVisits is trackDevices once the locations that begin visits are known.
func (s *Store) trackVisits(
	ctx context.Context, locations *record.Query, t *devices.Tracker, within devices.Span,
	maxAgeNs int64, cost *ScanStats,
) (*devices.Tracks, error) {
	visits, err := t.Visits(within)
	if err != nil {
		return nil, err
	}
	ends := *locations
	ends.Last, ends.Where, ends.KeysOnly = 0, "", true
	ends.Box[record.MID] = rangesOf(visits.MIDs())
	open := visits.Open(within, maxAgeNs)
	if ends.Box[record.Cap] = nil; open.FromNs >= open.ToNs || !narrowCap(&ends.Box,
		record.Range{From: open.FromNs, To: open.ToNs}) {
		return visits.Tracks(within, maxAgeNs), nil
	}
	sc := s.scans.Begin(ctx, &ends, ends.AsOfAcqNs)
	defer sc.Close()
	if !sc.Empty {
		sc.DropTombstones = true
		err = s.recordDamage(sc.Run(func(int) (Consumer, error) {
			to := Consumer{Columns: 1<<record.MID | 1<<record.Cap}
			to.Rows = func(b *record.Batch) error {
				visits.End(b.MID, b.CapNs)
				return nil
			}
			return to, nil
		}))
		addLocated(cost, &sc.Stats)
	}
	return visits.Tracks(within, maxAgeNs), err
}

// addLocated adds what a scan of locations cost.
func addLocated(cost, of *ScanStats) {
	cost.Located += of.RowsExamined + of.HeadRows
	cost.LocatedBlocks += of.BlocksScanned
	cost.LocatedSkipped += of.BlocksSkipped
}

// regionWhere returns the condition of the locations that are in a region, empty for all: it may
// hold for some that are not.
func regionWhere(places []registry.Expr, all bool, at *registry.LocationLayout) string {
	var parts []string
	for _, x := range places {
		text, ok := registry.PlaceBounds(x, "lat", "lon")
		switch {
		case ok:
			parts = append(parts, "("+text+")")
		case !all:
			return ""
		}
	}
	join := " or "
	if all {
		join = " and "
	}
	if len(parts) == 0 {
		return ""
	}
	bound, err := where.Bind(strings.Join(parts, join), []plugin.Quantity{{MOID: at.MOID,
		Name: registry.LocationQuantity, Type: plugin.Struct, Fields: []plugin.QuantityField{
			{Name: "lat", Type: at.Lat.Type, Offset: at.Lat.Offset},
			{Name: "lon", Type: at.Lon.Type, Offset: at.Lon.Offset}}}},
		[][2]int64{{int64(at.MOID), int64(at.MOID) + 1}})
	if err != nil {
		return "" // a type that is not compared with fractions: the locations are
	}
	return bound
}

// eachLocation tells a tracker the locations that a query finds.
func (s *Store) eachLocation(
	ctx context.Context, q *record.Query, at *registry.LocationLayout, t *devices.Tracker,
	cost *ScanStats,
) error {
	sc := s.scans.Begin(ctx, q, q.AsOfAcqNs)
	defer sc.Close()
	if sc.Empty {
		return nil
	}
	sc.DropTombstones = true
	defer func() { addLocated(cost, &sc.Stats) }()
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
