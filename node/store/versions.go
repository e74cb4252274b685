package store

import (
	"context"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/node/store/versions"
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
	return s.VersionsSelected(ctx, box, "", maxBytes)
}

// VersionsSelected is [Store.Versions] of the devices that a selector chooses, by their
// descriptions as of the horizon; an empty one chooses all.
func (s *Store) VersionsSelected(
	ctx context.Context, box *record.Box, selector string, maxBytes int64,
) ([]record.Version, ScanStats, error) {
	if len(box[record.Acq]) > 0 {
		return nil, ScanStats{}, &record.InvalidError{Part: "acq", Reason: record.Inconsistent,
			Row: -1, Detail: "which version is the latest is known from all; leave the range out"}
	}
	q := record.Query{Box: *box, Select: selector}
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
	versions.Judge(all, s.tombstones.Load().Tree, &q.Box, stats.HorizonNs)
	return all, stats, nil
}
