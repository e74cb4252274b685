package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/sector"
)

// randomSource returns a source of random numbers whose seed is printed when the test fails.
func randomSource(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func randomEntries(rng *rand.Rand, first uint64) []Entry {
	entries := make([]Entry, rng.IntN(4)) // an append without entries is one, too
	for i := range entries {
		data := make([]byte, rng.IntN(120))
		for k := range data {
			data[k] = byte(rng.Uint32())
		}
		entries[i] = Entry{Shard: rng.Uint32(), Term: rng.Uint64(), LSN: first + uint64(i),
			Kind: uint8(rng.Uint32()), Data: data}
	}
	return entries
}

// parted has the data of entries in two places.
func parted(rng *rand.Rand, entries []Entry) []Entry {
	out := slices.Clone(entries)
	for i := range out {
		data := out[i].Data
		at := rng.IntN(len(data) + 1)
		out[i].Data, out[i].Rest = data[:at], data[at:]
	}
	return out
}

// replayed collects the entries of a log, flattened.
func replayed(entries *[]Entry) func(uint64, Entry) error {
	return func(_ uint64, e Entry) error {
		e.Data = bytes.Clone(e.Data)
		if e.Data == nil {
			e.Data = []byte{}
		}
		*entries = append(*entries, e)
		return nil
	}
}

func sameEntries(a, b []Entry) bool { return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b) }

// writeLog appends appends and returns them; ends are the offsets after each in its file.
func writeLog(t testing.TB, d durable.Folder, rng *rand.Rand, appends int, fileBytes int64) (
	all [][]Entry, files []uint64, ends []int64,
) {
	t.Helper()
	l, _, err := openFolder(d, "log", Options{FileBytes: fileBytes}, replayed(new([]Entry)))
	if err != nil {
		t.Fatal(err)
	}
	for i := range appends {
		entries := randomEntries(rng, uint64(i)*10)
		file, err := l.Append(parted(rng, entries))
		if err != nil {
			t.Fatal(err)
		}
		all, files, ends = append(all, entries), append(files, file), append(ends, l.size)
	}
	return all, files, ends
}

func flatten(appends [][]Entry) []Entry {
	var all []Entry
	for _, f := range appends {
		all = append(all, f...)
	}
	return all
}

// The log is cut at every byte of its last file, which has some KiB: what is left is the appends
// that end before the cut.
func TestCutAtEveryByte(t *testing.T) {
	rounds.NotUnderRace(t, "it bends bytes in one goroutine")
	rng := randomSource(t)
	d := newMemoryFolder()
	all, files, ends := writeLog(t, d, rng, 20, 1000)
	more, moreFiles, moreEnds := writeLog(t, d, rng, 9, 1<<20)
	all, files, ends = append(all, more...), append(files, moreFiles...), append(ends, moreEnds...)
	last := files[len(files)-1]
	before := slices.Index(files, last) // appends in older files
	f := d.names[fileName(last)]
	whole := slices.Clone(f.data)
	if last == 1 || len(whole) < 4096 {
		t.Fatalf("last file %d of %d bytes", last, len(whole))
	}
	for cut := len(whole); cut >= 0; cut-- {
		f.data = slices.Clone(whole[:cut])
		keep := before
		for keep < len(ends) && ends[keep] <= int64(cut) {
			keep++
		}
		var got []Entry
		l, report, err := openFolder(d, "log", Options{}, replayed(&got))
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if !sameEntries(got, flatten(all[:keep])) {
			t.Fatalf("cut at %d: %d entries, want those of %d appends", cut, len(got), keep)
		}
		end := int64(0)
		if keep > before {
			end = ends[keep-1]
		}
		torn := int64(cut) - end
		if report.TornSize != torn || torn > 0 && (report.TornAt != end ||
			report.TornFile != filepath.Join("log", fileName(last))) {
			t.Fatalf("cut at %d: report %+v, want %d bytes from %d", cut, report, torn, end)
		}
		if int64(len(f.data)) != end || torn > 0 && !bytes.Equal(f.synced, f.data) {
			t.Fatalf("cut at %d: file of %d bytes after mending, want %d", cut, len(f.data), end)
		}
		if file, err := l.Append(all[0]); err != nil || file != last {
			t.Fatalf("cut at %d: append to file %d: %v", cut, file, err)
		}
		got = nil
		if _, _, err := openFolder(d, "log", Options{}, replayed(&got)); err != nil ||
			!sameEntries(got, append(flatten(all[:keep]), all[0]...)) {
			t.Fatalf("cut at %d: append after mending was lost: %v", cut, err)
		}
	}
}

