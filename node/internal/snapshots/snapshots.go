// Package snapshots makes, lists and removes the snapshots of a node: directories with hard links
// to its store, or in a cluster to its replicas, and with its plugins and cursors.
//
// It knows nothing of what is in the files. Its main type is [Folder]; it starts no goroutines.
package snapshots

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/nodecursors"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/wire"
)

var errNoSnapshot = nodeerror.Sentinel{Kind: wire.KindNotFound,
	Text: "there is no such snapshot; pentad snapshot ls lists them"}

// Folder has the snapshots of a node. All exported fields are set before it is used; all methods
// may be called from many goroutines.
type Folder struct {
	Dir     string                         // where they are; created with the first one
	Store   *store.Store                   // of a node that is in no cluster
	Member  *atomic.Pointer[member.Member] // holds nil in a node that is in no cluster
	Plugins *registry.Registry
	Cursors *nodecursors.Cursors

	changing sync.Mutex // held while a snapshot is created or removed
}

// validName matches valid names of snapshots: file names that need no quotes.
var validName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$`)

// dirOf returns the directory of a snapshot.
func (f *Folder) dirOf(name string) (string, error) {
	if !validName.MatchString(name) || strings.HasSuffix(name, ".tmp") {
		return "", params.Bad("name", fmt.Errorf("%q is not a valid name for a snapshot; use 1 to "+
			"64 letters, digits, and . _ - but not first, not ending in .tmp", params.Clip(name)))
	}
	return filepath.Abs(filepath.Join(f.Dir, name))
}

// Create makes a snapshot of everything that the node stores, plugins with it; see
// [store.Store.Snapshot]. In a cluster that is its replicas.
func (f *Folder) Create(ctx context.Context, name string) (api.Snapshot, error) {
	dir, err := f.dirOf(name)
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return api.Snapshot{}, err
	}
	f.changing.Lock()
	defer f.changing.Unlock()
	if _, err := os.Lstat(dir); err == nil {
		return api.Snapshot{}, fmt.Errorf("snapshot %s: %w", name, store.ErrExists)
	}
	var out api.Snapshot
	tmp := dir + ".tmp"
	err = os.RemoveAll(tmp) // of a crash
	if m := f.Member.Load(); err == nil && m != nil {
		err = linkReplicas(ctx, m, tmp)
	} else if err == nil {
		_, err = f.Store.Snapshot(ctx, filepath.Join(tmp, "store"))
	}
	if err == nil {
		out, err = read(tmp)
		out.Name, out.Dir = name, dir
	}
	if err == nil {
		err = f.Plugins.CopyTo(ctx, filepath.Join(tmp, "plugins"))
	}
	if err == nil {
		err = f.Cursors.CopyTo(filepath.Join(tmp, "cursors"), out.AcqNs)
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

// List lists the snapshots by name.
func (f *Folder) List() ([]api.Snapshot, error) {
	dir, err := filepath.Abs(f.Dir)
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
		one, err := read(filepath.Join(dir, e.Name()))
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

// Remove removes a snapshot, also a damaged one. What a backup has open of it stays
// readable.
func (f *Folder) Remove(name string) error {
	dir, err := f.dirOf(name)
	if err != nil {
		return err
	}
	f.changing.Lock()
	defer f.changing.Unlock()
	_, err = read(dir)
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

// RemoveUnfinished removes the remains of snapshots whose creation or removal was interrupted.
func (f *Folder) RemoveUnfinished(log *slog.Logger) {
	all, err := filepath.Glob(filepath.Join(f.Dir, "*.tmp"))
	if err != nil {
		panic("BUG: no pattern: " + err.Error())
	}
	for _, dir := range all {
		if err := os.RemoveAll(dir); err != nil { // it only takes space
			log.Error("remove what is left of a snapshot", "err", err)
			continue
		}
		log.Warn("removed what was left of an interrupted snapshot", "dir", dir)
	}
}
