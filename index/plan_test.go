package index

import (
	"math/rand/v2"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestPlanManyBlocks plans over so many blocks that bins are quantiles and lists are intersected,
// and asks for points, gaps between points, and as many ranges as a query may have.
func TestPlanManyBlocks(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine")
	opt := Options{BlockRows: 16}
	for _, sh := range shapes() {
		t.Run(sh.name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			rows := sh.rows(rng, 6000)
			s, l, _ := indexOf(rng, rows, opt)
			if s.Blocks() < 370 {
				t.Fatalf("%d blocks", s.Blocks())
			}
			var p Plan
			lists := 0
			for i := range 60 {
				x := box(t, rng, rows)
				if i%3 == 0 {
					x = scattered(t, rng, rows)
				}
				s.Plan(x, &p)
				checkPlan(t, s, rows, l, x, &p)
				lists = max(lists, p.Stats.Lists)
			}
			if lists < 2 && !sh.equalKey {
				t.Error("no plan looked at two lists")
			}
		})
	}
}

// scattered makes a box of up to the most ranges in one dimension, most of them narrow.
func scattered(t *testing.T, rng *rand.Rand, rows *record.Batch) *record.Box {
	t.Helper()
	var q record.Query
	d := record.Dim(rng.IntN(record.NumDims))
	for range 1 + rng.IntN(1+rng.IntN(record.MaxRangesPerDim)) {
		v := rows.Key(rng.IntN(rows.Len())).Part(d)
		if v > d.Min() && rng.IntN(3) == 0 {
			v--
		}
		q.Box[d] = append(q.Box[d], record.At(v))
	}
	if err := q.Normalize(); err != nil {
		t.Fatal(err)
	}
	return &q.Box
}

// TestPlanOutside asks for what lies beside all rows: nothing is planned, in whatever dimension.
func TestPlanOutside(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	rows := shapes()[0].rows(rng, 5000)
	s, _, _ := indexOf(rng, rows, small())
	var p Plan
	for d, b := range s.Bounds() {
		dim := record.Dim(d)
		var around, ends record.Box
		around[d] = record.RangeSet{{From: b.Max + 1, To: dim.Max()}}
		if b.Min > dim.Min() {
			around[d] = record.RangeSet{{From: dim.Min(), To: b.Min}, around[d][0]}
		}
		ends[d] = record.RangeSet{{From: b.Min, To: b.Max + 1}}
		if s.Plan(&around, &p); len(p.Candidates) != 0 {
			t.Errorf("%v: %d blocks are planned outside of the bounds", dim, len(p.Candidates))
		}
		s.Plan(&ends, &p)
		if len(p.Candidates) != s.Blocks() || p.Stats.Inside != s.Blocks() {
			t.Errorf("%v: within the bounds %d of %d blocks are inside", dim, p.Stats.Inside,
				s.Blocks())
		}
	}
}

// TestLookupsAllocateNothing: these run once for each row of an answer.
func TestLookupsAllocateNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	rows := shapes()[2].rows(rng, 5000)
	s, _, _ := indexOf(rng, rows, small())
	n := testing.AllocsPerRun(20, func() {
		for rank := range uint32(s.Rows()) {
			lo, hi := s.RankRange(s.AcqOf(rank), s.AcqOf(rank)+1)
			if lo != rank || hi != rank+1 {
				t.Fatalf("rank %d is found at %d to %d", rank, lo, hi)
			}
		}
		_ = s.Bounds()
		_ = s.Block(0)
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkPlanRanges plans the most ranges that a query may have in one dimension.
func BenchmarkPlanRanges(b *testing.B) {
	rows := benchRows(1 << 20)
	s, _, _ := indexOf(rand.New(rand.NewPCG(1, 1)), rows, Options{BlockRows: 256})
	for _, d := range []record.Dim{record.MID, record.Cap, record.Acq} {
		var x record.Box
		lo, hi := s.Bounds()[d].Min, s.Bounds()[d].Max
		step := max(2, (hi-lo)/record.MaxRangesPerDim)
		for from := lo; from < hi && len(x[d]) < record.MaxRangesPerDim; from += step {
			x[d] = append(x[d], record.Range{From: from, To: from + step/2})
		}
		b.Run(d.String(), func(b *testing.B) {
			var p Plan
			for b.Loop() {
				s.Plan(&x, &p)
			}
			b.ReportMetric(float64(len(p.Candidates)), "blocks")
		})
	}
}
