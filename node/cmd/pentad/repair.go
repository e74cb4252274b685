package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/store"
)

func (a *app) repairCommand() *cobra.Command {
	var cut bool
	c := &cobra.Command{
		Use:   "repair DIR",
		Short: "Set the damaged end of a log aside, so that a node starts",
		Long: `A node refuses to start when its log is damaged, because what the log held was
acknowledged. Restore a backup, or let a replica replace the directory, where there is one. Where
there is none, this sets the log aside from the damage on and keeps all that came before.

Without --cut-log nothing is changed: the command says what would be lost. With it the files are
copied to DIR/store/lost first; pentad dump reads there what is whole, to be put again.`,
		Args: arguments(1, 1, "the directory of a node or of a store"),
		Example: `  pentad repair /var/lib/pentad
  pentad repair /var/lib/pentad --cut-log`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.repair(c.Context(), args[0], cut)
		},
	}
	c.Flags().BoolVar(&cut, "cut-log", false, "do it (default: say what would be lost)")
	return c
}

func (a *app) repair(ctx context.Context, path string, cut bool) error {
	dir := storeDir(path)
	if dir == "" {
		dir = path
	}
	r, err := store.RepairLog(ctx, dir, cut)
	if err != nil {
		return err
	}
	if r.File == "" {
		a.note("%s: the log is not damaged; pentad check looks at all other files", path)
		return nil
	}
	a.note("%s: damaged at offset %d: %s", r.File, r.Offset, r.Reason)
	a.note("from there on: %s, %s flushes and %s rows that can be read and are in no segment%s; "+
		"what cannot be read is not known", output.Size(r.Bytes), output.Thousands(r.Flushes),
		output.Thousands(r.Rows), acqsOf(&r))
	if !cut {
		a.note("nothing was changed; --cut-log sets it aside")
		return nil
	}
	a.note("set aside in %s", strings.Join(r.Aside, ", "))
	return nil
}

// acqsOf says which acqs rows have that are set aside.
func acqsOf(r *store.RepairReport) string {
	if r.Rows == 0 {
		return ""
	}
	return fmt.Sprintf(" (acq %d to %d)", r.FirstAcqNs, r.LastAcqNs)
}