// A file that is not the last is cut at every byte: that is damage, wherever the cut is.
func TestOlderFileCut(t *testing.T) {
	rounds.NotUnderRace(t, "it bends bytes in one goroutine")
	rng := randomSource(t)
	d := newMemoryFolder()
	_, files, _ := writeLog(t, d, rng, 60, 1500)
	if files[len(files)-1] < 3 {
		t.Fatal("want three files")
	}
	for number := range files[len(files)-1] - 1 {
		f := d.names[fileName(number+1)]
		whole := f.data
		for cut := range len(whole) {
			f.data = whole[:cut]
			wantCorrupt(t, d, fmt.Sprintf("file %d cut at %d", number+1, cut))
		}
		f.data = whole
	}
	delete(d.names, fileName(2))
	wantCorrupt(t, d, "file 2 missing")
}

func wantCorrupt(t *testing.T, d durable.Folder, what string) {
	t.Helper()
	_, _, err := openFolder(d, "log", Options{}, replayed(new([]Entry)))
	var damage *durable.CorruptError
	if !errors.As(err, &damage) || filepath.Dir(damage.File) != "log" || damage.Reason == "" {
		t.Fatalf("%s: error %v", what, err)
	}
}

// Every bit of a log of several files is flipped: the log is refused, also for the very last
// append, and the error names the file and the append. No entry is ever wrong.
func TestEveryBitFlipped(t *testing.T) {
	rounds.NotUnderRace(t, "it bends bytes in one goroutine")
	rng := randomSource(t)
	d := newMemoryFolder()
	all, _, _ := writeLog(t, d, rng, 7, 700)
	if len(d.names) < 3 {
		t.Fatalf("%d files", len(d.names))
	}
	for name, f := range d.names {
		whole := f.data
		for bit := range 8 * len(whole) {
			f.data = slices.Clone(whole)
			f.data[bit/8] ^= 1 << (bit % 8)
			var got []Entry
			_, report, err := openFolder(d, "log", Options{}, replayed(&got))
			var damage *durable.CorruptError
			if !errors.As(err, &damage) || damage.File != filepath.Join("log", name) ||
				damage.Offset/sector.Size > int64(bit/8)/sector.Size {
				t.Fatalf("%s bit %d: %+v, %v", name, bit, report, err)
			}
			if all := flatten(all); len(got) > len(all) || !sameEntries(got, all[:len(got)]) {
				t.Fatalf("%s bit %d: wrong entries before the error", name, bit)
			}
		}
		f.data = whole
	}
}

// The n-th operation fails, for every n; then power is lost. The log never writes again after the
// failure, and nothing acknowledged is missing.
func TestEveryOperationFails(t *testing.T) {
	rng := randomSource(t)
	for failAt := 1; failAt < 200; failAt++ {
		d := newMemoryFolder()
		d.failAt = failAt
		var acked [][]Entry
		var tried []Entry
		l, _, err := openFolder(d, "log", Options{FileBytes: 400}, replayed(new([]Entry)))
		for i := 0; err == nil && i < 60; i++ {
			tried = randomEntries(rng, uint64(i)*10)
			var file uint64
			if file, err = l.Append(tried); err == nil {
				acked = append(acked, tried)
				if i%10 == 9 {
					if err := l.Remove(file - 1); err != nil && !errors.Is(err, errInjected) {
						t.Fatal(err)
					}
				}
			}
		}
		if err != nil && l != nil {
			ops := d.ops
			_, again := l.Append(tried)
			if !errors.Is(err, ErrFailed) || again != err || d.ops != ops {
				t.Fatalf("operation %d: %v, then %v after %d operations",
					failAt, err, again, d.ops-ops)
			}
		}
		afterCrash(t, rng, d, acked, tried, fmt.Sprintf("operation %d failed", failAt))
	}
}

// afterCrash opens what a loss of power leaves: a suffix of the acknowledged appends (older files
// may be removed), and then the unacknowledged one, whole or not at all.
func afterCrash(
	t *testing.T, rng *rand.Rand, d *memoryFolder, acked [][]Entry, tried []Entry, what string,
) {
	t.Helper()
	var got []Entry
	_, _, err := openFolder(d.crash(rng), "log", Options{}, replayed(&got))
	if err != nil {
		t.Fatalf("%s: open after a crash: %v", what, err)
	}
	all := flatten(acked)
	withTried := append(slices.Clone(all), tried...)
	n := len(got)
	if n <= len(all) && sameEntries(got, all[len(all)-n:]) ||
		n <= len(withTried) && sameEntries(got, withTried[len(withTried)-n:]) {
		if n > 0 || len(flatten(acked[max(0, len(acked)-1):])) == 0 {
			return
		}
	}
	t.Fatalf("%s: %d entries after a crash do not end the %d acknowledged", what, n, len(all))
}

