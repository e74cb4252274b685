// Package backup holds the commands that keep and bring back the data of a node: backup, restore
// and snapshot.
//
// It owns the order of their steps and what is stored in addition to records: the catalogue, plugin
// modules and cursors. Package store writes and reads the parts of a backup.
package backup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/command/files"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/archive"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/wire"
)

// app is the command line, with the methods of this package.
type app struct{ *cli.App }

// BackupCommand returns pentad backup.
func BackupCommand(shared *cli.App) *cobra.Command {
	a := &app{shared}
	var to, from, dir string
	wait := cli.DurationFlag(backupWait)
	c := &cobra.Command{
		Use:   "backup --to DIR",
		Short: "Back up a node incrementally",
		Long: `Write all records since the newest part in a directory into a new part; the first part holds
everything. A part contains sealed segments, what is needed to answer retried batches, the catalogue
of plugins and quantities, plugin modules that no earlier part has, cursors, and a checksum of each
file. It appears completely or not at all, and is read back first. Before that, the newest part in
DIR is compared with its checksums, and files of older parts with their sizes; pentad restore
--check-only reads them all.

The command asks the node for a snapshot, backs up its directory and removes it, so it must run on
the host of the node; the node keeps serving. --dir backs up a stopped node or a snapshot instead.
pentad restore creates a node from a backup.

A directory that was reset to an older copy, e.g. a disk snapshot, lacks later records, and its new
records are another history. If DIR holds records that it lacks, the command fails and writes
nothing: use a new DIR. A node that pentad restore created from all of DIR continues DIR.

For a node of a cluster, each group with a replica on the node gets a directory group-GROUP in DIR,
a backup of its own that any replica of the group can continue: run the command on nodes that
together have all groups, with copies of the same DIR. Plugins and cursors are stored with each.

Damage is never backed up, and damaged parts are not continued: exit code 7 names the file, no part
of that store is written, and earlier parts stay unchanged. A cluster replaces a damaged replica;
the command waits for that, up to --wait, and continues with the new one.`,
		Args: cli.NoCommand,
		Example: `  pentad backup --to ./backup
  pentad backup --to ./backup
  pentad backup --to ./another --dir /var/lib/pentad`,
		RunE: func(c *cobra.Command, _ []string) error {
			var opt archive.BackupOptions
			if to == "" {
				return cli.Usagef("--to: missing; give the directory of the backup")
			}
			if from != "" {
				acq, err := strconv.ParseInt(from, 10, 64)
				if err != nil {
					return cli.Usagef("--from-acq %q: not an acq in ns", from)
				}
				opt.From = &acq
			}
			ctx := c.Context()
			err := a.backup(ctx, dir, to, opt, time.Duration(wait))
			return cli.Stopped(ctx, err, "the part that was being written is not there, earlier "+
				"parts are unchanged; run the same command to back up what is missing")
		},
	}
	flags := c.Flags()
	flags.StringVar(&to, "to", "", "directory of the backup; created if missing")
	flags.StringVar(&from, "from-acq", "",
		"start of the new part, an acq in ns (default: end of the newest part)")
	flags.StringVar(&dir, "dir", "",
		"directory of a stopped node or of a snapshot (default: ask the node)")
	flags.Var(&wait, "wait",
		"how long to wait for a cluster to replace a damaged replica, e.g. 10m")
	return c
}

// backupNode backs up a running node by way of a snapshot. Replicas of a node of a cluster that are
// found damaged are backed up once the cluster has replaced them.
// backup backs up a directory, or a running node for "".
func (a *app) backup(
	ctx context.Context, dir, to string, opt archive.BackupOptions, wait time.Duration,
) error {
	if dir != "" {
		return a.backupDir(ctx, dir, to, opt)
	}
	return a.backupNode(ctx, to, opt, wait)
}

func (a *app) backupNode(
	ctx context.Context, to string, opt archive.BackupOptions, wait time.Duration,
) error {
	db, err := a.Connect(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	r := &backupRun{app: a, db: db, to: to, opt: opt}
	return r.run(ctx, wait)
}

// removeSnapshot removes the snapshot of a backup, also when the command is interrupted: it would
// keep what is merged from going.
func removeSnapshot(ctx context.Context, db *client.Client, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cli.CloseTimeout)
	defer cancel()
	return db.RemoveSnapshot(ctx, name)
}

