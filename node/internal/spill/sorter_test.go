package spill

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/record"
)

func byKey(a, b record.Key) int { return a.Compare(b) }

func byAcq(a, b record.Key) int {
	return cmp.Or(cmp.Compare(a.AcqNs, b.AcqNs), a.Compare(b))
}

func seeded(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// randomRecord returns a record whose payload says which it is: now and then a large one.
func randomRecord(rng *rand.Rand, number, mostBytes int) record.Record {
	r := record.Record{Key: record.Key{CID: rng.Int32N(3), MID: rng.Int64N(50) - 25,
		MOID: rng.Int32N(3), CapNs: rng.Int64N(1000), AcqNs: rng.Int64() - rng.Int64()}}
	switch rng.IntN(200) {
	case 0:
		r.Key.CapNs, r.Key.AcqNs = math.MinInt64, math.MaxInt64-1-int64(number)
	case 1:
		r.Tomb = true
		return r
	case 2:
		return r
	}
	r.Payload = binary.LittleEndian.AppendUint64(nil, uint64(number))
	if rng.IntN(20) == 0 {
		r.Payload = append(r.Payload, bytes.Repeat([]byte{byte(number)}, rng.IntN(mostBytes))...)
	}
	return r
}

// batches cuts records into batches, as scans hand them out.
func batches(rng *rand.Rand, all []record.Record) (out []*record.Batch) {
	for len(all) > 0 {
		n := min(len(all), 1+rng.IntN(2*runRows))
		if rng.IntN(2) == 0 {
			n = min(n, 1+rng.IntN(20))
		}
		b := new(record.Batch)
		for _, r := range all[:n] {
			appendRow(b, r.Key, r.Payload, r.Tomb)
		}
		out, all = append(out, b), all[n:]
	}
	return out
}

// addAll adds batches to sorters on several goroutines.
func addAll(t *testing.T, to []*Sorter, all []*record.Batch) {
	t.Helper()
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for i := w; i < len(all); i += 3 {
				if err := to[i%len(to)].Add(t.Context(), all[i]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func sameRecord(a, b record.Record) bool {
	return a.Key == b.Key && a.Tomb == b.Tomb && bytes.Equal(a.Payload, b.Payload)
}

// TestSorterAgainstASlice: whatever fits into memory, and however often runs are merged, the rows
// come as those of a slice that is sorted.
func TestSorterAgainstASlice(t *testing.T) {
	rng := seeded(t)
	rounds := 20
	if testing.Short() {
		rounds = 4
	}
	passes := 0
	for round := range rounds {
		memory := int64(1) << (8 + 2*(round%8))
		mostBytes := 1 << (4 + rng.IntN(16))
		limit := uint64(rng.IntN(4) / 3 * (1 + rng.IntN(20_000)))
		compare := []func(a, b record.Key) int{byKey, byAcq}[rng.IntN(2)]
		var all []record.Record
		total := 0
		rows := rng.IntN(30_000)
		sorters := make([]*Sorter, 1+rng.IntN(3))
		if round%4 == 0 { // enough runs of any size that runs are merged into runs
			rows, mostBytes, limit = 2*runRows*(mergeRuns+2), 16, 0
			sorters = sorters[:1]
		}
		for i := range rows {
			r := randomRecord(rng, i, mostBytes)
			if total += len(r.Payload); total > 16<<20 {
				break
			}
			all = append(all, r)
		}
		space := New(filepath.Join(t.TempDir(), "made"), memory)
		for i := range sorters {
			sorters[i] = space.Sorter(compare, limit)
		}
		addAll(t, sorters, batches(rng, all))
		for _, o := range sorters[1:] {
			if err := sorters[0].Take(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			o.Close()
		}
		for _, r := range sorters[0].runs {
			passes = max(passes, r.level)
		}
		slices.SortFunc(all, func(a, b record.Record) int { return compare(a.Key, b.Key) })
		if limit > 0 && uint64(len(all)) > limit {
			all = all[:limit]
		}
		what := fmt.Sprintf("round %d: memory %d, payloads up to %d, limit %d", round, memory,
			mostBytes, limit)
		checkRows(t, what, sorters[0], all)
		sorters[0].Close()
		sorters[0].Close()
		checkEmpty(t, space)
	}
	if passes == 0 {
		t.Error("no runs were merged into a run")
	}
}

func checkRows(t *testing.T, what string, s *Sorter, want []record.Record) {
	t.Helper()
	at := 0
	err := s.Each(t.Context(), func(b *record.Batch) error {
		for i := range b.Len() {
			if at >= len(want) || !sameRecord(b.Record(i), want[at]) {
				t.Fatalf("%s: row %d of %d is %+v", what, at, len(want), b.Key(i))
			}
			at++
		}
		return nil
	})
	if err != nil || at != len(want) {
		t.Fatalf("%s: %d rows, want %d, %v", what, at, len(want), err)
	}
}

// checkEmpty wants nothing left of sorters that are closed.
func checkEmpty(t *testing.T, s *Space) {
	t.Helper()
	if st := s.Stats(); st.MemoryBytes != 0 || st.DiskBytes != 0 || s.sorters != 0 {
		t.Errorf("%+v and %d sorters are left", st, s.sorters)
	}
	if files, err := os.ReadDir(s.dir); len(files) > 0 {
		t.Errorf("%v are left, %v", files, err)
	}
	if open := openFiles(t, s.dir); len(open) > 0 {
		t.Errorf("%v are open", open)
	}
}

// openFiles lists the files of a directory that this process has open, also those that have no name
// any more; none where the system does not tell.
func openFiles(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil
	}
	for _, e := range all {
		name, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name()))
		if err == nil && strings.HasPrefix(name, dir) {
			names = append(names, name)
		}
	}
	return names
}

// TestMemoryOfSorters: they hold no more than their space has, but for the floor of each, and a
// sorter by itself has all of it.
func TestMemoryOfSorters(t *testing.T) {
	const total = 4 << 20
	space := New(t.TempDir(), total)
	b := new(record.Batch)
	for i := range 2 * runRows {
		b.AppendStamped(record.Key{MID: int64(i), AcqNs: 1}, make([]byte, 64))
	}
	var all []*Sorter
	for range 4 {
		all = append(all, space.Sorter(byKey, 0))
		most := int64(0)
		for range 30 {
			for _, s := range all {
				if err := s.Add(t.Context(), b); err != nil {
					t.Fatal(err)
				}
			}
			most = max(most, space.Stats().MemoryBytes)
		}
		if atMost := total + int64(len(all))*total/floorShare; most > atMost || most < total/2 {
			t.Errorf("%d sorters hold %d bytes, at most %d", len(all), most, atMost)
		}
	}
	for _, s := range all {
		s.Close()
	}
	checkEmpty(t, space)
}

// TestSortersThatEnd: who is cancelled, or whose reader goes away, leaves nothing.
func TestSortersThatEnd(t *testing.T) {
	rng := seeded(t)
	space := New(t.TempDir(), 1<<12)
	var all []record.Record
	for i := range 60_000 {
		all = append(all, randomRecord(rng, i, 100))
	}
	gone := errors.New("the reader is gone")
	for end := range 3 {
		ctx, cancel := context.WithCancelCause(t.Context())
		s := space.Sorter(byKey, 0)
		var err error
		for i, b := range batches(rng, all) {
			if end == 0 && i == 100 {
				cancel(gone)
			}
			if err = s.Add(ctx, b); err != nil {
				break
			}
		}
		rows := 0
		if err == nil {
			err = s.Each(ctx, func(b *record.Batch) error {
				if rows += b.Len(); rows > 20_000 && end == 1 {
					cancel(gone)
				} else if rows > 20_000 {
					return gone
				}
				return nil
			})
		}
		if !errors.Is(err, gone) || rows > 20_000+2*outRows {
			t.Errorf("end %d: %d rows, %v", end, rows, err)
		}
		s.Close()
		cancel(nil)
		checkEmpty(t, space)
	}
}

// TestLeftOvers of a process that was killed between making a file and taking its name away.
func TestLeftOvers(t *testing.T) {
	space := New(t.TempDir(), 1)
	left, other := filepath.Join(space.dir, "sort-123"), filepath.Join(space.dir, "README")
	for _, name := range []string{left, other} {
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	removed, err := space.Clean()
	if err != nil || !slices.Equal(removed, []string{"sort-123"}) {
		t.Errorf("removed %v, %v", removed, err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
	if removed, err := New(filepath.Join(space.dir, "none"), 1).Clean(); len(removed) > 0 ||
		err != nil {
		t.Errorf("of no directory: %v, %v", removed, err)
	}
}

// TestDamagedFiles: what is not what was written is an error that says where, and no row.
func TestDamagedFiles(t *testing.T) {
	rounds.NotUnderRace(t, "it bends bytes in one goroutine")
	rng := seeded(t)
	for round := range 30 {
		space := New(t.TempDir(), 1)
		s := space.Sorter(byKey, 0)
		var all []record.Record
		for i := range 1000 {
			all = append(all, randomRecord(rng, i, 1<<17))
		}
		addAll(t, []*Sorter{s}, batches(rng, all))
		r := s.runs[rng.IntN(len(s.runs))]
		at, old := r.from+rng.Int64N(r.to-r.from), []byte{0}
		if _, err := r.ReadAt(old, at); err != nil {
			t.Fatal(err)
		}
		if _, err := r.WriteAt([]byte{old[0] ^ byte(1<<rng.IntN(8))}, at); err != nil {
			t.Fatal(err)
		}
		err := s.Each(t.Context(), func(*record.Batch) error { return nil })
		if err == nil || !strings.Contains(err.Error(), space.dir) {
			t.Fatalf("round %d: a bit of byte %d of a run of %d was changed: %v", round,
				at-r.from, r.to-r.from, err)
		}
		s.Close()
	}
}

// FuzzRun reads any bytes as a run.
func FuzzRun(f *testing.F) {
	space := New(f.TempDir(), 1)
	s := space.Sorter(byKey, 0)
	b := new(record.Batch)
	b.AppendStamped(record.Key{CID: 1, AcqNs: 1}, make([]byte, inlineBytes+1))
	b.AppendStamped(record.Key{CID: 2, AcqNs: 1}, []byte("ab"))
	b.AppendStampedTomb(record.Key{CID: 3, AcqNs: 1})
	for range 2 {
		if err := s.write(f.Context(), []*cursor{inMemory(b)}, 0); err != nil {
			f.Fatal(err)
		}
		r := s.runs[0]
		text := make([]byte, r.to-r.from)
		if _, err := r.ReadAt(text, r.from); err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		s.Close()
		s = space.Sorter(byKey, 0)
		b = &record.Batch{}
		b.AppendStamped(record.Key{CID: 2, AcqNs: 1}, []byte("ab"))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		of, err := space.create()
		if err != nil {
			t.Fatal(err)
		}
		all := &file{space: space, File: of, runs: 1, size: int64(len(text))}
		defer all.remove()
		if _, err := of.Write(text); err != nil {
			t.Fatal(err)
		}
		from, err := cursorsOf([]run{{file: all, to: int64(len(text))}})
		if err == nil {
			_ = merge(t.Context(), byKey, from, 0, func(c *cursor) error {
				_, err := c.payload()
				return err
			})
		}
	})
}

func BenchmarkSort(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	const rows = 1 << 20
	var all []*record.Batch
	for range rows / 2048 {
		batch := new(record.Batch)
		mid, first := rng.Int64N(1000), rng.Int64N(1000)
		for i := range 2048 {
			batch.AppendStamped(record.Key{CID: 1, MID: mid + int64(i%64), MOID: 1,
				CapNs: (first + int64(i/64)) * 60e9, AcqNs: rng.Int64N(1e15)}, make([]byte, 8))
		}
		all = append(all, batch)
	}
	for _, memory := range []int64{1 << 30, 16 << 20, 1 << 20} {
		b.Run(fmt.Sprintf("memory=%dMiB", memory>>20), func(b *testing.B) {
			space := New(b.TempDir(), memory)
			for b.Loop() {
				s := space.Sorter(byKey, 0)
				for _, batch := range all {
					if err := s.Add(b.Context(), batch); err != nil {
						b.Fatal(err)
					}
				}
				err := s.Each(b.Context(), func(*record.Batch) error { return nil })
				if err != nil {
					b.Fatal(err)
				}
				s.Close()
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N*rows), "ns/row")
			b.ReportMetric(float64(space.Stats().SpilledBytes)/float64(b.N*rows), "diskB/row")
		})
	}
}
