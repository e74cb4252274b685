package store

import (
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/record"
)

// apply has a replica apply commands, the first with an index one above what was applied.
func apply(t *testing.T, s *Store, clockNs int64, all ...[]byte) []Outcome {
	t.Helper()
	out, err := s.Apply(t.Context(), commandsAt(s, clockNs, all...))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func commandsAt(s *Store, clockNs int64, all ...[]byte) []Command {
	var commands []Command
	for i, data := range all {
		commands = append(commands, Command{Index: s.Applied() + uint64(i) + 1, ClockNs: clockNs,
			Data: data})
	}
	return commands
}

func putOf(t *testing.T, mids ...int64) []byte {
	t.Helper()
	b := &record.Batch{}
	for _, mid := range mids {
		b.Append(record.Key{MID: mid}, []byte{1})
	}
	data, err := commands.AppendPut(nil, b, WriterSeq{})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Where the disk fails, Apply fails, and goes on failing, until the store is opened again: then it
// stands where it stood.
func TestReplicaFails(t *testing.T) {
	erase, err := commands.AppendErase(nil, record.Box{})
	if err != nil {
		t.Fatal(err)
	}
	for what, fail := range map[string]func(s *Store) error{
		"log":      func(s *Store) error { return s.log.Close() },
		"manifest": func(s *Store) error { return s.manifest.Close() },
	} {
		s := openTest(t, Options{Group: testGroup})
		apply(t, s, 100, putOf(t, 1, 2), erase, putOf(t, 3))
		if err := fail(s); err != nil {
			t.Fatal(err)
		}
		broken := commandsAt(s, 200, putOf(t, 4), erase, putOf(t, 5))
		applied := s.Applied()
		out, err := s.Apply(t.Context(), broken)
		if !errors.Is(err, ErrFailed) || len(out) > 1 || s.Applied() != applied+uint64(len(out)) {
			t.Fatalf("%s: %d outcomes, applied %d after %d, %v", what, len(out), s.Applied(),
				applied, err)
		}
		applied = s.Applied()
		if _, err := s.Apply(t.Context(), broken); !errors.Is(err, ErrFailed) {
			t.Fatalf("%s: applied again: %v", what, err)
		}
		_ = s.Close() // says what failed
		s = openTest(t, Options{Group: testGroup, Dir: s.opt.Dir})
		if s.Applied() != applied {
			t.Fatalf("%s: opened at %d, want %d", what, s.Applied(), applied)
		}
		if out, err := s.Apply(t.Context(), broken); err != nil || out[1].AcqNs != 201 {
			t.Fatalf("%s: %+v, %v", what, out, err)
		}
		if rows := scanRows(t, s, &record.Query{}); len(rows) != 5 || rows[4].key.AcqNs != 202 {
			t.Fatalf("%s: %+v", what, rows)
		}
	}
}

// Whoever follows a replica hears of a command when it is applied.
func TestReplicaWakesFeeds(t *testing.T) {
	s := openTest(t, Options{Group: testGroup})
	apply(t, s, 100, putOf(t, 1))
	f := feedOf(t, s, record.Box{}, 0)
	readFeed(t, f, 0)
	purge, err := commands.AppendPurge(nil, record.Box{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		data         []byte
		rows, events int
	}{{putOf(t, 7, 8), 2, 0}, {purge, 0, 1}} {
		apply(t, s, 200, c.data)
		began := time.Now()
		if err := f.Wait(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if time.Since(began) > 30*time.Second {
			t.Error("the command woke nobody")
		}
		rows, events := readFeed(t, f, 0)
		if len(rows) != c.rows || len(events) != c.events || f.NextNs() != s.oracle.NextNs() {
			t.Errorf("%d rows and %d events up to %d", len(rows), len(events), f.NextNs())
		}
	}
}

// A retention of a replica takes steps when its log says so, whatever the replica's clock does.
func TestReplicaSteps(t *testing.T) {
	var now atomic.Int64 // the merger looks at it, too
	now.Store(10 * hour)
	s := openTest(t, Options{Group: testGroup, retainEvery: time.Millisecond, Now: now.Load,
		monotonic: now.Load})
	set, err := commands.AppendRetention(nil, retention.Rule{MaxAcqAgeNs: hour})
	if err != nil {
		t.Fatal(err)
	}
	f := func(what string, due bool, rows int) {
		t.Helper()
		step, got := s.RetentionStep(s.wallClock.Read())
		if got != due {
			t.Errorf("%s: due %v", what, got)
		}
		if got {
			if out := apply(t, s, now.Load(), step); out[0].AcqNs < now.Load() {
				t.Errorf("the step is %+v", out[0])
			}
			if out := apply(t, s, now.Load(), step); out[0] != (Outcome{}) {
				t.Errorf("a step that is not due is %+v", out[0])
			}
		}
		if got := len(scanRows(t, s, &record.Query{})); got != rows {
			t.Errorf("%s: %d rows, want %d", what, got, rows)
		}
	}
	f("no policy", false, 0)
	apply(t, s, now.Load()-1, putOf(t, 1), set)
	f("set", true, 1)
	f("a moment later", false, 1)
	now.Add(2 * hour)
	f("two hours later", true, 0)
	f("after the step", false, 0)
}

// A backup of a replica is restored as a stand-alone store.
func TestReplicaIsRestored(t *testing.T) {
	s := openTest(t, Options{Group: testGroup, SealRows: 2})
	apply(t, s, 100, putOf(t, 1, 2), putOf(t, 3, 4), putOf(t, 5))
	backup, dir := t.TempDir(), filepath.Join(t.TempDir(), "restored")
	if _, err := archive.Backup(t.Context(), s, backup, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := archive.Restore(t.Context(), backup, dir, 0); err != nil {
		t.Fatal(err)
	}
	own := openTest(t, Options{Dir: dir})
	mustPut(t, own, batchOf(record.Key{MID: 6}), WriterSeq{})
	if got := len(scanRows(t, own, &record.Query{})); got != 6 {
		t.Errorf("%d rows", got)
	}
}
