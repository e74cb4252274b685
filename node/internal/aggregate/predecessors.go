package aggregate

import (
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

// CheckPredecessors rejects queries without unique predecessors: of versions, and of several ranges
// of time.
func CheckPredecessors(q *record.Query) error {
	name, _, _ := record.SplitPluginRef(q.Aggregate.Name)
	switch {
	case q.View == record.ViewAll:
		return &record.InvalidError{Part: "view", Reason: record.Inconsistent, Row: -1,
			Detail: name + " needs readings and not their versions; ask for the " +
				"latest, or as of a time"}
	case len(q.Box[record.Cap]) > 1:
		return &record.InvalidError{Part: "cap", Reason: record.Inconsistent, Row: -1,
			Detail: name + " needs one range of cap; ask once for each"}
	}
	return nil
}

// PredecessorQuery returns the query for the last reading of each series before the box, as of the
// horizon of the answer; false if none is needed.
func PredecessorQuery(q *record.Query, horizonNs int64) (*record.Query, bool) {
	caps := q.Box[record.Cap]
	if len(caps) == 0 || caps[0].From == record.Cap.Min() || q.Last > 0 {
		return nil, false
	}
	back := *q
	back.Box[record.Cap] = record.RangeSet{{From: record.Cap.Min(), To: caps[0].From}}
	back.Last, back.Limit = 1, 0
	if back.View == record.ViewLatest || back.AsOfAcqNs > horizonNs {
		back.View, back.AsOfAcqNs = record.ViewAsOf, horizonNs
	}
	return &back, true
}

// linksOf returns the groups with their predecessors, given the order of their keys.
func linksOf(keys []groupKey, order []int) (links []wasmhost.Link) {
	for i := 1; i < len(order); i++ {
		a, b := keys[order[i-1]], keys[order[i]]
		if a.cid == b.cid && a.mid == b.mid && a.moid == b.moid {
			links = append(links, wasmhost.Link{Group: uint32(order[i]),
				Predecessor: uint32(order[i-1])})
		}
	}
	return links
}
