package files

import (
	"context"
	"errors"
	"math"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/sdk/client"
)

// VerifyCommand returns pentad verify.
func VerifyCommand(shared *cli.App) *cobra.Command {
	a := &app{shared}
	return cli.Group("verify", "Verify stored data",
		"  pentad verify files\n  pentad verify files --rate 50", a.verifyFilesCommand())
}

func (a *app) verifyFilesCommand() *cobra.Command {
	var megabytes float64
	var dir string
	c := &cobra.Command{
		Use:   "files",
		Short: "Verify every file of a node",
		Long: `Make a running node read all of its segments and its log, and list damage by file and offset; purges
are listed as well. --dir reads the directory of a stopped node, as pentad check does. Each damaged
place is a line on stdout; the exit code is then 7. A node of a cluster reads its replicas and
compares each with the other copies of its group, as far as the group is closed; it names a copy
that differs from the majority.`,
		Args: cli.NoCommand,
		Example: `  pentad verify files
  pentad verify files --rate 100
  pentad verify files --dir /var/lib/pentad`,
		RunE: func(c *cobra.Command, _ []string) error {
			if !(megabytes >= 0 && megabytes < 1e9) {
				return cli.Usagef("--rate %g: not a number of MB per second", megabytes)
			}
			rate := int64(math.Ceil(megabytes * 1e6))
			if dir != "" {
				return a.verifyDir(c.Context(), dir, rate)
			}
			return a.verifyNode(c.Context(), rate)
		},
	}
	c.Flags().Float64Var(&megabytes, "rate", 0,
		"limit of reading in MB/s, e.g. 50 (default: no limit)")
	c.Flags().StringVar(&dir, "dir", "",
		"directory of a stopped node (default: ask the running node)")
	return c
}

func (a *app) verifyDir(ctx context.Context, dir string, rate int64) error {
	show, err := a.newDamageWriter()
	if err != nil {
		return err
	}
	inside := StoreDir(dir)
	if inside == "" {
		return cli.Usagef("--dir %s: not a directory; use pentad check for single files", dir)
	}
	report, err := check.Directory(ctx, inside, check.Options{BytesPerSec: rate,
		Damage: show.storeRow})
	if err != nil {
		return cli.Stopped(ctx, errors.Join(err, show.Close()), show.partlyRead(report.Bytes))
	}
	a.noteChecked(dir, &report)
	return a.endStopped(show)
}

func (a *app) verifyNode(ctx context.Context, rate int64) error {
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	show, err := a.newDamageWriter()
	if err != nil {
		return err
	}
	said, read := a.Now(), int64(0)
	report, err := db.Verify(ctx, client.VerifyOptions{
		BytesPerSec: rate,
		Damage:      show.row,
		Progress: func(r *client.VerifyReport) {
			if read = r.Bytes; a.Now().Sub(said) >= cli.LogEvery {
				said = a.Now()
				a.Note("read %s, %s rows", output.Size(r.Bytes), output.Thousands(r.Rows))
			}
		},
	})
	if err != nil {
		return cli.Stopped(ctx, errors.Join(err, show.Close()),
			show.partlyRead(max(read, report.Bytes)))
	}
	events, err := db.Events(ctx)
	if err != nil {
		return errors.Join(err, show.Close())
	}
	a.notePurges(events)
	a.noteChecked(a.Addr, &report)
	return show.end()
}

// notePurges says which records are not there because they were purged.
func (a *app) notePurges(events []client.Event) {
	for i := range events {
		e := &events[i]
		if e.Kind != "purge" {
			continue
		}
		state, removed := "is in progress", uint64(0)
		if e.Removed != nil {
			removed = *e.Removed
		}
		if e.Done != nil && *e.Done {
			state = "is done"
		}
		a.Note("purge at acq %d %s: %s rows removed", e.AcqNs, state,
			output.Thousands(int64(removed)))
	}
}
