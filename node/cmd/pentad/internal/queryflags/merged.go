package queryflags

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/internal/quantity"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// mostMerged is how many tenants or quantities a note names: each one costs a query.
const mostMerged = 3

// noteMerged says which quantities and tenants the groups of an aggregate merge, if there are
// several and the query neither selects nor separates them: a mean of kWh and V means nothing. The
// answer is complete without the note, so a node that cannot tell is not an error.
func (q *Flags) noteMerged(
	ctx context.Context, a *cli.App, db *client.Client, query *record.Query,
) {
	if a.Quiet {
		return
	}
	for _, part := range []struct {
		dim       record.Dim
		separated bool
		what      string
	}{{record.MOID, query.GroupBy.MOID, "quantities"}, {record.CID, query.GroupBy.CID, "tenants"}} {
		if part.separated || query.Box.Pins(part.dim) {
			continue
		}
		found, more, err := distinct(ctx, db, query, part.dim)
		if err != nil || len(found) < 2 {
			continue
		}
		slices.Sort(found)
		merge := "merge"
		if len(query.Filters) > 0 || query.Where != "" { // which distinct leaves out
			merge = "may merge"
		}
		a.Note("results %s %s %s; add %s to --group, or choose one with --%[4]s", merge, part.what,
			q.inList(ctx, a, db, part.dim, found, more), part.dim)
	}
}

// distinct returns up to mostMerged values that a dimension has among the records of a query
// without its filters, and whether there are more. Each costs a query of one record that has none
// of those before it, which posting lists and zones find or rule out.
func distinct(
	ctx context.Context, db *client.Client, query *record.Query, d record.Dim,
) (found []int64, more bool, err error) {
	probe := record.Query{Box: query.Box, View: query.View, AsOfAcqNs: query.AsOfAcqNs,
		Select: query.Select, KeysOnly: true, Limit: 1}
	for {
		value, some := int64(0), false
		_, err := db.Scan(ctx, &probe, func(b *record.Batch) error {
			for i := range b.Len() {
				value, some = b.Key(i).Part(d), true
			}
			return nil
		})
		switch {
		case err != nil || !some:
			return found, false, err
		case len(found) == mostMerged:
			return found, true, nil
		}
		found = append(found, value)
		if probe.Box[d] = without(d, probe.Box[d], value); len(probe.Box[d]) == 0 {
			return found, false, nil
		}
		if err := probe.Box.Normalize(); err != nil {
			return found, false, err // too many ranges
		}
	}
}

// without returns a normalized set, which is all if it is empty, without a value.
func without(d record.Dim, set record.RangeSet, value int64) (out record.RangeSet) {
	if len(set) == 0 {
		set = record.RangeSet{record.All(d)}
	}
	for _, r := range set {
		for _, rest := range []record.Range{{From: r.From, To: min(r.To, value)},
			{From: max(r.From, value+1), To: r.To}} {
			if rest.From < rest.To {
				out = append(out, rest)
			}
		}
	}
	return out
}

// inList lists values, quantities with their names.
func (q *Flags) inList(ctx context.Context, a *cli.App, db *client.Client, d record.Dim,
	values []int64, more bool) string {
	var declared quantity.Declared
	if all, err := q.quantities(ctx, db, nil); err == nil && d == record.MOID {
		declared = quantity.NewDeclared(all, quantity.Base64)
	}
	texts := make([]string, len(values))
	for i, v := range values {
		name := a.Names[d.String()][v]
		if name == "" && d == record.MOID {
			name = nameOf(declared, int32(v))
		}
		if texts[i] = strconv.FormatInt(v, 10); name != "" {
			texts[i] += " " + name
		}
	}
	if more {
		return strings.Join(texts, ", ") + " and others"
	}
	last := len(texts) - 1
	return fmt.Sprintf("%s and %s", strings.Join(texts[:last], ", "), texts[last])
}
