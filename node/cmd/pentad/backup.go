package main

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

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/wire"
)

func (a *app) backupCommand() *cobra.Command {
	var to, from, dir string
	wait := durationFlag(backupWait)
	c := &cobra.Command{
		Use:   "backup --to DIR",
		Short: "Write what came since the last backup into a directory",
		Long: `Write all records that came since the newest part in a directory into a part of their own;
the first part holds everything. A part has its sealed segments, what is needed to answer retries of
batches, the catalogue of plugins and quantities, modules that no earlier part has, the cursors, and
a checksum of each file; it appears whole or not at all, and is read back first. Before, the newest
part in DIR is read and compared with its checksums, and the files of older ones with their sizes;
pentad restore --check-only reads them all.

The node is asked for a snapshot, which is backed up from its directory and then removed, so the
command must run on the node's machine; the node goes on meanwhile. --dir backs up a stopped node,
or a snapshot of one, instead. pentad restore makes a node of a backup.

A directory that was put back from an older copy, such as a snapshot of its disk, lacks what came
later, and what it takes from then on is another history. If DIR holds some of what it lacks, the
command fails and writes nothing: begin a new DIR. What pentad restore made of all of DIR goes on.

Of a node of a cluster each group that it has a replica of gets a directory group-GROUP in DIR, a
backup by itself: it may be continued from any replica of the group, so run this on as many nodes as
have all groups together, with copies of the same DIR. Plugins and cursors are kept with each.

Damage is never backed up, and damaged parts are not continued: exit code 7 names the file, no part
of that store is written, and those before stay as they are. A node of a cluster gets a new replica
in place of a damaged one; the command waits for that, as long as --wait says, and goes on with it.`,
		Args: noCommand,
		Example: `  pentad backup --to ./backup
  pentad backup --to ./backup
  pentad backup --to ./another --dir /var/lib/pentad`,
		RunE: func(c *cobra.Command, _ []string) error {
			var opt store.BackupOptions
			if to == "" {
				return usagef("--to is missing: the directory of the backup")
			}
			if from != "" {
				acq, err := strconv.ParseInt(from, 10, 64)
				if err != nil {
					return usagef("--from-acq: %q is no acq in ns, as parts have", from)
				}
				opt.From = &acq
			}
			if dir != "" {
				return a.backupDir(c.Context(), dir, to, opt)
			}
			return a.backupNode(c.Context(), to, opt, time.Duration(wait))
		},
	}
	flags := c.Flags()
	flags.StringVar(&to, "to", "", "directory of the backup; made when missing")
	flags.StringVar(&from, "from-acq", "",
		"first acq, in ns (default: where the newest part ended, or everything)")
	flags.StringVar(&dir, "dir", "", "directory of a stopped node, or of a snapshot")
	flags.Var(&wait, "wait", "wait so long for a cluster to replace a damaged replica")
	return c
}

// backupNode backs up a running node by way of a snapshot. Replicas of a node of a cluster that are
// found damaged are backed up once the cluster has replaced them.
func (a *app) backupNode(
	ctx context.Context, to string, opt store.BackupOptions, wait time.Duration,
) error {
	db, err := a.connect(ctx)
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
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
		a.note("snapshot %s may be left; pentad snapshot rm %s removes it", name, name)
	}
}

func (a *app) backupSnapshot(
	ctx context.Context, info client.SnapshotInfo, to string, opt store.BackupOptions,
) error {
	var err error
	dir := filepath.Join(info.Dir, "store")
	if _, err := store.ReadSnapshot(dir); err != nil {
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
	ctx context.Context, dir, to string, opt store.BackupOptions,
) error {
	inside := storeDir(dir)
	if inside == "" {
		return usagef("--dir %s is no directory", dir)
	}
	if groups := groupsIn(dir); groups != nil {
		return a.backupStopped(ctx, dir, to, groups, opt)
	}
	if _, err := os.Stat(filepath.Join(inside, "MANIFEST")); err != nil { // Open would make one
		return fmt.Errorf("%s: %w", dir, store.ErrNoStore)
	}
	info, err := store.ReadSnapshot(inside)
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
	return errors.As(err, new(*segment.CorruptError)) && !errors.Is(err, store.ErrPartDamaged)
}

// backupStopped backs up the replicas in the directory of a node of a cluster that does not run.
func (a *app) backupStopped(
	ctx context.Context, dir, to string, groups []groupDir, opt store.BackupOptions,
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
	ctx context.Context, to string, opt store.BackupOptions,
	open func() (*store.Store, store.Report, error),
) error {
	began := a.now()
	part, err := a.writePart(ctx, to, opt, open)
	if err != nil {
		return err
	}
	if part == nil {
		a.note("nothing is new since the last part")
		return nil
	}
	return a.one(partColumns(), partRow(part, a.now().Sub(began))...)
}

// writePart writes a part of the backup of one store, nil when nothing is new.
func (a *app) writePart(
	ctx context.Context, to string, opt store.BackupOptions,
	open func() (*store.Store, store.Report, error),
) (*store.BackupPart, error) {
	s, _, err := open()
	if err != nil {
		return nil, err
	}
	said := a.now()
	opt.Progress = func(done, total int64) error {
		if a.now().Sub(said) >= logEvery {
			said = a.now()
			a.note("%s of %s rows", output.Thousands(done), output.Thousands(total))
		}
		return nil
	}
	part, err := s.Backup(ctx, to, opt)
	return part, errors.Join(err, s.Close())
}

func partColumns() []output.Column {
	return []output.Column{left("from_acq_ns"), left("until_acq_ns"), right("records"),
		right("files"), right("bytes"), right("took")}
}

func partRow(part *store.BackupPart, took time.Duration) []output.Value {
	from := output.Null()
	if part.FromAcqNs != math.MinInt64 {
		from = output.Int(part.FromAcqNs)
	}
	return []output.Value{from, output.Int(part.UntilAcqNs), output.Count(part.Rows),
		output.Count(len(part.Files) + len(part.Beside)), output.Bytes(part.Bytes),
		output.Span(took.Round(time.Millisecond))}
}
