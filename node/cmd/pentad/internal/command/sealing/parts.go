package sealing

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/seal"
	"github.com/pentad-db/pentad/sdk/wire"
)

// parts asks for sums whose lists of records are longer than an answer may be, or than a plugin has
// memory for: by halves of the devices, then of the days of one device, until each is answered. No
// record is in two parts, so that together they are the sum of all.
type parts struct {
	db      *client.Client
	schema  *seal.Schema
	byValue bool // results are of sealed-group
	groups  map[record.Key]*partedGroup
}

// partedGroup is a group and what was answered of it.
type partedGroup struct {
	wire.Group
	results [][]byte
}

// tooLong reports whether parts of a query may be answered where all of it is not.
func tooLong(err error) bool {
	var e *wire.Error
	if !errors.As(err, &e) {
		return false
	}
	fault, ok := e.Fault()
	return ok && (e.Kind == wire.KindPluginLimit || fault.Status == plugin.StatusCapacity)
}

// whole has the node answer a query at once.
func whole(ctx context.Context, db *client.Client, q *record.Query) ([]wire.Group, error) {
	groups, end, err := db.Aggregate(ctx, q)
	if err != nil {
		return nil, err
	}
	return groups, queryflags.CheckEnd(end)
}

// all asks for halves of a query that failed as its answer is too long, and adds them up.
func (p *parts) all(ctx context.Context, q *record.Query, failed error) ([]wire.Group, error) {
	if err := p.halve(ctx, q, failed); err != nil {
		return nil, err
	}
	byKey := func(a, b record.Key) int {
		return cmp.Or(cmp.Compare(a.CID, b.CID), cmp.Compare(a.MID, b.MID),
			cmp.Compare(a.MOID, b.MOID), cmp.Compare(a.CapNs, b.CapNs))
	}
	var groups []wire.Group
	for _, key := range slices.SortedFunc(maps.Keys(p.groups), byKey) {
		g := p.groups[key]
		var err error
		if g.Result, err = p.merge(g.results); err != nil {
			return nil, err
		}
		groups = append(groups, g.Group)
	}
	return groups, nil
}

// ask asks for a part, or for halves of it.
func (p *parts) ask(ctx context.Context, q *record.Query) error {
	groups, err := whole(ctx, p.db, q)
	if tooLong(err) {
		return p.halve(ctx, q, err)
	}
	if err != nil {
		return err
	}
	for _, g := range groups {
		key := record.Key{CID: g.CID, MID: g.MID, MOID: g.MOID, CapNs: g.CapNs}
		if p.groups[key] == nil {
			p.groups[key] = &partedGroup{Group: g}
			p.groups[key].Records = 0
		}
		p.groups[key].Records += g.Records
		p.groups[key].results = append(p.groups[key].results, g.Result)
	}
	return nil
}

// halve asks for halves of a query; failed is the error of what can be halved no more.
func (p *parts) halve(ctx context.Context, q *record.Query, failed error) error {
	for _, d := range []record.Dim{record.MID, record.Cap} {
		if d == record.Cap && q.Last > 0 {
			continue // the newest readings of a half are others
		}
		middle, ok, err := p.middle(ctx, q, d)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		for _, r := range []record.Range{{From: d.Min(), To: middle}, {From: middle, To: d.Max()}} {
			half := *q
			half.Box[d] = within(q.Box[d], r)
			if err := p.ask(ctx, &half); err != nil {
				return err
			}
		}
		return nil
	}
	return failed
}

// within returns the values of a set of a query that are in a range. There are some.
func within(set record.RangeSet, r record.Range) (out record.RangeSet) {
	if len(set) == 0 {
		return record.RangeSet{r}
	}
	for _, one := range set {
		if from, to := max(one.From, r.From), min(one.To, r.To); from < to {
			out = append(out, record.Range{From: from, To: to})
		}
	}
	return out
}

// middle returns the device or the day before which about half of the records are. There is none if
// all are of one.
func (p *parts) middle(
	ctx context.Context, q *record.Query, d record.Dim,
) (at int64, ok bool, err error) {
	counts := *q
	counts.Filters, counts.GroupBy = nil, record.GroupBy{MID: true}
	if d == record.Cap {
		counts.GroupBy = record.GroupBy{CapBucketNs: int64(24 * time.Hour)}
	}
	if _, _, counts.Aggregate, err = queryflags.FindPlugin(ctx, p.db, "count"); err != nil {
		return 0, false, err
	}
	groups, err := whole(ctx, p.db, &counts)
	if err != nil || len(groups) < 2 {
		return 0, false, err
	}
	begin := func(g wire.Group) int64 {
		if d == record.Cap {
			return g.CapNs
		}
		return g.MID
	}
	slices.SortFunc(groups, func(a, b wire.Group) int { return cmp.Compare(begin(a), begin(b)) })
	half, before := queryflags.SumRecords(groups)/2, groups[0].Records
	i := 1
	for ; i < len(groups)-1 && before < half; i++ {
		before += groups[i].Records
	}
	return begin(groups[i]), true, nil
}

// merge adds up what was answered of one group.
func (p *parts) merge(results [][]byte) ([]byte, error) {
	if p.byValue {
		var all []seal.Group
		for _, result := range results {
			more, err := seal.ParseGroups(p.schema, result)
			if err != nil {
				return nil, err
			}
			if all, err = seal.MergeGroups(all, more); err != nil {
				return nil, err
			}
		}
		return seal.AppendGroups(nil, p.schema, all), nil
	}
	all := seal.NewPartial(p.schema)
	for _, result := range results {
		more, err := seal.ParsePartial(p.schema, result)
		if err != nil {
			return nil, err
		}
		if err := all.Merge(more); err != nil {
			return nil, err
		}
	}
	return all.Append(nil), nil
}
