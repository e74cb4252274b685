package aggregate

import (
	"cmp"
	"slices"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Folding makes groups of several series of groups of one series each: for modules that link
// predecessors, whose states are of one series, and say how their results are folded.
type Folding struct {
	by     record.GroupBy
	doc    *plugin.Doc
	most   int
	index  map[foldKey]int
	groups []wire.Group
	key    []byte // a buffer
}

// foldKey is what groups of the answer are told apart by.
type foldKey struct {
	cid, moid int32
	mid, cap  int64
	values    string
}

// NewFolding returns what folds the groups of a query into at most that many, and the groups that
// are to be asked for; nil if the query asks for groups of one series, or the module cannot fold.
func NewFolding(q *record.Query, doc *plugin.Doc, most int) (*Folding, record.GroupBy) {
	bySeries := q.GroupBy.BySeries(&q.Box)
	bySeries.CID = bySeries.CID || q.GroupBy.CID
	bySeries.MID = bySeries.MID || q.GroupBy.MID
	bySeries.MOID = bySeries.MOID || q.GroupBy.MOID
	if bySeries == q.GroupBy || doc == nil || !doc.Folds() {
		return nil, q.GroupBy
	}
	return &Folding{by: q.GroupBy, doc: doc, most: most, index: map[foldKey]int{}}, bySeries
}

// Add folds groups of one series each, which it keeps.
func (f *Folding) Add(some []wire.Group) error {
	for i := range some {
		g := &some[i]
		if !f.by.CID {
			g.CID = 0
		}
		if !f.by.MID {
			g.MID = 0
		}
		if !f.by.MOID {
			g.MOID = 0
		}
		f.key = registry.AppendValues(f.key[:0], g.Values)
		k := foldKey{g.CID, g.MOID, g.MID, g.CapNs, string(f.key)}
		at, known := f.index[k]
		if !known {
			if len(f.groups) >= f.most {
				return tooManyGroups(f.most)
			}
			f.index[k] = len(f.groups)
			f.groups = append(f.groups, *g)
			continue
		}
		into := &f.groups[at]
		into.Records += g.Records
		if err := f.doc.Fold(into.Result, g.Result); err != nil {
			return &wire.Error{Kind: wire.KindPluginFailed, Message: err.Error()}
		}
	}
	return nil
}

// Groups returns the groups in the order of an answer.
func (f *Folding) Groups() []wire.Group {
	slices.SortFunc(f.groups, func(a, b wire.Group) int {
		byValue := 0
		if !f.by.MID {
			byValue = registry.CompareValues(a.Values, b.Values)
		}
		return cmp.Or(cmp.Compare(a.CID, b.CID), byValue, cmp.Compare(a.MID, b.MID),
			cmp.Compare(a.MOID, b.MOID), cmp.Compare(a.CapNs, b.CapNs))
	})
	return f.groups
}
