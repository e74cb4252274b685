package main

import (
	"context"
	"errors"
	"math"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
)

func (a *app) verifyCommand() *cobra.Command {
	return group("verify", "Read everything that a node stores and name what is damaged",
		"  pentad verify files\n  pentad verify files --rate 50", a.verifyFilesCommand())
}

func (a *app) verifyFilesCommand() *cobra.Command {
	var megabytes float64
	var dir string
	c := &cobra.Command{
		Use:   "files",
		Short: "Read all files of a node from end to end",
		Long: `Make the node read all its segments and its log while it goes on working, and list what is
damaged by file and offset; purges are listed, too. --dir reads the directory of a node that is
stopped, as pentad check does. Each damaged place is a line on stdout; exit code 7 says that there
is any. A node of a cluster reads its replicas, and compares each with those of its group on other
nodes, as far as the group is closed; which one differs from most is named.`,
		Args: noCommand,
		Example: `  pentad verify files
  pentad verify files --rate 100
  pentad verify files --dir /var/lib/pentad`,
		RunE: func(c *cobra.Command, _ []string) error {
			if !(megabytes >= 0 && megabytes < 1e9) {
				return usagef("--rate %g is no number of megabytes per second", megabytes)
			}
			rate := int64(math.Ceil(megabytes * 1e6))
			if dir != "" {
				return a.verifyDir(c.Context(), dir, rate)
			}
			return a.verifyNode(c.Context(), rate)
		},
	}
	c.Flags().Float64Var(&megabytes, "rate", 0, "read at most so many MB/s (default: no limit)")
	c.Flags().StringVar(&dir, "dir", "", "read the directory of a stopped node instead")
	return c
}

func (a *app) verifyDir(ctx context.Context, dir string, rate int64) error {
	show, err := a.newDamageWriter()
	if err != nil {
		return err
	}
	inside := storeDir(dir)
	if inside == "" {
		return usagef("--dir %s is no directory; pentad check reads single files", dir)
	}
	report, err := store.Check(ctx, inside, store.CheckOptions{BytesPerSec: rate, Damage: show.row})
	if err != nil {
		return errors.Join(err, show.Close())
	}
	a.noteChecked(dir, &report)
	return show.end()
}

func (a *app) verifyNode(ctx context.Context, rate int64) error {
	db, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	show, err := a.newDamageWriter()
	if err != nil {
		return err
	}
	said := a.now()
	report, err := db.Verify(ctx, client.VerifyOptions{
		BytesPerSec: rate,
		Damage:      show.row,
		Progress: func(r *client.VerifyReport) {
			if a.now().Sub(said) >= logEvery {
				said = a.now()
				a.note("read %s, %s rows", output.Size(r.Bytes), output.Thousands(r.Rows))
			}
		},
	})
	if err != nil {
		return errors.Join(err, show.Close())
	}
	events, err := db.Events(ctx)
	if err != nil {
		return errors.Join(err, show.Close())
	}
	a.notePurges(events)
	a.noteChecked(a.addr, &report)
	return show.end()
}

// notePurges says which records are not there because they were purged.
func (a *app) notePurges(events []client.Event) {
	for i := range events {
		e := &events[i]
		if e.Kind != "purge" {
			continue
		}
		state, removed := "is under way", uint64(0)
		if e.Removed != nil {
			removed = *e.Removed
		}
		if e.Done != nil && *e.Done {
			state = "is done"
		}
		a.note("purge at acq %d %s: %s rows removed", e.AcqNs, state,
			output.Thousands(int64(removed)))
	}
}
