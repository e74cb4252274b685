package versions

import (
	"slices"

	"github.com/pentad-db/pentad/node/store/bounds"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/tombstone"
	"github.com/pentad-db/pentad/sdk/record"
)

// Judge says of versions, in their order, which erases from below the horizon hide them, and which
// are the latest. hiding are all range tombstones, nil for none.
func Judge(
	all []record.Version, hiding *tombstone.Tree, box *record.Box, horizonNs int64,
) {
	var erases []*tombstone.Range
	b := bounds.Of(box)
	hiding.Each(box, &b, func(t *tombstone.Range) {
		if t.Kind == event.Erase && t.AcqNs < horizonNs {
			erases = append(erases, t)
		}
	})
	tree := tombstone.NewTree(erases)
	next := record.Key{CID: -1} // of the reading that comes after; none has this cid
	found := false
	for i := range slices.Backward(all) {
		v := &all[i]
		if t := tree.Oldest(v.Key); t != nil {
			v.HiddenAcqNs = t.AcqNs
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