// Power is lost at random moments, again and again.
func TestCrashes(t *testing.T) {
	rng := randomSource(t)
	for range 200 {
		d := newMemoryFolder()
		var acked [][]Entry
		for range 5 {
			var got []Entry
			l, _, err := openFolder(d, "log", Options{FileBytes: 600}, replayed(&got))
			if err != nil {
				t.Fatal(err)
			}
			if !sameEntries(got, flatten(acked)) {
				t.Fatalf("%d entries after a crash, want %d", len(got), len(flatten(acked)))
			}
			for i := range rng.IntN(8) {
				entries := randomEntries(rng, uint64(i))
				if _, err := l.Append(entries); err != nil {
					t.Fatal(err)
				}
				acked = append(acked, entries)
			}
			// An append is in progress: written, but not synced.
			half := encodeAppend(nil, l.appendNumber+1, 0, uint64(l.size), randomEntries(rng, 0), 0)
			if _, err := l.newest.WriteAt(half[:rng.IntN(len(half))], l.size); err != nil {
				t.Fatal(err)
			}
			d = d.crash(rng)
		}
	}
}

// An entry whose data looks like an append does not make a torn tail damage, unless it also claims
// to lie where it lies.
func TestTornTailHoldsAppend(t *testing.T) {
	d := newMemoryFolder()
	l, _, err := openFolder(d, "log", Options{}, replayed(new([]Entry)))
	if err != nil {
		t.Fatal(err)
	}
	decoy := encodeAppend(nil, 3, 0, 0, nil, 0)
	sector.Mask(decoy) // so that it can be read in the file
	for range 2 {
		lead := make([]byte, sector.Size-headerBytes-entryHeaderBytes)
		if _, err := l.Append([]Entry{{Data: slices.Concat(lead, decoy, decoy)}}); err != nil {
			t.Fatal(err)
		}
	}
	f := d.names[fileName(1)]
	f.data = f.data[:len(f.data)-1]
	if binary.LittleEndian.Uint32(f.data[(len(f.data)+1)/2+sector.Size:]) != magic {
		t.Fatal("no decoy is where an append may begin")
	}
	_, report, err := openFolder(d, "log", Options{}, replayed(new([]Entry)))
	if err != nil || report.Appends != 1 || report.TornSize == 0 {
		t.Fatalf("report %+v, %v", report, err)
	}
}

func TestOnDisk(t *testing.T) {
	rng := randomSource(t)
	dir := filepath.Join(t.TempDir(), "log")
	var all []Entry
	opt := Options{FileBytes: 1000} // two appends
	for range 3 {
		var got []Entry
		l, report, err := Open(dir, opt, replayed(&got))
		if err != nil || report.TornSize != 0 {
			t.Fatal(report, err)
		}
		if !sameEntries(got, all) || report.Entries != len(all) {
			t.Fatalf("%d entries, want %d", len(got), len(all))
		}
		for range 20 {
			entries := randomEntries(rng, 1)
			if _, err := l.Append(entries); err != nil {
				t.Fatal(err)
			}
			all = append(all, entries...)
		}
		st := l.Stats()
		names, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(names) != st.Files || st.Files < 2 || st.Bytes == 0 {
			t.Fatalf("stats %+v of %d files", st, len(names))
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(nil); !errors.Is(err, ErrFailed) {
			t.Fatalf("append after close: %v", err)
		}
	}
	l, report, err := Open(dir, opt, replayed(new([]Entry)))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Remove(uint64(report.Files)); err != nil {
		t.Fatal(err)
	}
	if err := l.Remove(1 << 40); err != nil || l.Stats().Files != 1 {
		t.Fatalf("%d files after removal, %v", l.Stats().Files, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	stray := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(stray, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(dir, opt, replayed(new([]Entry))); err == nil {
		t.Fatal("a stray file is not noticed")
	}
}

func TestReplayError(t *testing.T) {
	d := newMemoryFolder()
	writeLog(t, d, randomSource(t), 20, 1<<20)
	_, _, err := openFolder(d, "log", Options{}, func(uint64, Entry) error { return errInjected })
	if !errors.Is(err, errInjected) {
		t.Fatalf("error of replay became %v", err)
	}
}
