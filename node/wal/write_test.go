package wal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/internal/sector"
)

// Power is lost, processes are killed and syncs fail while appends wait for one: what is left are
// the first appends, whole, with all that were synced, and what was handed out once stays.
func TestWrittenCrashes(t *testing.T) {
	rng := randomSource(t)
	lost := 0
	for run := range 300 {
		d := newMemoryFolder()
		var all [][]Entry
		synced := 0
		for life := range 6 {
			what := fmt.Sprintf("run %d, life %d", run, life)
			var got []Entry
			l, _, err := openFolder(d, "log", Options{FileBytes: 600}, replayed(&got))
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			kept := len(all)
			for kept > synced && !sameEntries(got, flatten(all[:kept])) {
				kept--
			}
			if !sameEntries(got, flatten(all[:kept])) {
				t.Fatalf("%s: %d entries are left, which begin no list of %d to %d appends", what,
					len(got), synced, len(all))
			}
			lost += len(all) - kept
			all, synced = all[:kept], kept // opening made them durable
			if rng.IntN(2) == 0 {
				d.failAt = d.ops + 1 + rng.IntN(40)
			}
			all, synced = writeSome(t, rng, l, all, synced)
			d.failAt = 0
			if rng.IntN(3) > 0 {
				d = d.crash(rng)
				continue
			}
			for _, f := range d.names { // killed, not failed: pages are still to be written
				f.lost = f.lost && rng.IntN(2) == 0
			}
		}
	}
	if lost == 0 {
		t.Fatal("no append was lost")
	}
}

// writeSome appends, writes and syncs until something fails, and returns all appends that may be
// there and how many of them are durable.
func writeSome(
	t *testing.T, rng *rand.Rand, l *Log, all [][]Entry, synced int,
) ([][]Entry, int) {
	t.Helper()
	var err error
	for i := 0; err == nil && i < rng.IntN(30); i++ {
		switch op := rng.IntN(10); {
		case op < 6:
			entries := append(randomEntries(rng, uint64(i)), Entry{Data: []byte{}})
			all = append(slices.Clip(all), entries)
			_, err = l.Write(entries)
		case op < 8:
			entries := append(randomEntries(rng, uint64(i)), Entry{Data: []byte{}})
			all = append(slices.Clip(all), entries)
			if _, err = l.Append(entries); err == nil {
				synced = len(all)
			}
		case op < 9:
			if err = l.Sync(); err == nil {
				synced = len(all)
			}
		default:
			l.Roll()
		}
	}
	if err != nil && (!errors.Is(err, ErrFailed) || l.Sync() == nil) {
		t.Fatalf("after a failure: %v", err)
	}
	return all, synced
}

// Every bit is flipped of a file whose last three appends were not synced when the last one was
// written, and each sector of it is left out. All that was written whole and is corrupted is
// damage. An append that lacks a sector is damage when a later one says that it was synced, else a
// torn tail.
func TestWrittenBent(t *testing.T) {
	rounds.NotUnderRace(t, "it bends bytes in one goroutine")
	rng := randomSource(t)
	d := newMemoryFolder()
	all, _, ends := writeLog(t, d, rng, 4, 1<<20)
	l, _, err := openFolder(d, "log", Options{}, replayed(new([]Entry)))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		all = append(all, []Entry{{LSN: uint64(i), Data: make([]byte, 20+200*i)}})
		if _, err := l.Write(all[len(all)-1]); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, l.size)
	}
	f := d.names[fileName(1)]
	whole := f.data
	for bit := range 8 * len(whole) {
		f.data = slices.Clone(whole)
		f.data[bit/8] ^= 1 << (bit % 8)
		wantCorrupt(t, d, fmt.Sprintf("bit %d", bit))
	}
	for at := 0; at < len(whole); at += sector.Size {
		f.data = slices.Clone(whole)
		clear(f.data[at : at+sector.Size])
		hit := 0
		for ends[hit] <= int64(at) {
			hit++
		}
		if hit < 4 {
			wantCorrupt(t, d, fmt.Sprintf("append %d, which was synced, lacks a sector", hit))
			continue
		}
		var got []Entry
		_, report, err := openFolder(d, "log", Options{}, replayed(&got))
		if err != nil || !sameEntries(got, flatten(all[:hit])) || report.TornSize == 0 {
			t.Fatalf("append %d lacks a sector: %d entries, %+v, %v", hit, len(got), report, err)
		}
	}
}

// The header counts no more than 65,535 appends that wait: then one is synced unasked.
func TestWritesAreBounded(t *testing.T) {
	l, _, err := openFolder(newMemoryFolder(), "log", Options{}, replayed(new([]Entry)))
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxUnsynced + 10 {
		if _, err := l.Write(nil); err != nil {
			t.Fatal(err)
		}
		want := i + 1
		if i >= maxUnsynced {
			want = i + 1 - maxUnsynced
		}
		if got := l.Stats().Unsynced; got != want {
			t.Fatalf("%d appends wait after %d", got, i+1)
		}
	}
}

// What another log shares with this one is durable.
func TestLinkedIsSynced(t *testing.T) {
	l, _, err := Open(t.TempDir(), Options{}, replayed(new([]Entry)))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := l.Write([]Entry{{Data: []byte("a")}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.Stats().Unsynced; got != 3 {
		t.Fatalf("%d appends wait for a sync", got)
	}
	dir := t.TempDir()
	if err := l.LinkTo(dir, nil); err != nil || l.Stats().Unsynced != 0 {
		t.Fatalf("%d appends wait for a sync once they are linked, %v", l.Stats().Unsynced, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var got []Entry
	if l, _, err = Open(dir, Options{}, replayed(&got)); err != nil || len(got) != 3 {
		t.Fatalf("%d entries are linked, %v", len(got), err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
