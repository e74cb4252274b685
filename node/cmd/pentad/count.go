package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

func (a *app) countCommand() *cobra.Command {
	var q queryFlags
	c := &cobra.Command{
		Use:   "count",
		Short: "Count records in a box of the five axes",
		Args:  noCommand,
		Example: `  pentad count
  pentad count --cid 1 --cap 2026-11 --view latest
  pentad count --mid 7 --acq now-1h.. --fail-empty -q`,
		RunE: func(c *cobra.Command, _ []string) error { return a.count(c.Context(), &q) },
	}
	q.addBox(c)
	q.addFilter(c)
	return c
}

func (a *app) count(ctx context.Context, q *queryFlags) error {
	query, err := q.query(a)
	if err != nil {
		return err
	}
	db, err := a.connectFor(ctx, q, query)
	if err != nil {
		return err
	}
	defer db.Close()
	start := a.now()
	records, err := countRecords(ctx, db, query)
	if err != nil {
		return err
	}
	err = a.one([]output.Column{right("records"), right("took")}, output.Count(records),
		output.Span(a.now().Sub(start).Round(time.Microsecond)))
	if err == nil && records == 0 && q.failEmpty {
		return errEmpty
	}
	return err
}

// countRecords counts on the node what a query without limit finds.
func countRecords(ctx context.Context, db *client.Client, q *record.Query) (uint64, error) {
	n, end, err := db.Count(ctx, q)
	if err != nil {
		return 0, err
	}
	return n, checkEnd(end)
}
