package store

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/store/devices"
	"github.com/pentad-db/pentad/node/store/scan"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// newSelectScan begins a scan of the devices that a query selects, up to the horizon as of which
// they were.
func (s *Store) newSelectScan(ctx context.Context, q *record.Query) (*scan.Scan, error) {
	began := time.Now()
	selector, err := registry.ParseSelector(q.Select)
	if err != nil {
		return nil, err
	}
	mids, horizon, err := s.selectDevices(ctx, q, selector)
	if err != nil {
		return nil, err
	}
	narrowed := *q
	narrowed.Box[record.MID] = rangesOf(slices.DeleteFunc(mids, func(mid int64) bool {
		return !q.Box[record.MID].Contains(mid)
	}))
	sc := s.scans.Begin(ctx, &narrowed, horizon)
	sc.Empty = sc.Empty || len(narrowed.Box[record.MID]) == 0
	sc.Stats.Devices, sc.Stats.SelectNs = len(mids), int64(time.Since(began))
	return sc, nil
}

// rangesOf returns a normalized set of ascending values.
func rangesOf(values []int64) (set record.RangeSet) {
	for _, v := range values {
		if n := len(set); n > 0 && set[n-1].To == v {
			set[n-1].To++
		} else {
			set = append(set, record.At(v))
		}
	}
	return set
}

// selectDevices returns the devices of the query's tenant that a selector chooses, ascending, by
// their descriptions as of a horizon, or as of the acq of the query.
//
// Cost: that of [devices.Index.Select]; of the first call for a tenant, and as of an acq before the
// last change of a description, a scan of all of them; after changes a scan of those that changed.
func (s *Store) selectDevices(
	ctx context.Context, q *record.Query, selector *registry.Selector,
) (mids []int64, horizon int64, err error) {
	cid := int32(q.Box[record.CID][0].From)
	mids, horizon, known, err := s.selectKnown(ctx, q, cid, selector)
	if !known && err == nil {
		mids, horizon, known, err = s.selectChanged(ctx, q, cid, selector)
	}
	if known || err != nil {
		return mids, horizon, err
	}
	var mu sync.Mutex
	err = s.eachDescription(ctx, cid, nil, describedAsOf(q, horizon),
		func(mid int64, d *registry.Description) {
			if selector.Match(d) {
				mu.Lock()
				defer mu.Unlock()
				mids = append(mids, mid)
			}
		})
	slices.Sort(mids)
	return mids, horizon, err
}

// describedAsOf returns the acq as of which a query sees descriptions.
func describedAsOf(q *record.Query, horizonNs int64) int64 {
	if q.View == record.ViewAsOf {
		return min(horizonNs, q.AsOfAcqNs)
	}
	return horizonNs
}

// selectKnown selects from the index if that is up to date.
func (s *Store) selectKnown(
	ctx context.Context, q *record.Query, cid int32, selector *registry.Selector,
) (mids []int64, horizon int64, known bool, err error) {
	t := &s.described
	t.mu.RLock()
	defer t.mu.RUnlock()
	if horizon, err = s.ExtendHorizon(ctx); err != nil {
		return nil, 0, false, err
	}
	d := t.tenants[cid]
	if changed, any := t.changed(cid); d == nil || any || len(changed) > 0 {
		return nil, horizon, false, nil
	}
	mids, known = d.selectAsOf(describedAsOf(q, horizon), selector)
	return mids, horizon, known, nil
}

// selectChanged brings the index up to date, and selects from it.
func (s *Store) selectChanged(
	ctx context.Context, q *record.Query, cid int32, selector *registry.Selector,
) (mids []int64, horizon int64, known bool, err error) {
	t := &s.described
	t.mu.Lock()
	defer t.mu.Unlock()
	if horizon, err = s.ExtendHorizon(ctx); err != nil {
		return nil, 0, false, err
	}
	d := t.tenants[cid]
	changed, any := t.changed(cid)
	switch {
	case d == nil || any:
		d, err = s.loadDescriptions(ctx, cid, horizon)
	case len(changed) > 0 && !d.tooLarge:
		err = s.updateDescriptions(ctx, d, cid, changed, horizon)
	}
	if err != nil {
		return nil, horizon, false, err
	}
	d.fromNs = horizon
	t.keep(cid, d, tenantsOfDescriptions*s.opt.descriptionBytes)
	t.done(cid, horizon)
	mids, known = d.selectAsOf(describedAsOf(q, horizon), selector)
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
