package wal

import (
	"errors"
	"syscall"
	"testing"

	"github.com/pentad-db/pentad/node/internal/durable"
)

// The disk fills up and gets space again, at random, power is lost now and then, and sometimes the
// cut of what did not fit fails: what was acknowledged is there, in order, and nothing else; the
// log takes appends whenever they fit.
func TestOnAFullDisk(t *testing.T) {
	rng := randomSource(t)
	d := newMemoryFolder()
	opt := Options{FileBytes: 900}
	l, _, err := openFolder(d, "log", opt, replayed(new([]Entry)))
	if err != nil {
		t.Fatal(err)
	}
	var all [][]Entry
	refused := 0
	for i := range 600 {
		d.full, d.free = rng.IntN(3) == 0, rng.IntN(300)*rng.IntN(2)
		if rng.IntN(20) == 0 {
			d.failAt = d.ops + 1 + rng.IntN(5)
		}
		entries := randomEntries(rng, uint64(i)*10)
		_, err := l.Append(entries)
		switch {
		case err == nil:
			all = append(all, entries)
		case errors.Is(err, durable.ErrNoSpace):
			refused++
			if !d.full || errors.Is(err, ErrFailed) {
				t.Fatalf("append %d: full %v: %v", i, d.full, err)
			}
		case errors.Is(err, errInjected):
			if _, again := l.Append(nil); !errors.Is(again, ErrFailed) {
				t.Fatalf("append %d: after %v: %v", i, err, again)
			}
		default:
			t.Fatal(err)
		}
		d.full, d.failAt = false, 0
		lost := rng.IntN(50) == 0
		if lost {
			d = d.crash(rng)
		}
		if !lost && err == nil || errors.Is(err, durable.ErrNoSpace) && !lost {
			continue
		}
		var got []Entry
		if l, _, err = openFolder(d, "log", opt, replayed(&got)); err != nil {
			t.Fatal(err)
		}
		if extra := append(flatten(all), entries...); sameEntries(got, extra) {
			all = append(all, entries) // failed, and is there all the same
		}
		if !sameEntries(got, flatten(all)) {
			t.Fatalf("append %d: %d entries, want %d", i, len(got), len(flatten(all)))
		}
	}
	if refused < 50 {
		t.Errorf("only %d appends did not fit", refused)
	}
}

// A sync that fails for lack of space leaves it unknown what is on disk, and fails the log.
func TestSyncWithoutSpaceFailsTheLog(t *testing.T) {
	f := &failingSync{err: syscall.ENOSPC}
	l := &Log{dir: newMemoryFolder(), opt: Options{FileBytes: 1 << 20}, newest: f, number: 1,
		sizes: map[uint64]int64{}}
	for range 2 {
		_, err := l.Append(nil)
		if !errors.Is(err, ErrFailed) || errors.Is(err, durable.ErrNoSpace) {
			t.Fatal(err)
		}
		f.err = nil
	}
	if f.syncs != 1 {
		t.Errorf("%d syncs", f.syncs)
	}
}

type failingSync struct {
	durable.File
	syncs int
	err   error
}

func (f *failingSync) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }

func (f *failingSync) Sync() error {
	f.syncs++
	return f.err
}

func (f *failingSync) Close() error { return nil }

// TestNoSpaceSignal: a lack of space is signalled when it begins, and nothing else is.
func TestNoSpaceSignal(t *testing.T) {
	d := newMemoryFolder()
	l, _, err := openFolder(d, "log", Options{}, replayed(new([]Entry)))
	if err != nil {
		t.Fatal(err)
	}
	told := func() int { return len(l.NoSpaceSignal()) }
	if _, err := l.Append(nil); err != nil || told() != 0 {
		t.Errorf("with space: %v, told %d", err, told())
	}
	for range 2 {
		d.full, d.free = true, 0
		for range 3 {
			if _, err := l.Append(nil); !errors.Is(err, durable.ErrNoSpace) || told() != 1 {
				t.Fatalf("without space: %v, told %d", err, told())
			}
		}
		<-l.NoSpaceSignal()
		d.full = false
		if _, err := l.Append(nil); err != nil || told() != 0 {
			t.Errorf("with space again: %v, told %d", err, told())
		}
	}
}
