package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
)

func (a *app) horizonCommand() *cobra.Command {
	var q queryFlags
	c := &cobra.Command{
		Use:   "horizon",
		Short: "Show the acq below which nothing changes any more",
		Long: `Show the acq below which nothing changes any more, but for purges: what a question of acq
below it finds today, it finds for ever, and whoever has read everything below goes on from there.
It follows the clock when nothing is written.`,
		Args: noCommand,
		Example: `  pentad horizon
  pentad horizon --cid 1 -o json`,
		RunE: func(c *cobra.Command, _ []string) error { return a.horizon(c.Context(), &q) },
	}
	q.addPlaces(c)
	return c
}

func (a *app) horizon(ctx context.Context, q *queryFlags) error {
	query, err := q.query(a)
	if err != nil {
		return err
	}
	db, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	ns, err := db.Horizon(ctx, &query.Box)
	if err != nil {
		return err
	}
	return a.one([]output.Column{left("horizon")}, output.Time(ns))
}
