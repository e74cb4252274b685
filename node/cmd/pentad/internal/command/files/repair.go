package files

import (
	"context"
	"fmt"
	"strings"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/store/repair"
	"github.com/spf13/cobra"
)

// RepairCommand returns pentad repair.
func RepairCommand(shared *cli.App) *cobra.Command {
	a := &app{shared}
	var cut bool
	c := &cobra.Command{
		Use:   "repair DIR",
		Short: "Cut the damaged end of a log",
		Long: `Cut the damaged end of a log. A node refuses to start with a damaged log, because the log holds
acknowledged records. Restore a backup or let a replica replace the directory if there is one;
otherwise this command moves the log aside from the damage on and keeps everything before it.

It repairs logs only. If MANIFEST, WRITERS or the index of a segment is damaged, which also keep a
node from starting, it names the first such file and the exit code is 7: restore a backup then.

Without --cut-log nothing changes, and the command reports what would be lost. With it the files are
first copied to DIR/store/lost, where pentad dump reads what is intact, to be stored again.`,
		Args: cli.Arguments(1, 1, "the directory of a node or of a store"),
		Example: `  pentad repair /var/lib/pentad
  pentad repair /var/lib/pentad --cut-log`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.repair(c.Context(), args[0], cut)
		},
	}
	c.Flags().BoolVar(&cut, "cut-log", false, "cut the log (default: only show what would be lost)")
	return c
}

func (a *app) repair(ctx context.Context, path string, cut bool) error {
	dir := StoreDir(path)
	if dir == "" {
		dir = path
	}
	r, err := repair.Log(ctx, dir, cut)
	err = cli.Stopped(ctx, err, "nothing was changed")
	if err != nil {
		return err
	}
	if r.File == "" && r.Other != nil {
		return fmt.Errorf("the log is not damaged, another file is: %w", r.Other)
	}
	if r.File == "" {
		a.Note("%s: the log is not damaged, nor is what a start reads of other files; "+
			"pentad check reads them whole", path)
		return nil
	}
	a.Note("%s: damaged at offset %d: %s", r.File, r.Offset, r.Reason)
	a.Note("after it: %s with %s appends and %s readable rows that are not in a segment%s; "+
		"unreadable rows cannot be counted", output.Size(r.Bytes), output.Thousands(r.LogAppends),
		output.Thousands(r.Rows), acqsOf(&r))
	if !cut {
		a.Note("nothing changed; use --cut-log to cut the log")
	} else {
		a.Note("moved to %s", strings.Join(r.Aside, ", "))
	}
	if r.Other != nil {
		return fmt.Errorf("another file is damaged, too: %w", r.Other)
	}
	return nil
}

// acqsOf says which acqs rows have that are set aside.
func acqsOf(r *repair.Report) string {
	if r.Rows == 0 {
		return ""
	}
	return fmt.Sprintf(" (acq %d to %d)", r.FirstAcqNs, r.LastAcqNs)
}
