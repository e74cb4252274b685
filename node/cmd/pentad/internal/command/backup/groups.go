package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/output"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/archive"
	"github.com/pentad-db/pentad/node/store/layout"
)

// groupDir is a replica in the directory of a node of a cluster, or in a snapshot of one.
type groupDir struct {
	group uint64
	store string
}

// groupsIn lists the replicas in a directory, nil when it is not of a node of a cluster. That of a
// node has a number of the replica after that of the group.
func groupsIn(dir string) (all []groupDir) {
	names, err := filepath.Glob(filepath.Join(dir, "groups", "*", "*"))
	if err != nil {
		return nil // dir has a [ in its name that nothing closes
	}
	for _, name := range names {
		number, _, _ := strings.Cut(filepath.Base(filepath.Dir(name)), ".")
		group, err := strconv.ParseUint(number, 10, 32)
		if err == nil && filepath.Base(name) == "store" {
			all = append(all, groupDir{group, name})
		}
	}
	slices.SortFunc(all, func(x, y groupDir) int { return cmp.Compare(x.group, y.group) })
	return all
}

// groupError is why a replica was not backed up.
type groupError struct {
	group uint64
	error
}

func (e groupError) Error() string { return fmt.Sprintf("group %d: %v", e.group, e.error) }
func (e groupError) Unwrap() error { return e.error }

// backupGroups backs up each replica into a directory of its group. One that is damaged does not
// keep the others from it.
//
// Errors: of damage, a groupError each.
func (a *app) backupGroups(
	ctx context.Context, dir, to string, groups []groupDir, opt archive.BackupOptions,
) error {
	beside, done, err := a.besideReplicas(dir)
	if err != nil {
		return err
	}
	defer done()
	opt.Extra = beside
	w, err := a.Writer(false, append([]output.Column{cli.Right("group")}, partColumns()...)...)
	if err != nil {
		return err
	}
	var errs []error
	for _, g := range groups {
		if err = a.backupGroup(ctx, g, to, opt, w); err != nil {
			errs = append(errs, groupError{g.group, err})
		}
		if err != nil && !errors.As(err, new(*durable.CorruptError)) {
			break
		}
	}
	return errors.Join(append(errs, w.Close())...)
}

func (a *app) backupGroup(
	ctx context.Context, g groupDir, to string, opt archive.BackupOptions, w *output.Writer,
) error {
	info, err := layout.ReadSnapshot(g.store)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	opt.UntilAcqNs = info.AcqNs
	began := a.Now()
	part, err := a.writePart(ctx, filepath.Join(to, fmt.Sprintf("group-%d", g.group)), opt,
		func() (*store.Store, store.Report, error) { return store.OpenSnapshot(ctx, g.store) })
	if err != nil {
		return err
	}
	if part == nil {
		a.Note("group %d: nothing new since the last part", g.group)
		return nil
	}
	return w.Row(append([]output.Value{output.Int(g.group)}, partRow(part,
		a.Now().Sub(began))...)...)
}
