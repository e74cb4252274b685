package index

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/record"
)

// newestOf is what a series table says, done with a map.
func newestOf(rows *record.Batch) map[Series]int64 {
	newest := map[Series]int64{}
	for i := range rows.Len() {
		s := Series{CID: rows.CID[i], MOID: rows.MOID[i], MID: rows.MID[i]}
		if known, ok := newest[s]; !ok || rows.CapNs[i] > known {
			newest[s] = rows.CapNs[i]
		}
	}
	return newest
}

func setOf(rows *record.Batch) *SeriesSet {
	set := new(SeriesSet)
	set.AddRows(rows)
	return set
}

func TestSeriesTable(t *testing.T) {
	eachShape(t, small(), func(t *testing.T, rng *rand.Rand, rows *record.Batch) {
		newest := newestOf(rows)
		src := AppendSeries([]byte("before"), setOf(rows).Sorted())[len("before"):]
		table, err := ParseSeries(src)
		if err != nil {
			t.Fatal(err)
		}
		if err := table.Check(); err != nil || table.Len() != len(newest) {
			t.Fatalf("%d series of %d, %v", table.Len(), len(newest), err)
		}
		for s, want := range newest {
			if got, ok, err := table.MaxCap(s); err != nil || !ok || got != want {
				t.Fatalf("%v: newest cap %d, %v; want %d", s, got, ok, want)
			}
			s.MID ^= rng.Int64N(4)
			_, want := newest[s]
			if _, ok, err := table.MaxCap(s); ok != want || err != nil {
				t.Fatalf("%v is there: want %v", s, want)
			}
		}
		for range 20 {
			checkEach(t, table, newest, box(t, rng, rows))
		}
		checkEach(t, table, newest, &record.Box{})
	})
}

// checkEach wants just the series of a box, ascending.
func checkEach(t *testing.T, table *SeriesTable, newest map[Series]int64, x *record.Box) {
	t.Helper()
	var want, got []SeriesCap
	for s, capNs := range newest {
		if s.In(x) {
			want = append(want, SeriesCap{s, capNs})
		}
	}
	slices.SortFunc(want, func(a, b SeriesCap) int { return a.Compare(b.Series) })
	if err := table.Each(x, func(s SeriesCap) { got = append(got, s) }); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("box %v: %d series, want %d", x, len(got), len(want))
	}
}

// TestSeriesSize: what a table of neighbouring devices with regular caps may take.
func TestSeriesSize(t *testing.T) {
	f := func(name string, want float64, of func(i int) SeriesCap) {
		t.Helper()
		var list []SeriesCap
		for i := range 50_000 {
			list = append(list, of(i))
		}
		slices.SortFunc(list, func(a, b SeriesCap) int { return a.Compare(b.Series) })
		got := float64(len(AppendSeries(nil, list))) / float64(len(list))
		t.Logf("%s: %.2f bytes a series", name, got)
		if got > want {
			t.Errorf("%s: %.2f bytes a series, at most %.1f", name, got, want)
		}
	}
	const ms, minute = 1_000_000, 60_000_000_000
	rng := rand.New(rand.NewPCG(1, 1))
	f("regular", 2, func(i int) SeriesCap {
		return SeriesCap{Series{1, 1, int64(i)}, 1_700_000_000_000 * ms}
	})
	f("jitter of seconds", 4, func(i int) SeriesCap {
		return SeriesCap{Series{1, int32(i % 5), int64(i)},
			(1_700_000_000_000 + rng.Int64N(5000)) * ms}
	})
	f("some ended long ago", 6, func(i int) SeriesCap {
		return SeriesCap{Series{1, 1, int64(i)}, (20_000_000 + rng.Int64N(1_000_000)) * minute}
	})
	f("many tenants", 6, func(i int) SeriesCap {
		return SeriesCap{Series{int32(i), 1, 7}, (1_700_000_000_000 + rng.Int64N(5000)) * ms}
	})
}

// TestSeriesWorth: with many rows a series there is a table, with few there is none.
func TestSeriesWorth(t *testing.T) {
	f := func(series, rows int, want bool) {
		t.Helper()
		b := new(record.Batch)
		for i := range rows {
			b.AppendStamped(record.Key{MID: int64(i % series), CapNs: int64(i), AcqNs: int64(i)},
				nil)
		}
		c := NewClusterer(Options{})
		c.Cluster(b, new(Layout))
		table := SeriesTableOf(c.Series(), rows)
		if (table != nil) != want || len(table) > rows/rowsPerTableByte {
			t.Errorf("%d series in %d rows: table of %d bytes", series, rows, len(table))
		}
	}
	f(1, 1, false)
	f(1, 10_000, true)
	f(1000, 1000, false)
	f(1000, 100_000, true)
	f(100_000, 100_000, false)
}

