package store

import (
	"context"
	"fmt"
	"math"
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
	sc, _, err := s.newKeyedScan(ctx, q, nil)
	return sc, err
}

// newKeyedScan is newSelectScan that also finds what the devices have for keys, unless there are
// none. The query may have no selector: then it is of all devices.
func (s *Store) newKeyedScan(
	ctx context.Context, q *record.Query, keys registry.Keys,
) (*scan.Scan, *DeviceValues, error) {
	began := time.Now()
	asOfNs := int64(math.MaxInt64)
	if q.View == record.ViewAsOf {
		asOfNs = q.AsOfAcqNs
	}
	c, err := newChoice(&q.Box, q.Select, asOfNs)
	if err != nil {
		return nil, nil, err
	}
	if keys != nil {
		c.values = devices.NewGathering(keys, s.opt.descriptionBytes, q.Box[record.MID].Contains)
		c.few = fewOf(q.Box[record.MID])
	}
	var at *registry.LocationLayout
	if q.Moving != "" {
		if c.tracker, at, err = s.newTracker(q, c.selector); err != nil {
			return nil, nil, err
		}
	}
	mids, horizon, err := s.selectDevices(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	var values *DeviceValues
	if keys != nil {
		if values, err = c.values.Values(); err != nil {
			return nil, nil, s.tooManyValues(q.GroupBy.Key)
		}
	}
	var sc *scan.Scan
	if c.tracker == nil {
		sc = s.beginSelected(ctx, q, c, mids, horizon)
	} else {
		var cost ScanStats
		tracks, err := s.trackDevices(ctx, q, c.tracker, at, min(horizon, c.asOfNs), &cost)
		if err != nil {
			return nil, nil, err
		}
		sc = s.beginTracked(ctx, q, tracks, horizon)
		sc.Stats.Located, sc.Stats.LocatedBlocks = cost.Located, cost.LocatedBlocks
		sc.Stats.LocatedSkipped = cost.LocatedSkipped
	}
	sc.Stats.SelectNs = int64(time.Since(began))
	return sc, values, nil
}

// beginSelected begins a scan of the devices that were chosen.
func (s *Store) beginSelected(
	ctx context.Context, q *record.Query, c *choice, mids []int64, horizon int64,
) *scan.Scan {
	narrowed, some := *q, true
	if c.selector != nil {
		some = narrow(&narrowed.Box, mids)
	}
	sc := s.scans.Begin(ctx, &narrowed, horizon)
	sc.Empty = sc.Empty || !some
	sc.Stats.Devices = len(mids)
	return sc
}

// tooManyValues is the error of devices that take too much memory to be grouped by keys.
func (s *Store) tooManyValues(keys string) error {
	return &record.InvalidError{Part: "group by", Reason: record.TooLarge, Row: -1,
		Detail: fmt.Sprintf("devices and what they have for %s take more than %d MiB; select "+
			"fewer devices", keys, s.opt.descriptionBytes>>20)}
}

// choice is a choice of devices of a tenant by their descriptions as of an acq, or as of the
// horizon if that is less.
type choice struct {
	cid      int32
	selector *registry.Selector // nil: all devices, which are not listed
	asOfNs   int64
	values   *devices.Gathering // gets those of the devices; nil: none are wanted
	few      []int64            // the only devices that are asked for; nil: many
	tracker  *devices.Tracker   // learns what devices are described as; nil: they do not move
}

// newChoice returns the choice of a selector, empty for all devices, from a box of one tenant.
func newChoice(box *record.Box, selector string, asOfNs int64) (*choice, error) {
	c := &choice{cid: int32(box[record.CID][0].From), asOfNs: asOfNs}
	if selector == "" {
		return c, nil
	}
	var err error
	c.selector, err = registry.ParseSelector(selector)
	return c, err
}

// narrow restricts a box to some of its devices, which ascend, and reports whether any are left.
func narrow(box *record.Box, mids []int64) bool {
	within := box[record.MID]
	box[record.MID] = make(record.RangeSet, 0, len(mids))
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

// maxFew is how many devices are looked up one by one, and not found among all.
const maxFew = 1000

// fewOf returns the values of a set, nil if it has many.
func fewOf(set record.RangeSet) (values []int64) {
	for _, r := range set {
		if uint64(r.To-r.From) > uint64(maxFew-len(values)) {
			return nil
		}
		for v := r.From; v < r.To; v++ {
			values = append(values, v)
		}
	}
	return values
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
			met := c.selector == nil || c.selector.Match(d)
			if c.values != nil && (met || c.tracker != nil) {
				c.values.Add(mid, d)
			}
			mu.Lock()
			defer mu.Unlock()
			if c.selector != nil && met {
				mids = append(mids, mid)
			}
			if c.tracker != nil {
				c.tracker.Describe(mid, d)
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
	mids, known = d.selectAsOf(min(horizon, c.asOfNs), c)
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
	t.keep(c.cid, d, tenantsOfDescriptions*s.opt.descriptionBytes)
	t.done(c.cid, horizon)
	mids, known = d.selectAsOf(min(horizon, c.asOfNs), c)
	return mids, horizon, known, nil
}

// selectAsOf selects as of an acq, if the index is right as of that.
func (d *described) selectAsOf(asOfNs int64, c *choice) (mids []int64, known bool) {
	if d.tooLarge || asOfNs < d.fromNs {
		return nil, false
	}
	of := c.few
	all := of == nil && c.selector == nil || c.tracker != nil
	switch {
	case c.tracker != nil:
		d.index.Track(c.tracker)
	case c.selector != nil:
		mids = d.index.Select(c.selector, nil)
		of = mids
	}
	if c.values != nil {
		d.index.Gather(c.values, of, all)
	}
	return mids, true
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
