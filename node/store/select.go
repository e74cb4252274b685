package store

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/devices"
	"github.com/pentad-db/pentad/node/store/scan"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// newSelectScan begins a scan of the devices that a query selects, up to the horizon as of which
// they were.
func (s *Store) newSelectScan(ctx context.Context, q *record.Query) (*scan.Scan, error) {
	began := time.Now()
	asOfNs := int64(math.MaxInt64)
	if q.View == record.ViewAsOf {
		asOfNs = q.AsOfAcqNs
	}
	c, err := newChoice(&q.Box, q.Select, asOfNs)
	if err != nil {
		return nil, err
	}
	mids, horizon, err := s.selectDevices(ctx, c)
	if err != nil {
		return nil, err
	}
	narrowed := *q
	some := narrow(&narrowed.Box, mids)
	sc := s.scans.Begin(ctx, &narrowed, horizon)
	sc.Empty = sc.Empty || !some
	sc.Stats.Devices, sc.Stats.SelectNs = len(mids), int64(time.Since(began))
	return sc, nil
}

// choice is a choice of devices of a tenant by their descriptions as of an acq, or as of the
// horizon if that is less.
type choice struct {
	cid      int32
	selector *registry.Selector
	asOfNs   int64
}

// newChoice returns the choice of a selector from a box of one tenant.
func newChoice(box *record.Box, selector string, asOfNs int64) (*choice, error) {
	s, err := registry.ParseSelector(selector)
	if err != nil {
		return nil, err
	}
	return &choice{int32(box[record.CID][0].From), s, asOfNs}, nil
}

// narrow restricts a box to some of its devices, which ascend, and reports whether any are left.
func narrow(box *record.Box, mids []int64) bool {
	within := box[record.MID]
	box[record.MID] = nil
	for _, mid := range mids {
		if within.Contains(mid) {
			box[record.MID] = appendDevice(box[record.MID], mid)
		}
	}
	return len(box[record.MID]) > 0
}

// selectInto narrows a box to the devices that a selector chooses as of an acq; without a selector
// it stays as it is. It reports whether any devices are left. The caller holds scanning.
func (s *Store) selectInto(
	ctx context.Context, box *record.Box, selector string, asOfNs int64,
) (some bool, stats ScanStats, err error) {
	if selector == "" {
		return true, ScanStats{}, nil
	}
	began := time.Now()
	c, err := newChoice(box, selector, asOfNs)
	if err != nil {
		return false, ScanStats{}, err
	}
	mids, horizon, err := s.selectDevices(ctx, c)
	if err != nil {
		return false, ScanStats{}, err
	}
	return narrow(box, mids), ScanStats{HorizonNs: horizon, Devices: len(mids),
		SelectNs: int64(time.Since(began))}, nil
}

// rangesOf returns a normalized set of ascending values.
func rangesOf(values []int64) (set record.RangeSet) {
	for _, v := range values {
		set = appendDevice(set, v)
	}
	return set
}

// appendDevice adds a value to a normalized set of lesser ones.
func appendDevice(set record.RangeSet, v int64) record.RangeSet {
	if n := len(set); n > 0 && set[n-1].To == v {
		set[n-1].To++
		return set
	}
	return append(set, record.At(v))
}

// selectDevices returns the devices of a choice, ascending, by their descriptions as of a horizon,
// or as of the acq of the choice.
//
// Cost: that of [devices.Index.Select]; of the first call for a tenant, and as of an acq before the
// last change of a description, a scan of all of them; after changes a scan of those that changed.
func (s *Store) selectDevices(
	ctx context.Context, c *choice,
) (mids []int64, horizon int64, err error) {
	mids, horizon, known, err := s.selectKnown(ctx, c)
	if !known && err == nil {
		mids, horizon, known, err = s.selectChanged(ctx, c)
	}
	if known || err != nil {
		return mids, horizon, err
	}
	mids, err = s.selectScanned(ctx, c, nil, min(horizon, c.asOfNs))
	return mids, horizon, err
}

// selectScanned is selectDevices for some devices, nil for all, without the index: it reads their
// descriptions as of an acq that is not above the horizon.
func (s *Store) selectScanned(
	ctx context.Context, c *choice, among record.RangeSet, asOfNs int64,
) (mids []int64, err error) {
	var mu sync.Mutex
	err = s.eachDescription(ctx, c.cid, among, asOfNs,
		func(mid int64, d *registry.Description) {
			if c.selector.Match(d) {
				mu.Lock()
				defer mu.Unlock()
				mids = append(mids, mid)
			}
		})
	slices.Sort(mids)
	return mids, err
}

