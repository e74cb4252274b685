package store

import (
	"context"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/node/store/bounds"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/tombstone"
	"github.com/pentad-db/pentad/sdk/record"
)

// versionBytes is what a version takes in memory beside its payload.
const versionBytes = 96

// Versions returns every version of the readings in a box, tombstones included, by key and then
// acq, with what became of each. Purged ones are gone.
//
// Errors: ErrTooManyVersions when they take more than maxBytes, *record.InvalidError for a box with
// a range of acq, and those of Scan.
func (s *Store) Versions(
	ctx context.Context, box *record.Box, maxBytes int64,
) ([]record.Version, ScanStats, error) {
	if len(box[record.Acq]) > 0 {
		return nil, ScanStats{}, &record.InvalidError{Part: "acq", Reason: record.Inconsistent,
			Row: -1, Detail: "which version is the latest is known from all; leave the range out"}
	}
	q := record.Query{Box: *box}
	if err := q.Normalize(); err != nil {
		return nil, ScanStats{}, err
	}
	var mu sync.Mutex
	var all []record.Version
	take := func(b *record.Batch) error {
		mu.Lock()
		defer mu.Unlock()
		maxBytes -= int64(len(b.Data)) + versionBytes*int64(b.Len())
		if maxBytes < 0 {
			return ErrTooManyVersions
		}
		for i := range b.Len() {
			r := b.Record(i)
			r.Payload = slices.Clone(r.Payload)
			all = append(all, record.Version{Record: r})
		}
		return nil
	}
	stats, err := s.Scan(ctx, &q, func(int) (Sink, error) { return take, nil })
	if err != nil {
		return nil, stats, err
	}
	slices.SortFunc(all, func(a, b record.Version) int { return a.Key.Compare(b.Key) })
	s.judge(all, &q.Box, stats.HorizonNs)
	return all, stats, nil
}

// judge says of versions, in their order, which erases from below the horizon hide them, and which
// are the latest.
func (s *Store) judge(all []record.Version, box *record.Box, horizonNs int64) {
	var erases []*tombstone.Range
	b := bounds.Of(box)
	s.tombstones.Load().Tree.Each(box, &b, func(h *tombstone.Range) {
		if h.Kind == event.Erase && h.AcqNs < horizonNs {
			erases = append(erases, h)
		}
	})
	tree := tombstone.NewTree(erases)
	next := record.Key{CID: -1} // of the reading that comes after; none has this cid
	found := false
	for i := range slices.Backward(all) {
		v := &all[i]
		if h := tree.Oldest(v.Key); h != nil {
			v.HiddenAcqNs = h.AcqNs
		}
		k := v.Key
		k.AcqNs = 0
		if k != next {
			next, found = k, false
		}
		if !found && v.HiddenAcqNs == 0 {
			v.Latest, found = true, true
		}
	}
}
