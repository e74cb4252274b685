package store

import (
	"cmp"
	"slices"

	"github.com/pentad-db/pentad/node/store/bounds"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/tombstone"
	"github.com/pentad-db/pentad/sdk/record"
)

// publishTombstones makes what the manifest says of events visible to scans. The caller holds
// manifestMu.
func (s *Store) publishTombstones() {
	m := s.manifest
	s.tombstones.Store(tombstone.NewSet(s.everyEvent(), m.Policies, m.Steps.Held))
	s.noteReleases()
}

// pickTombstones chooses the tombstones that cover rows of the scan, oldest first: purges, and in
// views that resolve versions the erases from before the time of an as-of query.
func (sc *scan) pickTombstones(from *tombstone.Set) {
	if from.Tree == nil && from.Reported == nil {
		return
	}
	b := bounds.Of(&sc.box)
	from.Tree.Each(&sc.box, &b, func(h *tombstone.Range) {
		if h.Kind != event.Erase || sc.view != record.ViewAll && h.AcqNs < sc.end {
			sc.tombstones = append(sc.tombstones, h)
		}
	})
	slices.SortFunc(sc.tombstones, func(a, b *tombstone.Range) int {
		return cmp.Compare(a.AcqNs, b.AcqNs)
	})
	sc.stats.PurgedAcqNs = from.Reported.NewestOf(&sc.box, &b, 0)
}

// coveredBy returns the oldest tombstone that covers a row, nil for none.
func (sc *scan) coveredBy(k record.Key) *tombstone.Range {
	return tombstone.FirstOver(sc.tombstones, k)
}

// dropCovered removes the rows of a batch that a tombstone covers.
func (sc *scan) dropCovered(b *record.Batch) {
	if len(sc.tombstones) > 0 {
		keepRows(b, 0, func(i int) bool { return sc.coveredBy(b.Key(i)) == nil })
	}
}
