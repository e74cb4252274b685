package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/api"
)

// snapshotName matches valid names of snapshots: file names that need no quotes.
var snapshotName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$`)

// snapshotDir returns the directory of a snapshot.
func (n *Node) snapshotDir(name string) (string, error) {
	if !snapshotName.MatchString(name) || strings.HasSuffix(name, ".tmp") {
		return "", params.Bad("name", fmt.Errorf("%q is not a valid name for a snapshot; use 1 to "+
			"64 letters, digits, and . _ - but not first, not ending in .tmp", params.Clip(name)))
	}
	return filepath.Abs(filepath.Join(n.opt.Dir, "snapshots", name))
}

// CreateSnapshot makes a snapshot of everything that the node stores, plugins with it; see
// [store.Store.Snapshot]. In a cluster that is its replicas.
func (n *Node) CreateSnapshot(ctx context.Context, name string) (api.Snapshot, error) {
	dir, err := n.snapshotDir(name)
	if err != nil {
		return api.Snapshot{}, err
	}
	n.snapshots.Lock()
	defer n.snapshots.Unlock()
	if _, err := os.Lstat(dir); err == nil {
		return api.Snapshot{}, fmt.Errorf("snapshot %s: %w", name, store.ErrExists)
	}
	var out api.Snapshot
	tmp := dir + ".tmp"
	err = os.RemoveAll(tmp) // of a crash
	if m := n.member.Load(); err == nil && m != nil {
		err = n.snapshotReplicas(ctx, m, tmp)
	} else if err == nil {
		_, err = n.store.Snapshot(ctx, filepath.Join(tmp, "store"))
	}
	if err == nil {
		out, err = readSnapshot(tmp)
		out.Name, out.Dir = name, dir
	}
	if err == nil {
		err = n.plugins.CopyTo(ctx, filepath.Join(tmp, "plugins"))
	}
	if err == nil {
		err = n.copyCursors(filepath.Join(tmp, "cursors"), out.AcqNs)
	}
	if err == nil {
		err = os.Rename(tmp, dir)
	}
	if err == nil {
		err = durable.SyncDir(filepath.Dir(dir))
	}
	if err != nil {
		return api.Snapshot{}, errors.Join(err, os.RemoveAll(tmp))
	}
	return out, nil
}

// Snapshots lists the snapshots by name.
func (n *Node) Snapshots() ([]api.Snapshot, error) {
	dir, err := filepath.Abs(filepath.Join(n.opt.Dir, "snapshots"))
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return []api.Snapshot{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	out := []api.Snapshot{}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".tmp") || !e.IsDir() {
			continue
		}
		one, err := readSnapshot(filepath.Join(dir, e.Name()))
		if errors.Is(err, os.ErrNotExist) {
			continue // a node was started on it: it is none any more
		}
		if err != nil {
			one.Damage = err.Error()
		}
		out = append(out, one)
	}
	return out, nil
}

// RemoveSnapshot removes a snapshot, also a damaged one. What a backup has open of it stays
// readable.
func (n *Node) RemoveSnapshot(name string) error {
	dir, err := n.snapshotDir(name)
	if err != nil {
		return err
	}
	n.snapshots.Lock()
	defer n.snapshots.Unlock()
	_, err = readSnapshot(dir)
	if errors.Is(err, os.ErrNotExist) { // or a node was started on it
		return fmt.Errorf("snapshot %s: %w", name, errNoSnapshot)
	}
	gone := dir + ".tmp"                       // half of it must not be taken for a snapshot
	if err := os.RemoveAll(gone); err != nil { // of a removal that was cut short
		return fmt.Errorf("remove snapshot: %w", err)
	}
	if err := os.Rename(dir, gone); err != nil {
		return fmt.Errorf("remove snapshot: %w", err)
	}
	if err := os.RemoveAll(gone); err != nil {
		return fmt.Errorf("remove snapshot: %w", err)
	}
	return nil
}

// removeUnfinished removes the remains of snapshots whose creation or removal was interrupted.
func (n *Node) removeUnfinished() {
	all, err := filepath.Glob(filepath.Join(n.opt.Dir, "snapshots", "*.tmp"))
	if err != nil {
		panic("BUG: no pattern: " + err.Error())
	}
	for _, dir := range all {
		if err := os.RemoveAll(dir); err != nil { // it only takes space
			n.log.Error("remove what is left of a snapshot", "err", err)
			continue
		}
		n.log.Warn("removed what was left of an interrupted snapshot", "dir", dir)
	}
}

// cleanSpill removes temporary files of a process that was killed.
func (n *Node) cleanSpill() {
	removed, err := n.spill.Clean()
	if err != nil {
		n.log.Error("remove temporary files", "err", err) // they only waste disk space
	}
	if len(removed) > 0 {
		n.log.Warn("removed temporary files of answers that were cut short", "count", len(removed))
	}
}
