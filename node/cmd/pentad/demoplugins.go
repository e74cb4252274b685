package main

import (
	"context"
	"fmt"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/demodata"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
	"github.com/pentad-db/pentad/sdk/record"
)

// powerBox is one quantity in its latest versions: what both plugins of the demo look at.
func powerBox() *record.Query {
	q := &record.Query{View: record.ViewLatest}
	q.Box[record.MOID] = record.RangeSet{record.At(int64(demodata.PowerKW))}
	return q
}

// filter has the node keep the readings above some thresholds.
func (s *demoShow) filter(ctx context.Context) error {
	in, err := queryflags.Count(ctx, s.db, powerBox())
	if err != nil {
		return err
	}
	s.title("A filter plugin, run on the node over %s readings of power:\n"+
		"pentad count --quantity power --filter threshold --filter-params value=KW",
		output.Thousands(in))
	w := s.table(cli.Left("above"), cli.Right("records"), cli.Right("share"), cli.Right("time"))
	for _, above := range []string{"1", "2", "3"} {
		q := powerBox()
		var flags queryflags.Flags
		flags.Filters = queryflags.Filters{{Name: "threshold", Params: "value=" + above}}
		var err error
		if q.Filters, err = flags.Calls(ctx, s.db, &q.Box); err != nil {
			return err
		}
		start := s.app.Now()
		kept, err := queryflags.Count(ctx, s.db, q)
		if err != nil {
			return err
		}
		share := fmt.Sprintf("%.2f %%", 100*float64(kept)/float64(max(in, 1)))
		if err := w.Row(output.Text(above+" kW"), output.Count(kept), output.Text(share),
			output.Span(s.app.Now().Sub(start))); err != nil {
			return err
		}
	}
	return w.Close()
}

// maxShownTowns keeps the table of the demo on one screen.
const maxShownTowns = 10

// stats has the node compute figures for each town.
func (s *demoShow) stats(ctx context.Context) error {
	q := powerBox()
	q.GroupBy.CID = true
	start := s.app.Now()
	groups, doc, err := queryflags.AskGroups(ctx, s.db, q, "stats", "")
	if err != nil {
		return err
	}
	took := s.app.Now().Sub(start)
	s.title("An aggregate plugin, run on the node: %s readings, %d results, %s\n"+
		"pentad plugin run stats --quantity power --group cid",
		output.Thousands(queryflags.SumRecords(groups)), len(groups), output.Duration(took))
	w := s.table(queryflags.GroupColumns(q.GroupBy, doc, nil)...)
	return queryflags.WriteGroups(w, q.GroupBy, doc, nil,
		groups[:min(len(groups), maxShownTowns)])
}