// seriesBytes is a table with columns of all widths, with and without gcd.
func seriesBytes(count int) []byte {
	rng := rand.New(rand.NewPCG(uint64(count), 1))
	var set SeriesSet
	for i := range count {
		set.Add(Series{CID: int32(i / 200), MOID: int32(i/100) % 2,
			MID: rng.Int64() >> rng.IntN(64)}, rng.Int64N(9999)*int64(1+count%2*999))
	}
	return AppendSeries(nil, set.Sorted())
}

// readSeries reads everything there is to read.
func readSeries(table *SeriesTable) {
	_ = table.Check()
	_ = table.Each(&record.Box{}, func(s SeriesCap) { _, _, _ = table.MaxCap(s.Series) })
	box := record.Box{record.CID: {{From: 1, To: 3}}, record.MID: {{From: -9, To: 1 << 40}}}
	_ = table.Each(&box, func(SeriesCap) {})
	_, _, _ = table.MaxCap(Series{CID: math.MaxInt32, MOID: math.MinInt32})
}

// TestSeriesDamage cuts a table at bytes and flips each bit of them. What is accepted must be read
// without harm.
func TestSeriesDamage(t *testing.T) {
	rounds.NotUnderRace(t, "it bends bytes in one goroutine")
	whole := seriesBytes(300)
	for _, at := range damaged(t, whole) {
		if _, err := ParseSeries(whole[:at]); err == nil {
			t.Fatalf("cut at %d it is accepted", at)
		}
		for bit := range 8 {
			corrupted := bytes.Clone(whole)
			corrupted[at] ^= 1 << bit
			if table, err := ParseSeries(corrupted); err == nil {
				readSeries(table)
			}
		}
	}
	if _, err := ParseSeries(append(bytes.Clone(whole), 0)); err == nil {
		t.Fatal("with a byte more it is accepted")
	}
}

// TestSeriesRefuses bends one field after another.
func TestSeriesRefuses(t *testing.T) {
	whole := seriesBytes(300)
	f := func(at int, value uint32, want string) {
		t.Helper()
		corrupted := bytes.Clone(whole)
		binary.LittleEndian.PutUint32(corrupted[at:], value)
		table, err := ParseSeries(corrupted)
		if err == nil {
			err = table.Check()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d at %d: %v, want an error with %q", value, at, err, want)
		}
	}
	const firstGroup = seriesHeaderBytes + 3*seriesEntryBytes
	f(0, 2, "version 2; this program reads version 1")
	f(4, 0, "0 series in")
	f(4, math.MaxUint32, "4294967295 series in")
	f(4, 301, "group 2 of 3")
	f(seriesHeaderBytes+8, 77, "group 0 does not start with the series that the directory names")
	f(seriesHeaderBytes+16, 1, "it lies at 1, not behind the one before")
	f(firstGroup, 0x39, "a column is 57 bits wide")
	f(len(whole)-4, 1, "the padding is not zero")
}

func FuzzParseSeries(f *testing.F) {
	for _, count := range []int{1, 2, 127, 129, 300} {
		f.Add(seriesBytes(count))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		table, err := ParseSeries(src)
		if err != nil {
			return
		}
		readSeries(table)
		if table.Check() != nil {
			return
		}
		var list []SeriesCap
		err = table.Each(&record.Box{}, func(s SeriesCap) { list = append(list, s) })
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			if got, ok, err := table.MaxCap(s.Series); err != nil || !ok || got != s.MaxCapNs {
				t.Fatalf("%v: %d, %v", s, got, ok)
			}
		}
	})
}

// Bytes of a table that change after it was parsed, as those of a mapped file may, are reported by
// what reads their group and change no answer.
func TestSeriesRot(t *testing.T) {
	rounds.NotUnderRace(t, "it bends bytes in one goroutine")
	whole := seriesBytes(1000)
	src := slices.Clone(whole)
	table, err := ParseSeries(src)
	if err != nil {
		t.Fatal(err)
	}
	var want []SeriesCap
	if err := table.Each(&record.Box{}, func(s SeriesCap) { want = append(want, s) }); err != nil {
		t.Fatal(err)
	}
	damaged := 0
	for at := range src {
		src[at] ^= 0x10
		var got []SeriesCap
		err := table.Each(&record.Box{}, func(s SeriesCap) { got = append(got, s) })
		if err == nil && !slices.Equal(got, want) || err != nil && err != ErrSeriesDamaged {
			t.Fatalf("byte %d: %d series, %v", at, len(got), err)
		}
		if err != nil {
			damaged++
		}
		for _, s := range []SeriesCap{want[at%len(want)], want[at*7%len(want)]} {
			capNs, ok, err := table.MaxCap(s.Series)
			if err == nil && (!ok || capNs != s.MaxCapNs) {
				t.Fatalf("byte %d: %v: %d, %v", at, s, capNs, ok)
			}
		}
		src[at] = whole[at]
	}
	if damaged < len(src)/2 {
		t.Fatalf("%d of %d bytes were found", damaged, len(src))
	}
}
