package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/archive"
)

// RestoreCommand returns pentad restore.
func RestoreCommand(shared *cli.App) *cobra.Command {
	a := &app{shared}
	var from, dir, into string
	var until int64
	var checkOnly bool
	c := &cobra.Command{
		Use:   "restore --from DIR --dir NEW",
		Short: "Restore a node or a cluster from a backup",
		Long: `Create the directory of a node from all parts of a backup, or from those up to an acq in ns since
1970. Every file is compared with its checksum before anything is written, parts must be contiguous,
and rows are counted at the end. Plugins, quantities and cursors are those of the last part that is
restored; cursors are limited to the end. The new node is independent: if it holds all parts, pentad
backup continues DIR with it, unless another node has continued DIR.

--into restores a backup of a cluster into a new cluster: DIR has a directory group-GROUP for each
group, as written by pentad backup, and the new cluster has the same number of groups. NEW is a work
directory of this command: each group becomes a node there and is copied exactly into its group,
with all acqs, corrections and erases. Plugins and quantities are those stored with the first group;
a cursor gets the lowest position of all groups. Finally the cluster accepts records and NEW is
removed. An interrupted run is resumed by the same command.`,
		Args: cli.NoCommand,
		Example: `  pentad restore --from ./backup --check-only
  pentad restore --from ./backup --dir ./restored
  pentad restore --from ./backup --dir ./work --into node-1:5150`,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case from == "":
				return cli.Usagef("--from: missing; give the directory of the backup")
			case dir == "" && !checkOnly:
				return cli.Usagef("--dir: missing; give the directory of the new node")
			case into != "" && (checkOnly || until != 0):
				return cli.Usagef("--into: restores a complete backup; leave out --check-only " +
					"and --until-acq")
			}
			ctx := c.Context()
			if into != "" {
				return a.restoreCluster(ctx, from, dir, into)
			}
			left := "nothing was restored; run the same command to start again"
			if checkOnly {
				left = "not everything was checked; run the same command to check all again"
			}
			return cli.Stopped(ctx, a.restore(ctx, from, dir,
				archive.RestoreOptions{UntilAcqNs: until, CheckOnly: checkOnly}), left)
		},
	}
	flags := c.Flags()
	flags.StringVar(&from, "from", "", "directory of the backup")
	flags.StringVar(&dir, "dir", "", "directory of the new node; must not exist")
	flags.Int64Var(&until, "until-acq", 0,
		"restore only records with an acq below this, in ns (default: all)")
	flags.StringVar(&into, "into", "",
		"address of a node of a new cluster that receives the backup of a cluster")
	flags.BoolVar(&checkOnly, "check-only", false, "read and check the backup, write nothing")
	return c
}

func (a *app) restore(
	ctx context.Context, from, dir string, opt archive.RestoreOptions,
) error {
	began := a.Now()
	report, err := a.restoreDir(ctx, from, dir, opt)
	if err != nil {
		return err
	}
	records := output.Count(report.Rows)
	switch report.Rows {
	case archive.RowsUnknown:
		records = output.Null()
	case 0:
		a.Note("the backup has no records with an acq below %d", report.UntilAcqNs)
	}
	return a.One([]output.Column{cli.Right("parts"), cli.Left("until_acq_ns"), cli.Right("records"),
		cli.Right("bytes_checked"), cli.Right("took")}, output.Count(report.Parts),
		output.Int(report.UntilAcqNs), records,
		output.Bytes(report.Check.Bytes), output.Span(a.Now().Sub(began).Round(time.Millisecond)))
}

// restoreDir makes the directory of a node of a backup, or only reads it.
func (a *app) restoreDir(
	ctx context.Context, from, dir string, opt archive.RestoreOptions,
) (report archive.RestoreReport, err error) {
	if !opt.CheckOnly {
		if _, err := os.Lstat(dir); err == nil {
			return report, errors.Join(archive.CheckFinished(filepath.Join(dir, "store")),
				fmt.Errorf("%s: %w", dir, store.ErrExists))
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return report, err
		}
		opt.Extra = func(files []archive.ExtraFile, untilNs int64) error {
			return restoreBeside(dir, files, untilNs)
		}
	}
	said := a.Now()
	opt.Progress = func(checked, written int64) {
		if a.Now().Sub(said) >= cli.LogEvery {
			said = a.Now()
			a.Note("checked %s, restored %s", output.Size(checked), output.Size(written))
		}
	}
	report, err = archive.Restore(ctx, from, filepath.Join(dir, "store"), opt)
	if err != nil && !opt.CheckOnly {
		err = errors.Join(err, os.RemoveAll(dir)) // which was made above
	}
	return report, err
}
