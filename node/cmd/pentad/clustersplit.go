package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/client"
)

func (a *app) clusterSplitCommand() *cobra.Command {
	var f actFlags
	var all bool
	c := &cobra.Command{
		Use:   "split GROUP|--all",
		Short: "Split one group, or all, in two",
		Long: `Split one group, or with --all every group, in two. The group keeps the lower half of its
slots, and a new group gets the other half. Both start on the same nodes, by hard links, and may
move later; each drops the devices of the other when its files are next merged. Reads and writes
continue and wait for about a second. A split cannot be undone. A group has one log, so more groups
allow more concurrent writes; each costs memory and processor time, and 8 to 64 per node are enough.

pentad cluster groups lists the groups.`,
		Args:    cli.Arguments(0, 1, "the number of the group"),
		Example: "  pentad cluster split 3 --dry-run\n  pentad cluster split --all --wait",
		RunE: func(c *cobra.Command, args []string) error {
			group, err := splitGroup(args, all)
			if err != nil {
				return err
			}
			return a.clusterAct(c.Context(), &f, func(db *client.Client, ctx context.Context,
				act client.ClusterAct) (api.ClusterPreview, error) {
				return db.SplitGroup(ctx, group, act.DryRun)
			}, "")
		},
	}
	f.add(c)
	c.Flags().BoolVar(&all, "all", false, "split every group, which doubles their number")
	return c
}

// splitGroup returns the group that is meant, 0 for all.
func splitGroup(args []string, all bool) (uint32, error) {
	if all == (len(args) > 0) {
		return 0, cli.Usagef("group or --all: give exactly one of them")
	}
	if all {
		return 0, nil
	}
	n, err := strconv.ParseUint(args[0], 10, 32)
	if err != nil || n == 0 {
		return 0,
			cli.Usagef("group %q: not a group number; pentad cluster groups lists them",
				args[0])
	}
	return uint32(n), nil
}