// selectKnown selects from the index if that is up to date.
func (s *Store) selectKnown(
	ctx context.Context, c *choice,
) (mids []int64, horizon int64, known bool, err error) {
	t := &s.described
	t.mu.RLock()
	defer t.mu.RUnlock()
	if horizon, err = s.ExtendHorizon(ctx); err != nil {
		return nil, 0, false, err
	}
	d := t.tenants[c.cid]
	if changed, any := t.changed(c.cid); d == nil || any || len(changed) > 0 {
		return nil, horizon, false, nil
	}
	mids, known = d.selectAsOf(min(horizon, c.asOfNs), c.selector)
	return mids, horizon, known, nil
}

// selectChanged brings the index up to date, and selects from it.
func (s *Store) selectChanged(
	ctx context.Context, c *choice,
) (mids []int64, horizon int64, known bool, err error) {
	t := &s.described
	t.mu.Lock()
	defer t.mu.Unlock()
	if horizon, err = s.ExtendHorizon(ctx); err != nil {
		return nil, 0, false, err
	}
	d := t.tenants[c.cid]
	changed, any := t.changed(c.cid)
	switch {
	case d == nil || any:
		d, err = s.loadDescriptions(ctx, c.cid, horizon)
	case len(changed) > 0 && !d.tooLarge:
		err = s.updateDescriptions(ctx, d, c.cid, changed, horizon)
	}
	if err != nil {
		return nil, horizon, false, err
	}
	d.fromNs = horizon
	t.keep(c.cid, d)
	t.done(c.cid, horizon)
	mids, known = d.selectAsOf(min(horizon, c.asOfNs), c.selector)
	return mids, horizon, known, nil
}

func (d *described) selectAsOf(asOfNs int64, selector *registry.Selector) ([]int64, bool) {
	if d.tooLarge || asOfNs < d.fromNs {
		return nil, false
	}
	return d.index.Select(selector, nil), true
}

// loadDescriptions makes the index of a tenant. The caller holds described.mu.
func (s *Store) loadDescriptions(
	ctx context.Context, cid int32, horizon int64,
) (*described, error) {
	d := &described{}
	var mu sync.Mutex
	var b devices.Builder
	err := s.eachDescription(ctx, cid, nil, horizon,
		func(mid int64, about *registry.Description) {
			mu.Lock()
			defer mu.Unlock()
			if d.tooLarge = d.tooLarge || b.Bytes() > s.opt.descriptionBytes; !d.tooLarge {
				b.Add(mid, about)
			}
		})
	if err == nil && !d.tooLarge {
		d.index.Load(&b)
	}
	return d, err
}

// updateDescriptions reads descriptions of devices again. The caller holds described.mu.
func (s *Store) updateDescriptions(
	ctx context.Context, d *described, cid int32, changed []int64, horizon int64,
) error {
	var mu sync.Mutex
	now := make(map[int64]*registry.Description, len(changed))
	err := s.eachDescription(ctx, cid, rangesOf(changed), horizon,
		func(mid int64, about *registry.Description) {
			mu.Lock()
			defer mu.Unlock()
			now[mid] = about
		})
	if err != nil {
		return err
	}
	for _, mid := range changed {
		d.index.Set(mid, now[mid])
	}
	if d.index.Bytes() > s.opt.descriptionBytes {
		d.index, d.tooLarge = devices.Index{}, true
	}
	return nil
}

// eachDescription visits the newest description of each device of a tenant as of an acq that is not
// above the horizon: the one with the greatest cap. Payloads that are no descriptions are passed
// over. Workers call visit at the same time.
func (s *Store) eachDescription(
	ctx context.Context, cid int32, mids record.RangeSet, asOfNs int64,
	visit func(mid int64, d *registry.Description),
) error {
	q := record.Query{View: record.ViewAsOf, AsOfAcqNs: asOfNs, Last: 1}
	q.Box = record.Box{record.CID: {record.At(int64(cid))}, record.MID: mids,
		record.MOID: {record.At(record.DescriptionMOID)}}
	sc := s.scans.Begin(ctx, &q, asOfNs)
	defer sc.Close()
	if sc.Empty {
		return nil
	}
	return s.recordDamage(sc.Run(func(int) (Consumer, error) {
		return Consumer{Columns: segment.AllColumns, Rows: func(b *record.Batch) error {
			for i := range b.Len() {
				if b.Tomb(i) {
					continue
				}
				if d, err := registry.Parse(b.Payload(i)); err == nil {
					visit(b.MID[i], d)
				}
			}
			return nil
		}}, nil
	}))
}
