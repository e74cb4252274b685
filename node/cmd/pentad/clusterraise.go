package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/sdk/client"
)

func (a *app) clusterRaiseCommand() *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use:   "raise",
		Short: "Raise the feature level after an upgrade",
		Long: `Raise the feature level of the cluster to the greatest that all its nodes run. This ends an
upgrade: from then on the nodes use what the older version of pentad does not know, so nodes that
run that version can neither come back nor join. Until then each node may go back to it. It is
refused while a node runs the older version only, also one that is down: upgrade or remove it.
pentad cluster status says when there is a level to raise to, pentad cluster nodes which levels each
node runs.`,
		Args:    noCommand,
		Example: "  pentad cluster raise --dry-run\n  pentad cluster raise",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.clusterRaise(c.Context(), dry)
		},
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would happen")
	return c
}

func (a *app) clusterRaise(ctx context.Context, dry bool) error {
	db, err := client.New(a.addr)
	if err != nil {
		return err
	}
	defer db.Close()
	p, err := db.RaiseFeature(ctx, dry)
	switch {
	case err != nil:
		return err
	case !p.Changed:
		a.note("the cluster is at feature level %d, and its nodes run none above", p.Feature)
	case dry:
		a.note("nothing was done; the cluster would be at feature level %d", p.Feature)
	default:
		a.note("the cluster is at feature level %d", p.Feature)
	}
	return nil
}
