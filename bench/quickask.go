package main

import (
	"context"
	"fmt"

	"github.com/pentad-db/pentad/bench/figure"
	"github.com/pentad-db/pentad/bench/peers/pentad"
	"github.com/pentad-db/pentad/bench/runner"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/client"
)

// queries asks the ten queries of the embedded node, in process and over HTTP in turn.
func (q *quick) queries(ctx context.Context) error {
	survey, err := q.surveyed()
	if err != nil {
		return err
	}
	n, err := q.open(ctx, 0)
	if err != nil {
		return err
	}
	closed := false
	defer func() {
		if !closed {
			_ = n.Close(context.WithoutCancel(ctx)) // the run has failed already
		}
	}()
	db, err := client.Dial(ctx, n.Addr().String())
	if err != nil {
		return err
	}
	defer db.Close()
	r := runner.Runner{Out: q.out, Journal: q.journal, Workload: q.config.Workload(),
		Kinds: pentad.Kinds(), Budget: askBudget, Passes: passes}
	asked, err := r.Ask(ctx, survey, []system.System{pentad.Of(n, nil),
		pentad.Of(n, db)})
	if err != nil {
		return err
	}
	for _, a := range asked {
		inside, network := a.Times[0], a.Times[1]
		q.Figures.Add(fmt.Sprintf("%s (%s), %.0f rows", a.Name, a.About, a.Rows), inside.MedianUs,
			"us")
		q.Figures.Add(a.Name+" over HTTP", network.MedianUs, "us")
		q.Figures.Add(a.Name+" over HTTP / embedded", network.Ratio.Median, figure.Ratio)
	}
	closed = true
	return n.Close(ctx)
}
