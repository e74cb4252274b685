package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/queryflags"
)

func (a *app) horizonCommand() *cobra.Command {
	var q queryflags.Flags
	c := &cobra.Command{
		Use:   "horizon",
		Short: "Show the acq below which nothing changes",
		Long: `Show the horizon: the acq below which only purges change answers. A query of acq below it always
finds the same records, so a reader that has read everything below it can continue from there. The
horizon follows the clock when nothing is written.`,
		Args: cli.NoCommand,
		Example: `  pentad horizon
  pentad horizon --cid 1 -o json`,
		RunE: func(c *cobra.Command, _ []string) error { return a.horizon(c.Context(), &q) },
	}
	q.AddKeyFlags(c)
	return c
}

func (a *app) horizon(ctx context.Context, q *queryflags.Flags) error {
	query, err := q.Query(ctx, a.App)
	if err != nil {
		return err
	}
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	ns, err := db.Horizon(ctx, &query.Box)
	if err != nil {
		return err
	}
	return a.One([]output.Column{cli.Left("horizon")}, output.Time(ns))
}
