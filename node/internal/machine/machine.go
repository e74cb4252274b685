// Package machine is the state machine of a group: a replica of a store in its directory.
//
// It owns the layout of the replica's directory, the encoding of proposals, and the transfer of the
// whole state of a replica: as files by name, which replace the existing ones atomically. It knows
// nothing of consensus, nor of networks. Its main type is [Machine]; it starts no goroutines.
package machine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/commands"
)

// Names in the directory of a machine.
const (
	storeDir     = "store"
	snapshotsDir = "snapshots" // snapshots that peers read
	receivedDir  = "received"  // a snapshot that is being received
	installedDir = "installed" // a complete one, which replaces the store
	splitDir     = "split"     // states of groups that were split off, until Take
	newSuffix    = ".new"      // of one that is being written
)

// clockBytes is the clock reading i64 before the command in an entry.
const clockBytes = 8

// ErrNoProposal means that an entry has no valid proposal. A replica that skipped it might differ
// from the others.
var ErrNoProposal = errors.New("entry of the log is no proposal")

// Machine implements replica.Machine.
var _ replica.Machine = (*Machine)(nil)

// Machine is a replica of a store.
type Machine struct {
	dir   string
	opt   store.Options
	store atomic.Pointer[store.Store]

	commands  []store.Command // memory that Apply reuses
	snapshots atomic.Uint64   // taken so far, for names
	receiving []byte          // manifest of the snapshot that is being received
}

// Open opens or creates the replica in a directory. Options.Group is the identity of the group;
// Options.Dir is ignored. An Install that a crash interrupted is completed if everything was
// received, and discarded otherwise.
func Open(ctx context.Context, dir string, opt store.Options) (*Machine, store.Report, error) {
	if err := recoverDir(dir); err != nil {
		return nil, store.Report{}, fmt.Errorf("open replica in %s: %w", dir, err)
	}
	m := &Machine{dir: dir, opt: opt}
	m.opt.Dir = m.path(storeDir)
	s, report, err := store.Open(ctx, m.opt)
	if err != nil {
		return nil, report, err
	}
	m.store.Store(s)
	return m, report, nil
}

func (m *Machine) path(name string) string { return filepath.Join(m.dir, name) }

// recoverDir completes or discards what a crash interrupted, so that the directory has only a
// store.
func recoverDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	remove := []string{receivedDir, snapshotsDir}
	seeds, err := os.ReadDir(filepath.Join(dir, splitDir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, e := range seeds {
		if strings.HasSuffix(e.Name(), newSuffix) {
			remove = append(remove, filepath.Join(splitDir, e.Name()))
		}
	}
	for _, name := range remove {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join(dir, installedDir)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return swap(dir)
}

// Close cancels waiting calls and closes the store.
func (m *Machine) Close() error { return m.store.Load().Close() }

// Store returns the store, for reads. A store that Install has replaced returns that it is closed.
func (m *Machine) Store() *store.Store { return m.store.Load() }

// AppendClock begins a proposal, to which a command is appended, e.g. by [commands.AppendPut].
func AppendClock(dst []byte, clockNs int64) []byte {
	return binary.LittleEndian.AppendUint64(dst, uint64(clockNs))
}

// Clock returns the clock reading with which a proposal begins.
func Clock(proposal []byte) int64 { return int64(binary.LittleEndian.Uint64(proposal)) }

// SetClock changes the clock reading with which a proposal begins.
func SetClock(proposal []byte, clockNs int64) {
	binary.LittleEndian.PutUint64(proposal, uint64(clockNs))
}

// parseEntry returns the command of an entry, aliasing it.
//
// Errors: ErrNoProposal.
func parseEntry(e *replica.Entry, base uint64) (store.Command, error) {
	c := store.Command{Index: e.Index + base}
	switch n := len(e.Data); {
	case n == 0:
		return c, nil
	case n <= clockBytes:
		return c, fmt.Errorf("%w: index %d, %d bytes", ErrNoProposal, e.Index, n)
	}
	c.ClockNs = int64(binary.LittleEndian.Uint64(e.Data))
	c.Data = e.Data[clockBytes:]
	return c, nil
}

// Apply applies entries in order; results[i] becomes the [store.Outcome] of entry i. One goroutine
// at a time applies or installs.
//
// Errors: those of [store.Store.Apply], and ErrNoProposal; entries up to Applied were applied.
func (m *Machine) Apply(entries []replica.Entry, results []any) error {
	m.commands = m.commands[:0]
	base := m.store.Load().IndexBase()
	for i := range entries {
		c, err := parseEntry(&entries[i], base)
		if err != nil {
			return errors.Join(m.apply(results), err)
		}
		if sp, ok := commands.ParseSplit(c.Data); ok {
			done := len(m.commands)
			if err := m.apply(results); err != nil {
				return err
			}
			results = results[done:]
			if err := m.prepareSplit(sp, c.Index); err != nil {
				return err
			}
		}
		m.commands = append(m.commands, c)
	}
	return m.apply(results)
}

// apply applies the commands gathered so far.
func (m *Machine) apply(results []any) error {
	outcomes, err := m.store.Load().Apply(context.Background(), m.commands) // Close ends its waits
	for i, out := range outcomes {
		results[i] = out
	}
	clear(m.commands)
	m.commands = m.commands[:0]
	return err
}

// Applied returns the index of the last applied entry.
func (m *Machine) Applied() uint64 { return own(m.store.Load(), m.store.Load().Applied()) }

// LeaseHorizon is [store.Store.LeaseHorizon] for an index of the group's log.
func (m *Machine) LeaseHorizon(index uint64, horizonNs int64) {
	s := m.store.Load()
	s.LeaseHorizon(index+s.IndexBase(), horizonNs)
}

// Durable returns the index up to which the state survives a power loss.
func (m *Machine) Durable() uint64 { return own(m.store.Load(), m.store.Load().Durable()) }

// own converts an index of the store to one of the group's log.
func own(s *store.Store, index uint64) uint64 { return index - min(index, s.IndexBase()) }

// Sync makes Durable reach what was applied.
func (m *Machine) Sync() error { return m.store.Load().Sync() }
