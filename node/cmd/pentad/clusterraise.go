package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/sdk/client"
)

func (a *app) clusterRaiseCommand() *cobra.Command {
	var dry bool
	c := &cobra.Command{
		Use:   "raise",
		Short: "Raise the feature level after an upgrade",
		Long: `Raise the feature level of the cluster to the highest that all of its nodes support. This completes
an upgrade: nodes then use features that the older version of pentad lacks, so nodes of that version
can neither return nor join. Until then each node can be downgraded. The command is refused while a
node, even one that is down, supports only the older level: upgrade or remove it. pentad cluster
status reports an available level, pentad cluster nodes the levels of each node.`,
		Args:    cli.NoCommand,
		Example: "  pentad cluster raise --dry-run\n  pentad cluster raise",
		RunE: func(c *cobra.Command, _ []string) error {
			return a.clusterRaise(c.Context(), dry)
		},
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "show what would happen and change nothing")
	return c
}

func (a *app) clusterRaise(ctx context.Context, dry bool) error {
	db, err := client.New(a.Addr)
	if err != nil {
		return err
	}
	defer db.Close()
	p, err := db.RaiseFeature(ctx, dry)
	switch {
	case err != nil:
		return err
	case !p.Changed:
		a.Note("the cluster is at feature level %d, the highest that all nodes support", p.Feature)
	case dry:
		a.Note("nothing changed; the cluster would be at feature level %d", p.Feature)
	default:
		a.Note("the cluster is at feature level %d", p.Feature)
	}
	return nil
}
