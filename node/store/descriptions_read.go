package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

// eachDescription visits the newest description of each device of a tenant as of an acq that is not
// above the horizon: of the records that are visible, one for each cap, the one with the greatest
// cap. Records that are no descriptions, which were not refused before or were shipped, are passed
// over: their devices have the description that is from before, and are counted. Workers call visit
// at the same time.
func (s *Store) eachDescription(
	ctx context.Context, cid int32, mids record.RangeSet, asOfNs int64,
	visit func(mid int64, d *registry.Description),
) error {
	q := record.Query{View: record.ViewAsOf, AsOfAcqNs: asOfNs, Last: 1}
	q.Box = record.Box{record.CID: {record.At(int64(cid))}, record.MID: mids,
		record.MOID: {record.At(record.DescriptionMOID)}}
	var mu sync.Mutex
	var unreadable []int64
	if err := s.eachDescriptionOf(ctx, &q, func(key record.Key, d *registry.Description) {
		if d != nil {
			visit(key.MID, d)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		unreadable = append(unreadable, key.MID)
	}); err != nil {
		return err
	}
	slices.Sort(unreadable)
	s.described.noteUnreadable(cid, mids, unreadable, asOfNs)
	if len(unreadable) == 0 {
		return nil
	}
	q.Last, q.Box[record.MID] = 0, rangesOf(unreadable)
	type dated struct {
		capNs int64
		*registry.Description
	}
	before := map[int64]dated{}
	err := s.eachDescriptionOf(ctx, &q, func(key record.Key, d *registry.Description) {
		mu.Lock()
		defer mu.Unlock()
		if known, ok := before[key.MID]; d != nil && (!ok || key.CapNs > known.capNs) {
			before[key.MID] = dated{key.CapNs, d}
		}
	})
	for mid, d := range before {
		visit(mid, d.Description)
	}
	return err
}

// eachDescriptionOf visits the descriptions that a query finds, nil for a record that is none.
func (s *Store) eachDescriptionOf(
	ctx context.Context, q *record.Query, visit func(key record.Key, d *registry.Description),
) error {
	sc := s.scans.Begin(ctx, q, q.AsOfAcqNs)
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
				d, err := registry.Parse(b.Payload(i))
				if err != nil {
					d = nil
				}
				visit(b.Key(i), d)
			}
			return nil
		}}, nil
	}))
}

// maxUnreadable bounds how many devices of a tenant are kept as ones whose description is none.
const maxUnreadable = 10_000

// unreadable are the devices of a tenant whose newest record of a description is none.
type unreadable struct {
	asOfNs int64 // of what was read last
	mids   map[int64]struct{}
}

// noteUnreadable keeps which of some devices, nil for all, have a record in place of a description
// that is none.
func (t *descriptions) noteUnreadable(cid int32, of record.RangeSet, mids []int64, asOfNs int64) {
	t.unreadableMu.Lock()
	defer t.unreadableMu.Unlock()
	u := t.unreadable[cid]
	if u == nil && len(mids) == 0 || u != nil && asOfNs < u.asOfNs {
		return
	}
	if u == nil {
		u = &unreadable{mids: map[int64]struct{}{}}
		if t.unreadable == nil {
			t.unreadable = map[int32]*unreadable{}
		}
		t.unreadable[cid] = u
	}
	u.asOfNs = asOfNs
	maps.DeleteFunc(u.mids, func(mid int64, _ struct{}) bool {
		return len(of) == 0 || of.Contains(mid)
	})
	for _, mid := range mids {
		if len(u.mids) < maxUnreadable {
			u.mids[mid] = struct{}{}
		}
	}
}

// problem says how many devices have a record in place of a description that is none, of the
// tenants of which devices were selected; nil if none has.
func (t *descriptions) problem() error {
	t.unreadableMu.Lock()
	defer t.unreadableMu.Unlock()
	count, cid, mid := 0, int32(0), int64(0)
	for tenant, u := range t.unreadable {
		for one := range u.mids {
			if count == 0 || tenant < cid || tenant == cid && one < mid {
				cid, mid = tenant, one
			}
			count++
		}
	}
	if count == 0 {
		return nil
	}
	return fmt.Errorf("%d devices, e.g. device %d of tenant %d, have a record in place of a "+
		"description that is none: they have the description before it, or none", count, mid, cid)
}
