package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/sdk/client"
)

func (a *app) clusterSplitCommand() *cobra.Command {
	var f actFlags
	var all bool
	c := &cobra.Command{
		Use:   "split GROUP|--all",
		Short: "Part a group of slots in two, or each of them",
		Long: `Part a group of slots in two, or with --all each of them: it keeps the lower half of its slots,
and a new group gets the other. Both are on the nodes on which the group was, by hard links, and may
move from there as any group does; what each holds of the other's devices is removed when its files
are merged next. Puts and questions go on meanwhile, and wait for about a second. There is no way
back. A group has one log, so more of them let more be put at a time; each costs some memory and
processor time on its nodes, so that 8 to 64 on a node are enough.

Splits need feature level 2 of the cluster, which is set with the first one: from then on all nodes
have to run a program that knows of them. pentad cluster shards shows the groups.`,
		Args:    arguments(0, 1, "the number of the group"),
		Example: "  pentad cluster split 3 --dry-run\n  pentad cluster split --all --wait",
		RunE: func(c *cobra.Command, args []string) error {
			group, err := splitGroup(args, all)
			if err != nil {
				return err
			}
			return a.clusterAct(c.Context(), &f, func(db *client.Client, ctx context.Context,
				act client.ClusterAct) (client.ClusterProspect, error) {
				return db.SplitGroup(ctx, group, act.DryRun)
			}, "")
		},
	}
	f.add(c)
	c.Flags().BoolVar(&all, "all", false, "each group; there are twice as many then")
	return c
}

// splitGroup returns the group that is meant, 0 for all.
func splitGroup(args []string, all bool) (uint32, error) {
	if all == (len(args) > 0) {
		return 0, usagef("name either one group or --all")
	}
	if all {
		return 0, nil
	}
	n, err := strconv.ParseUint(args[0], 10, 32)
	if err != nil || n == 0 {
		return 0, usagef("group %q: a number from 1 on is wanted; pentad cluster shards lists them",
			args[0])
	}
	return uint32(n), nil
}
