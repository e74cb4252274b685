package store

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/sdk/record"
)

// modelDiff is a difference that the model makes or the store gives.
type modelDiff struct {
	kind     record.DiffKind
	old, new modelRow
}

func (d modelDiff) reading() record.Key {
	k := d.new.key
	k.AcqNs = 0
	return k
}

// diff compares the states of two moments, reading by reading.
func (m *model) diff(ask *record.Diff) []modelDiff {
	state := func(until int64) map[record.Key]modelRow {
		rows := map[record.Key]modelRow{}
		for _, r := range m.query(&record.Query{Box: ask.Box, View: record.ViewAsOf,
			AsOfAcqNs: until}) {
			reading := r.key
			reading.AcqNs = 0
			rows[reading] = r
		}
		return rows
	}
	before, after := state(ask.FromNs), state(ask.ToNs)
	var out []modelDiff
	for reading, is := range after {
		was, ok := before[reading]
		switch {
		case !ok:
			out = append(out, modelDiff{kind: record.DiffAdded, new: is})
		case was.payload != is.payload:
			out = append(out, modelDiff{record.DiffChanged, was, is})
		}
	}
	for reading, was := range before {
		if _, ok := after[reading]; !ok {
			gone := modelRow{key: reading, tomb: true}
			gone.key.AcqNs = m.goneAt(was, ask)
			out = append(out, modelDiff{record.DiffDeleted, was, gone})
		}
	}
	return out
}

// goneAt returns the acq of the tombstone, or else of the erase, that deleted a row.
func (m *model) goneAt(was modelRow, ask *record.Diff) int64 {
	newest := int64(math.MinInt64)
	for _, r := range m.seen(record.ViewAsOf, ask.ToNs) {
		same := r.key
		same.AcqNs = was.key.AcqNs
		if same == was.key && r.key.AcqNs < ask.ToNs {
			newest = max(newest, r.key.AcqNs)
		}
	}
	if newest > math.MinInt64 {
		return newest
	}
	for _, e := range m.events {
		if e.Kind == event.Erase && e.AcqNs >= ask.FromNs && was.key.AcqNs < e.AcqNs &&
			e.Box.Contains(was.key) {
			return e.AcqNs
		}
	}
	return 0
}

