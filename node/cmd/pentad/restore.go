package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/store"
)

func (a *app) restoreCommand() *cobra.Command {
	var from, dir, into string
	var until int64
	var checkOnly bool
	c := &cobra.Command{
		Use:   "restore --from DIR --dir NEW",
		Short: "Make a node of a backup, or a cluster of the backups of its groups",
		Long: `Make the directory of a node of all parts of a backup, or of what they hold up to a moment:
acqs are ns since 1970, as parts and the horizon have. Every file is compared with its checksum
before anything is written, parts must continue one another, and in the end the rows are counted.
Plugins, quantities and cursors are those of the last part that is restored; no cursor lies above
the end. The new node is one of its own: back it up to a directory of its own.

With --into a new cluster becomes what another one was: DIR has a group-GROUP for each of its
groups, as pentad backup makes them, and the new one the same number of groups. NEW is for this
command alone: each group becomes a node there, which is copied into its group exactly, with all
acqs, corrections and erases. Plugins and quantities are those kept with the first group, and a
cursor is at the least place that a group has it. In the end the cluster takes records, and NEW is
removed. When it was interrupted, the same command goes on.`,
		Args: noCommand,
		Example: `  pentad restore --from ./backup --check-only
  pentad restore --from ./backup --dir ./restored
  pentad restore --from ./backup --dir ./work --into node-1:5150`,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case from == "":
				return usagef("--from is missing: the directory of the backup")
			case dir == "" && !checkOnly:
				return usagef("--dir is missing: the directory of the new node")
			case into != "" && (checkOnly || until != 0):
				return usagef("--into takes all of a backup: no --check-only or --until-acq")
			case into != "":
				return a.restoreCluster(c.Context(), from, dir, into)
			}
			return a.restore(c.Context(), from, dir,
				store.RestoreOptions{UntilAcqNs: until, CheckOnly: checkOnly})
		},
	}
	flags := c.Flags()
	flags.StringVar(&from, "from", "", "directory of the backup")
	flags.StringVar(&dir, "dir", "", "directory of the new node; it must not exist")
	flags.Int64Var(&until, "until-acq", 0, "only records with an acq below, in ns (default: all)")
	flags.StringVar(&into, "into", "", "address of a node of a new cluster, for the backup of one")
	flags.BoolVar(&checkOnly, "check-only", false, "read the backup and write nothing")
	return c
}

func (a *app) restore(
	ctx context.Context, from, dir string, opt store.RestoreOptions,
) error {
	began := a.now()
	report, err := a.restoreDir(ctx, from, dir, opt)
	if err != nil {
		return err
	}
	records := output.Count(report.Rows)
	switch report.Rows {
	case store.RowsUnknown:
		records = output.Null()
	case 0:
		a.note("no record of the backup has an acq below %d", report.UntilAcqNs)
	}
	return a.one([]output.Column{right("parts"), left("until_acq_ns"), right("records"),
		right("bytes_checked"), right("took")}, output.Count(report.Parts),
		output.Int(report.UntilAcqNs), records,
		output.Bytes(report.Check.Bytes), output.Span(a.now().Sub(began).Round(time.Millisecond)))
}

// restoreDir makes the directory of a node of a backup, or only reads it.
func (a *app) restoreDir(
	ctx context.Context, from, dir string, opt store.RestoreOptions,
) (report store.RestoreReport, err error) {
	if !opt.CheckOnly {
		if _, err := os.Lstat(dir); err == nil {
			return report, errors.Join(store.CheckFinished(filepath.Join(dir, "store")),
				fmt.Errorf("%s: %w", dir, store.ErrExists))
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return report, err
		}
		opt.Extra = func(files []store.ExtraFile, untilNs int64) error {
			return restoreBeside(dir, files, untilNs)
		}
	}
	said := a.now()
	opt.Progress = func(checked, written int64) {
		if a.now().Sub(said) >= logEvery {
			said = a.now()
			a.note("checked %s, restored %s", output.Size(checked), output.Size(written))
		}
	}
	report, err = store.Restore(ctx, from, filepath.Join(dir, "store"), opt)
	if err != nil && !opt.CheckOnly {
		err = errors.Join(err, os.RemoveAll(dir)) // which was made above
	}
	return report, err
}