// removeUnanswered removes the snapshot that the node may have made although its answer did not
// come.
func (a *app) removeUnanswered(
	ctx context.Context, db *client.Client, name string, cause error,
) {
	var answer *wire.Error
	if errors.As(cause, &answer) {
		return // it made none
	}
	err := removeSnapshot(ctx, db, name)
	if err != nil && !(errors.As(err, &answer) && answer.Kind == wire.KindNotFound) {
		a.Note("snapshot %s may remain; remove it with pentad snapshot rm %s", name, name)
	}
}

func (a *app) backupSnapshot(
	ctx context.Context, info client.SnapshotInfo, to string, opt archive.BackupOptions,
) error {
	var err error
	dir := filepath.Join(info.Dir, "store")
	if _, err := layout.ReadSnapshot(dir); err != nil {
		return err
	}
	opt.UntilAcqNs = info.AcqNs
	if opt.Extra, err = a.besideStore(info.Dir); err != nil {
		return err
	}
	return a.backupOpen(ctx, to, opt, func() (*store.Store, store.Report, error) {
		return store.OpenSnapshot(ctx, dir)
	})
}

// backupDir backs up a directory that no node has open.
func (a *app) backupDir(
	ctx context.Context, dir, to string, opt archive.BackupOptions,
) error {
	inside := files.StoreDir(dir)
	if inside == "" {
		return cli.Usagef("--dir %s: not a directory", dir)
	}
	if groups := groupsIn(dir); groups != nil {
		return a.backupStopped(ctx, dir, to, groups, opt)
	}
	if _, err := os.Stat(filepath.Join(inside, "MANIFEST")); err != nil { // Open would make one
		return fmt.Errorf("%s: %w", dir, layout.ErrNoStore)
	}
	info, err := layout.ReadSnapshot(inside)
	if err == nil {
		opt.UntilAcqNs = info.AcqNs
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if inside != dir {
		if opt.Extra, err = a.besideStore(dir); err != nil {
			return err
		}
	}
	err = a.backupOpen(ctx, to, opt, func() (*store.Store, store.Report, error) {
		return store.OpenSnapshot(ctx, inside)
	})
	if sourceDamaged(err) {
		return adviseDamage(0, err, false)
	}
	return err
}

// sourceDamaged reports whether a store was not backed up because a file of it is damaged.
func sourceDamaged(err error) bool {
	return errors.As(err, new(*durable.CorruptError)) && !errors.Is(err, archive.ErrPartDamaged)
}

// backupStopped backs up the replicas in the directory of a node of a cluster that does not run.
func (a *app) backupStopped(
	ctx context.Context, dir, to string, groups []groupDir, opt archive.BackupOptions,
) error {
	var errs []error
	for _, err := range unjoined(a.backupGroups(ctx, dir, to, groups, opt)) {
		var of groupError
		if errors.As(err, &of) && sourceDamaged(err) {
			err = adviseDamage(of.group, of.error, false)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (a *app) backupOpen(
	ctx context.Context, to string, opt archive.BackupOptions,
	open func() (*store.Store, store.Report, error),
) error {
	began := a.Now()
	part, err := a.writePart(ctx, to, opt, open)
	if err != nil {
		return err
	}
	if part == nil {
		a.Note("nothing new since the last part")
		return nil
	}
	return a.One(partColumns(), partRow(part, a.Now().Sub(began))...)
}

// writePart writes a part of the backup of one store, nil when nothing is new.
func (a *app) writePart(
	ctx context.Context, to string, opt archive.BackupOptions,
	open func() (*store.Store, store.Report, error),
) (*archive.Part, error) {
	s, _, err := open()
	if err != nil {
		return nil, err
	}
	said := a.Now()
	opt.Progress = func(done, total int64) error {
		if a.Now().Sub(said) >= cli.LogEvery {
			said = a.Now()
			a.Note("%s of %s rows", output.Thousands(done), output.Thousands(total))
		}
		return nil
	}
	part, err := archive.Backup(ctx, s, to, opt)
	return part, errors.Join(err, s.Close())
}

func partColumns() []output.Column {
	return []output.Column{cli.Left("from_acq_ns"), cli.Left("until_acq_ns"), cli.Right("records"),
		cli.Right("files"), cli.Right("bytes"), cli.Right("took")}
}

func partRow(part *archive.Part, took time.Duration) []output.Value {
	from := output.Null()
	if part.FromAcqNs != math.MinInt64 {
		from = output.Int(part.FromAcqNs)
	}
	return []output.Value{from, output.Int(part.UntilAcqNs), output.Count(part.Rows),
		output.Count(len(part.Files) + len(part.Beside)), output.Bytes(part.Bytes),
		output.Span(took.Round(time.Millisecond))}
}
