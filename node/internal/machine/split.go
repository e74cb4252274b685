package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/commands"
)

// prepareSplit writes the initial state of the group that a split at an index creates, from the
// state before it, and makes it durable: once the split is applied, no other replica may have it.
// The write is atomic, and repeated as long as the split is not applied.
func (m *Machine) prepareSplit(sp *commands.Split, index uint64) error {
	s := m.store.Load()
	if s.Applied()+1 != index || !s.WillSplit(sp) {
		return nil // it was applied before, or has no effect
	}
	dir, next := m.seed(sp.Child), m.seed(sp.Child)+newSuffix
	err := errors.Join(os.RemoveAll(dir), os.RemoveAll(next), os.MkdirAll(m.path(splitDir), 0o755))
	if err == nil {
		_, err = s.Snapshot(context.Background(), next)
	}
	if err == nil {
		err = m.inherit(next, sp)
	}
	if err == nil {
		err = os.Rename(next, dir)
	}
	if err == nil {
		err = errors.Join(durable.SyncDir(m.path(splitDir)), durable.SyncDir(m.dir))
	}
	if err != nil {
		return fmt.Errorf("split off group %d: %w", sp.Child, err)
	}
	return nil
}

// inherit converts a snapshot of this group's store into that of the new group.
func (m *Machine) inherit(dir string, sp *commands.Split) error {
	opt := m.opt
	opt.Dir = dir
	s, _, err := store.Open(context.Background(), opt)
	if err != nil {
		return err
	}
	return errors.Join(s.Inherit(context.Background(), sp), s.Close())
}

func (m *Machine) seed(child replica.GroupID) string {
	return filepath.Join(m.path(splitDir), childName(child))
}

// SeedDir returns where a replica's directory has the initial state of a new group; Take looks
// there in the directories of all replicas.
func SeedDir(dir string, child replica.GroupID) string {
	return filepath.Join(dir, splitDir, childName(child))
}

func childName(child replica.GroupID) string { return strconv.FormatUint(uint64(child), 10) }

// Left reports whether the initial state of a group that was split off this one was not taken yet.
func (m *Machine) Left(child replica.GroupID) bool {
	_, err := os.Stat(m.seed(child))
	return err == nil
}

// Take moves the initial state of a new group from the replica that it was split off to its own
// replica's directory, where [Open] finds it. It does nothing if there is none.
func Take(groups string, child replica.GroupID, dir string) error {
	seed, err := findSeed(groups, child)
	if seed == "" || err != nil {
		return err
	}
	err = os.MkdirAll(dir, 0o755)
	if err == nil {
		err = os.Rename(seed, filepath.Join(dir, storeDir))
	}
	if err == nil {
		err = errors.Join(durable.SyncDir(dir), durable.SyncDir(groups),
			durable.SyncDir(filepath.Dir(seed)))
	}
	if err != nil {
		return fmt.Errorf("take the state of group %d, which was split off: %w", child, err)
	}
	return nil
}

// Forget removes, atomically, the initial state of a group that gets no replica here.
func Forget(groups string, child replica.GroupID) error {
	seed, err := findSeed(groups, child)
	if seed == "" || err != nil {
		return err
	}
	gone := seed + newSuffix
	if err = os.RemoveAll(gone); err == nil {
		err = os.Rename(seed, gone)
	}
	if err == nil {
		err = errors.Join(durable.SyncDir(filepath.Dir(seed)), os.RemoveAll(gone))
	}
	return err
}

// findSeed returns the directory of the initial state of a group, "" if there is none.
func findSeed(groups string, child replica.GroupID) (string, error) {
	replicas, err := os.ReadDir(groups)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	for _, r := range replicas {
		seed := filepath.Join(groups, r.Name(), splitDir, childName(child))
		if _, err := os.Stat(seed); err == nil {
			return seed, nil
		}
	}
	return "", nil
}
