package segment

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// Lines of pieces are written by vectors as row by row.
func TestPieces(t *testing.T) {
	rng := randomSource(t)
	for range 2000 {
		runs := 1 + rng.IntN(50)
		bases, slopes := make([]int64, runs), make([]int64, runs)
		for i := range runs {
			bases[i], slopes[i] = extremes(rng), extremes(rng)
		}
		var pieces []piece
		rows := 0
		for range 1 + rng.IntN(30) {
			p := piece{uint32(rng.IntN(runs)), uint32(rng.IntN(9000)), uint32(1 + rng.IntN(40))}
			pieces, rows = append(pieces, p), rows+int(p.rows)
		}
		if rng.IntN(3) == 0 {
			slopes = nil
		}
		got := make([]int64, rows+1)
		for i := range got {
			got[i] = extremes(rng)
		}
		want, add := slices.Clone(got), rng.IntN(2) == 0
		writePieces(got[:rows], pieces, bases, slopes, add)
		writePiecesByRow(want[:rows], pieces, bases, slopes, add)
		if !slices.Equal(got, want) {
			t.Fatalf("%v with %v and %v, add %v: got %v, want %v", pieces, bases, slopes, add, got,
				want)
		}
	}
}

// Steps of runs are counted by vectors as run by run, also those of damaged tables.
func TestCountSteps(t *testing.T) {
	rng := randomSource(t)
	for range 2000 {
		runs := rng.IntN(100)
		starts, behind := make([]int64, runs+1), make([]int64, runs)
		value := func(most int64) int64 { return rng.Int64N(most) }
		if rng.IntN(3) == 0 {
			value = func(int64) int64 { return extremes(rng) }
		}
		for i := range runs {
			starts[i+1], behind[i] = starts[i]+value(60), value(40)
		}
		from := value(50)
		to := from + value(20)
		got := countSteps(starts, behind, from, to)
		if want := countStepsByRun(starts, behind, from, to); got != want {
			t.Fatalf("starts %v, behind %v, %d to %d: %d rows, want %d", starts, behind, from, to,
				got, want)
		}
	}
}

// alignedSeries makes series that take readings at the same instants, or within some of them, and
// that begin and end at different ones.
func alignedSeries(rng *rand.Rand) *SealedInput {
	step := []int64{1, 1000, 30 * 60e9, 1 << 46}[rng.IntN(4)]
	jitter := []int64{0, 0, step / 3}[rng.IntN(3)]
	first := int64(1.7e18) - rng.Int64N(2)*int64(3.4e18)
	in := &SealedInput{Rows: &record.Batch{}}
	for mid := range 1 + rng.Int64N(300) {
		from := rng.Int64N(3)
		to := from + 1 + rng.Int64N(24)
		for i := from; i < to && in.Rows.Len() < maxBlockRows; i++ {
			k := record.Key{CID: 1, MID: mid, MOID: 1,
				CapNs: first + i*step + rng.Int64N(jitter+1)}
			in.Rows.Append(k, nil)
			in.Order = append(in.Order, uint32(in.Rows.Len()-1))
		}
	}
	in.BlockEnds = []uint32{uint32(in.Rows.Len())}
	return in
}

// Ranges of caps are found and counted in runs as by a look at each row.
func TestCapsOfRuns(t *testing.T) {
	rng := randomSource(t)
	together, others := 0, 0
	for range 100 {
		in := alignedSeries(rng)
		b := firstBlock(t, mustSeal(t, in))
		if b.runs.count == 0 {
			continue
		}
		if _, ok := b.runs.lines[0].together(&b.keys[record.Cap]); ok {
			together++
		} else {
			others++
		}
		for range 20 {
			near := func() int64 {
				return in.Rows.CapNs[rng.IntN(in.Rows.Len())] + rng.Int64N(3) - 1
			}
			set := record.RangeSet{{From: near(), To: near()}}
			if set[0].From >= set[0].To {
				set[0].To = set[0].From + 1
			}
			lo := rng.IntN(in.Rows.Len())
			hi := lo + rng.IntN(in.Rows.Len()-lo+1)
			if rng.IntN(2) == 0 {
				lo, hi = 0, in.Rows.Len()
			}
			var want []uint32
			for i := lo; i < hi; i++ {
				if set.Contains(in.Rows.CapNs[in.Order[i]]) {
					want = append(want, uint32(i))
				}
			}
			got := b.FilterSpan(record.Cap, set, lo, hi, nil)
			n := b.CountSpan(record.Cap, set, lo, hi)
			if !slices.Equal(got, want) || n != len(want) {
				t.Fatalf("%v in [%d, %d): got %v and %d, want %v", set, lo, hi, got, n, want)
			}
		}
	}
	if together < 5 || others < 5 {
		t.Errorf("%d blocks with lines that are together, %d others", together, others)
	}
}
