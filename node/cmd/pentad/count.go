package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
)

func (a *app) countCommand() *cobra.Command {
	var q queryflags.Flags
	c := &cobra.Command{
		Use:   "count",
		Short: "Count records",
		Long: `Count readings, each once, or with --view all or --acq all their versions and
tombstones. --where counts those whose payloads meet a condition, and no tombstones.`,
		Args: cli.NoCommand,
		Example: `  pentad count
  pentad count --cid 1 --cap 2026-11 --view all
  pentad count --moid 1 --where 'value > -5 and value <= 0'
  pentad count --mid 7 --acq now-1h.. --fail-empty -q`,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.count(c.Context(), &q)
		},
	}
	q.AddBox(c)
	q.AddFilter(c)
	q.AddWhereType(c, "give --where, too, or leave --type out")
	q.AddSkipUnreadable(c)
	cli.Elsewhere(c, "group", "use pentad plugin run count --group")
	noZone(c)
	return c
}

func (a *app) count(ctx context.Context, q *queryflags.Flags) error {
	query, err := q.Query(ctx, a.App)
	if err != nil {
		return err
	}
	db, err := queryflags.ConnectForRecords(ctx, a.App, q, query)
	if err != nil {
		return err
	}
	defer db.Close()
	start := a.Now()
	records, err := queryflags.Count(ctx, db, query)
	if err != nil {
		return queryflags.Readable(err)
	}
	err = a.One([]output.Column{cli.Right("records"), cli.Right("took")}, output.Count(records),
		output.Span(a.Now().Sub(start).Round(time.Microsecond)))
	if err == nil {
		err = q.NoteUnreadable(ctx, a.App, db, query)
	}
	if err == nil && records == 0 && q.FailEmpty {
		return cli.ErrEmpty
	}
	return err
}
