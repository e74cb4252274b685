package wasmhost

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

// randomRuns returns rows as columns with the group of each, and the same as runs.
func randomRuns(rng *rand.Rand) (b *record.Batch, gid []uint32, runs []GroupRun, groups int) {
	b = new(record.Batch)
	groups = 1 + rng.IntN(4)
	long := 1 + rng.IntN(40)
	rows := 1 + rng.IntN(900)
	for b.Len() < rows {
		k := record.Key{CID: rng.Int32N(2), MID: rng.Int64N(3) - 1, MOID: -rng.Int32N(2)}
		for range 1 + rng.IntN(long) {
			k.CapNs += rng.Int64N(2)
			b.Append(k, []byte{1})
		}
		b.Series = append(b.Series, record.SeriesRun{MID: k.MID, CID: k.CID, MOID: k.MOID,
			End: uint64(b.Len())})
	}
	for len(gid) < b.Len() {
		g := uint32(rng.IntN(groups))
		for range min(1+rng.IntN(long), b.Len()-len(gid)) {
			gid = append(gid, g)
		}
		runs = append(runs, GroupRun{g, uint32(len(gid))})
	}
	return b, gid, runs, groups
}

// TestRunsAgainstRows gives guests of all needs the same rows as runs and row by row, and compares
// what they see of each row.
func TestRunsAgainstRows(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	h := newTestHost(t, Options{})
	for range 200 {
		b, gid, runs, groups := randomRuns(rng)
		rows := b.Head(b.Len())
		rows.Series = nil
		want := slices.Clone(gid)
		need := uint32(rng.IntN(needAll+1)) &^ plugin.NeedAcq
		if need&(plugin.NeedGID|plugin.NeedRuns) == 0 {
			clear(want)
			groups, runs, gid = 1, nil, nil
		}
		blank := *b // columns that series stand for hold anything
		blank.CID, blank.MOID = make([]int32, b.Len()), make([]int32, b.Len())
		blank.MID = make([]int64, b.Len())
		byRow := addProbe(t, h, need, rows, gid, groups)
		byRun := probeWith(t, h, need, func(a *Aggregate) error {
			return a.AddRuns(t.Context(), &blank, runs, groups)
		})
		for name, s := range map[string]*seen{"by row": &byRow, "by run": &byRun} {
			checkSeen(t, name, need, s, rows, want)
		}
		if t.Failed() {
			t.Fatalf("need %#x, %d rows, runs %v, series %v", need, b.Len(), runs, b.Series)
		}
	}
}

// checkSeen compares what a guest sees of each row with the columns and group of it.
func checkSeen(
	t *testing.T, name string, need uint32, s *seen, rows *record.Batch, gid []uint32,
) {
	t.Helper()
	n, series := rows.Len(), rowsOfSeries(s)
	equal := func(part string, wanted bool, got, want []byte) {
		t.Helper()
		if wanted && !slices.Equal(got, want) || !wanted && got != nil {
			t.Errorf("%s, %s: %x, want %x", name, part, got, want)
		}
	}
	columns := series == nil
	equal("cid", need&plugin.NeedCID != 0 && columns, s.cid, bytesOf(rows.CID))
	equal("mid", need&plugin.NeedMID != 0 && columns, s.mid, bytesOf(rows.MID))
	equal("moid", need&plugin.NeedMOID != 0 && columns, s.moid, bytesOf(rows.MOID))
	equal("cap", need&plugin.NeedCap != 0, s.cap, bytesOf(rows.CapNs))
	if series != nil {
		equal("cid of series", true, bytesOf(series.CID), bytesOf(rows.CID))
		equal("mid of series", true, bytesOf(series.MID), bytesOf(rows.MID))
		equal("moid of series", true, bytesOf(series.MOID), bytesOf(rows.MOID))
	}
	alone := need&plugin.NeedSeries != 0 && need&seriesColumns == 0
	if alone && columns || need&plugin.NeedSeries == 0 && !columns ||
		!alone && !columns && (name == "by row" || len(s.series)/24 > mostRuns(n)) {
		t.Errorf("%s: %d series of %d rows", name, len(s.series)/24, n)
	}
	got := s.gid
	for from, runs := 0, s.runs; len(runs) > 0; runs = runs[8:] {
		for ; from < int(binary.LittleEndian.Uint32(runs[4:])); from++ {
			got = append(got, runs[:4]...)
		}
	}
	equal("groups", need&(plugin.NeedGID|plugin.NeedRuns) != 0, got, bytesOf(gid))
}

// rowsOfSeries returns the keys of rows by the series that a guest sees, nil for none.
func rowsOfSeries(s *seen) *record.Batch {
	if s.series == nil {
		return nil
	}
	out := new(record.Batch)
	for src := s.series; len(src) > 0; src = src[24:] {
		k := record.Key{MID: int64(binary.LittleEndian.Uint64(src)),
			CID:  int32(binary.LittleEndian.Uint32(src[8:])),
			MOID: int32(binary.LittleEndian.Uint32(src[12:]))}
		for uint64(out.Len()) < binary.LittleEndian.Uint64(src[16:]) {
			out.Append(k, nil)
		}
	}
	return out
}

// Runs that do not follow each other, or end elsewhere than their rows, are refused.
func TestRunsThatCannotBe(t *testing.T) {
	h := newTestHost(t, Options{})
	m := mustLoad(t, h, good(probe(plugin.NeedRuns)))
	defer m.Close()
	a, err := m.NewAggregate(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b := new(record.Batch)
	for range 4 {
		b.Append(record.Key{}, nil)
	}
	for _, runs := range [][]GroupRun{{{0, 3}}, {{0, 5}}, {{0, 4}, {0, 4}},
		{{0, 3}, {0, 2}, {0, 4}}, {{0, 0}, {0, 4}}, {}} {
		err := a.AddRuns(t.Context(), b, runs, 1)
		if refused := len(runs) > 0; refused != (err != nil) {
			t.Errorf("%v: %v", runs, err)
		}
	}
}