func diffRows(t testing.TB, s *Store, ask *record.Diff) []modelDiff {
	t.Helper()
	var out []modelDiff
	stats, err := s.Diff(t.Context(), ask, func(d *record.Differences) error {
		if err := d.New.CheckShape(); err != nil {
			return err
		}
		if err := d.Old.CheckShape(); err != nil {
			return err
		}
		if d.Kind != record.DiffAdded && d.Old.Len() != d.Len() {
			return fmt.Errorf("%d old records beside %d new ones", d.Old.Len(), d.Len())
		}
		for i := range d.Len() {
			one := modelDiff{kind: d.Kind, new: modelRowOf(&d.New, i)}
			if d.Kind != record.DiffAdded {
				one.old = modelRowOf(&d.Old, i)
			}
			out = append(out, one)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("diff: %v", err)
	}
	if int(stats.Rows) != len(out) {
		t.Fatalf("stats say %d differences, the sink got %d", stats.Rows, len(out))
	}
	return out
}

func compareDiffs(t testing.TB, what string, got, want []modelDiff) {
	t.Helper()
	for _, list := range [][]modelDiff{got, want} {
		slices.SortFunc(list, func(a, b modelDiff) int {
			return a.reading().Compare(b.reading())
		})
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			g, w := "nothing", "nothing"
			if i < len(got) {
				g = fmt.Sprintf("%+v", got[i])
			}
			if i < len(want) {
				w = fmt.Sprintf("%+v", want[i])
			}
			t.Fatalf("%s: %d differences, want %d; number %d is\n%s, want\n%s",
				what, len(got), len(want), i, g, w)
		}
	}
}

// diff draws a box and two moments: of rows, of events, beside them, before and after everything.
func (sh shape) diff(rng *rand.Rand, m *model) *record.Diff {
	moment := func() int64 {
		switch n := rng.IntN(10); {
		case n == 0:
			return 0
		case n == 1:
			return math.MaxInt64 - 1
		case n < 6 && len(m.events) > 0:
			return m.events[rng.IntN(len(m.events))].AcqNs + max(rng.Int64N(5)-3, -1)
		case len(m.rows) > 0:
			return m.rows[rng.IntN(len(m.rows))].key.AcqNs + rng.Int64N(3) - 1
		}
		return rng.Int64N(1000)
	}
	a, b := moment(), moment()
	ask := &record.Diff{FromNs: min(a, b), ToNs: max(a, b), Box: sh.query(rng, m).Box}
	ask.Box[record.Acq] = nil
	return ask
}

func testDiffModel(t *testing.T, sh shape, opt Options, steps int) {
	rng := randomSource(t)
	opt.Dir = t.TempDir()
	opt.Now, opt.retainEvery, opt.PutWait = leapingClock(), time.Hour, 5*time.Minute
	opt.parallelRows = cmp.Or(opt.parallelRows, fewParallel)
	s, _, err := Open(t.Context(), divided(t, opt))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	m, kinds := &model{}, map[record.DiffKind]int{}
	for step := range steps {
		switch op := rng.IntN(33); {
		case op < 12:
			b := sh.batch(rng, 1+rng.IntN(300), 0)
			res := mustPut(t, s, b, WriterSeq{})
			m.add(b, splitByShard(b, len(s.shards)), res)
		case op < 23:
			ask := sh.diff(rng, m)
			want := m.diff(ask)
			compareDiffs(t, fmt.Sprintf("step %d: %+v", step, ask), diffRows(t, s, ask), want)
			for _, d := range want {
				kinds[d.kind]++
			}
		case op < 25:
			if err := s.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
		case op < 26:
			s = crashAndReopen(t, s, &opt)
		case op < 28:
			box := sh.query(rng, m).Box
			acq, err := s.Erase(t.Context(), box)
			if err != nil {
				t.Fatal(err)
			}
			m.events = append(m.events, event.Event{AcqNs: acq, Kind: event.Erase, Box: box})
		case op < 29:
			sh.purge(t, rng, s, m)
		case op < 32:
			sh.putBelow(t, rng, s, m)
		default:
			sh.retain(t, rng, s, m)
			slices.SortFunc(m.events, func(a, b event.Event) int {
				return cmp.Compare(a.AcqNs, b.AcqNs)
			})
			m.events = slices.CompactFunc(m.events, func(a, b event.Event) bool {
				return a.AcqNs == b.AcqNs && reflect.DeepEqual(a.Box, b.Box)
			})
		}
	}
	if err := s.WaitForMerges(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		ask := sh.diff(rng, m)
		compareDiffs(t, fmt.Sprintf("settled: %+v", ask), diffRows(t, s, ask), m.diff(ask))
	}
	t.Logf("%v", kinds)
}

func TestDiffModel(t *testing.T) {
	rounds.NotUnderRace(t, "TestDiffModelLong does the same")
	testDiffModel(t, shape{cids: 2, mids: 5, moids: 2, caps: 20},
		Options{Shards: 4, SealRows: 1500}, fewer(80))
	testDiffModel(t, shape{cids: 3, mids: 20, moids: 3, caps: 60, varied: true},
		Options{Shards: 1, SealRows: 2000, Index: index.Options{BlockRows: 64}},
		fewer(80))
}

// TestDiffModelLittleSpace cuts boxes for their readings, for their payloads, and down to one.
func TestDiffModelLittleSpace(t *testing.T) {
	rounds.NotUnderRace(t, "TestDiffModelLong does the same")
	testDiffModel(t, shape{cids: 2, mids: 20, moids: 2, caps: 50, varied: true},
		Options{Shards: 2, SealRows: 1500, maxReadings: 10, Index: index.Options{BlockRows: 64}},
		fewer(60))
	testDiffModel(t, shape{cids: 2, mids: 3, moids: 2, caps: 10},
		Options{Shards: 2, SealRows: 700, maxReadings: 1}, fewer(60))
}

// TestDiffModelLong goes on with ever new keys and options, for a quarter of the time of the model
// of the whole store.
func TestDiffModelLong(t *testing.T) {
	limit := 4 * time.Second
	if text := os.Getenv(modelTimeVariable); text != "" && !testing.Short() {
		var err error
		if limit, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", modelTimeVariable, err)
		}
	}
	rng := randomSource(t)
	for end := time.Now().Add(limit / 4); time.Now().Before(end) && !t.Failed(); {
		sh, opt := randomModel(rng)
		sh.mids, sh.caps = cmp.Or(sh.mids%100, 1), cmp.Or(sh.caps%1000, 1)
		t.Run("", func(t *testing.T) {
			t.Logf("%+v %+v", sh, opt)
			testDiffModel(t, sh, opt, fewer(60))
		})
	}
}
