// Package machine is what the log of a group drives: a replica of a store in its directory.
//
// It owns where the replica's files lie, how proposals are encoded, and how the whole state of one
// replica comes to another: as files by name, which take the place of those that are there at once
// or not at all. It knows nothing of how a log is agreed on, nor of networks. Its main type is
// [Machine]; it starts no goroutines.
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
)

// Names in the directory of a machine.
const (
	storeDir     = "store"
	snapshotsDir = "snapshots" // of which peers are reading
	receivedDir  = "received"  // a snapshot that is coming in, not yet whole
	installedDir = "installed" // one that is whole, and takes the place of the store
	splitDir     = "split"     // states of groups that were split off, until they are taken
	newSuffix    = ".new"      // of one that is being made
)

// clockBytes is the clock reading i64 before the command in an entry.
const clockBytes = 8

// ErrNoProposal means that an entry holds no proposal. A replica that left it out might differ from
// the others.
var ErrNoProposal = errors.New("entry of the log is no proposal")

// Machine drives a store as what a group of replicas has.
var _ replica.Machine = (*Machine)(nil)

// Machine is a replica of a store.
type Machine struct {
	dir   string
	opt   store.Options
	store atomic.Pointer[store.Store]

	commands []store.Command // memory that one Apply hands to the next
	taken    atomic.Uint64   // snapshots, for names
	coming   []byte          // describes the snapshot of which files are being received
}

// Open opens or starts the replica in a directory. Options.Group is the identity of the group;
// Options.Dir is the machine's to choose. An Install that a crash cut short is finished if all had
// come, and forgotten otherwise.
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

// recoverDir makes the directory one that holds nothing but a store, if anything.
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

// Close ends whatever waits and closes the store.
func (m *Machine) Close() error { return m.store.Load().Close() }

// Store returns the store, to be asked. One that Install has replaced answers that it is closed.
func (m *Machine) Store() *store.Store { return m.store.Load() }

// AppendClock begins a proposal: a command is appended to it, such as by [store.AppendPut].
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

// Apply applies entries in their order; results[i] becomes the [store.Outcome] of entry i. One
// goroutine at a time applies or installs.
//
// Errors: as of [store.Store.Apply], and ErrNoProposal, after those entries that Applied tells.
func (m *Machine) Apply(entries []replica.Entry, results []any) error {
	m.commands = m.commands[:0]
	base := m.store.Load().IndexBase()
	for i := range entries {
		c, err := parseEntry(&entries[i], base)
		if err != nil {
			return errors.Join(m.apply(results), err)
		}
		if sp, ok := store.ParseSplit(c.Data); ok {
			done := len(m.commands)
			if err := m.apply(results); err != nil {
				return err
			}
			results = results[done:]
			if err := m.part(sp, c.Index); err != nil {
				return err
			}
		}
		m.commands = append(m.commands, c)
	}
	return m.apply(results)
}

// apply applies the commands that wait.
func (m *Machine) apply(results []any) error {
	outcomes, err := m.store.Load().Apply(context.Background(), m.commands) // Close ends its waits
	for i, out := range outcomes {
		results[i] = out
	}
	clear(m.commands)
	m.commands = m.commands[:0]
	return err
}

// Applied returns the index after which entries are wanted.
func (m *Machine) Applied() uint64 { return own(m.store.Load(), m.store.Load().Applied()) }

// Promise is [store.Store.Promise] for an index of the group's log.
func (m *Machine) Promise(index uint64, horizonNs int64) {
	s := m.store.Load()
	s.Promise(index+s.IndexBase(), horizonNs)
}

// Durable returns the index through which the state survives a loss of power.
func (m *Machine) Durable() uint64 { return own(m.store.Load(), m.store.Load().Durable()) }

// own is the index of the group's log for one of its store.
func own(s *store.Store, index uint64) uint64 { return index - min(index, s.IndexBase()) }

// Sync makes Durable reach what was applied.
func (m *Machine) Sync() error { return m.store.Load().Sync() }
