package wal

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/internal/durable"
)

// A log file is read as it stands: corrupted anywhere, cut anywhere, never changed; what is whole
// is handed out.
func TestReadFile(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine writes and reads")
	rng := randomSource(t)
	d := newMemoryFolder()
	all, _, ends := writeLog(t, d, rng, 12, 1<<20)
	whole := d.names[fileName(1)].data
	path := filepath.Join(t.TempDir(), fileName(1))
	read := func(data []byte) (appends []Append, damaged []int64, tail *durable.CorruptError) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		note := func(f *Append, damage *durable.CorruptError) error {
			if damage != nil {
				damaged = append(damaged, damage.Offset)
				return nil
			}
			appends = append(appends, *f)
			return nil
		}
		tail, _, err := ReadFile(path, -1, note)
		if err != nil {
			t.Fatal(err)
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != string(data) {
			t.Fatalf("reading changed the file, %v", err)
		}
		return appends, damaged, tail
	}
	appends, damaged, tail := read(whole)
	if len(appends) != len(all) || len(damaged) != 0 || tail != nil {
		t.Fatalf("%d appends of %d, damage %v, %v", len(appends), len(all), damaged, tail)
	}
	for i := range all {
		if !sameEntries(appends[i].Entries, all[i]) || appends[i].Number != uint64(i+1) ||
			appends[i].Offset+appends[i].Bytes != ends[i] {
			t.Fatalf("append %d is %+v", i, appends[i])
		}
	}
	for range 300 {
		at := rng.IntN(len(whole))
		hit := 0 // the append that the byte is of
		for ends[hit] <= int64(at) {
			hit++
		}
		corrupted := append([]byte(nil), whole...)
		corrupted[at] ^= 1 << rng.IntN(8)
		appends, damaged, tail := read(corrupted)
		if len(appends) != len(all)-1 || (tail != nil) != (hit == len(all)-1) ||
			(len(damaged) == 1) == (tail != nil) {
			t.Fatalf("byte %d of append %d corrupted: %d appends, damage %v, tail %v", at, hit,
				len(appends), damaged, tail)
		}
		appends, damaged, tail = read(whole[:at])
		if len(appends) != hit || len(damaged) != 0 || (tail != nil) != (at > 0 &&
			(hit == 0 || int64(at) != ends[hit-1])) {
			t.Fatalf("cut at %d: %d appends of %d, %v, %v", at, len(appends), hit, damaged, tail)
		}
	}
}
