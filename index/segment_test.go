package index

import (
	"cmp"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// clusterRows clusters rows that are in acq order, in new memory.
func clusterRows(rows *record.Batch, opt Options) *Layout {
	l := new(Layout)
	NewClusterer(opt).Cluster(rows, l)
	return l
}

func TestClusterRows(t *testing.T) {
	eachShape(t, small(), func(t *testing.T, _ *rand.Rand, rows *record.Batch) {
		l := clusterRows(rows, small())
		if again := clusterRows(rows, small()); !reflect.DeepEqual(l, again) {
			t.Fatal("the same rows give another layout")
		}
		order := slices.Clone(l.Order)
		slices.Sort(order)
		for i, rank := range order {
			if uint32(i) != rank {
				t.Fatalf("%d rows: the order is no permutation at %d", rows.Len(), i)
			}
		}
		if len(order) != rows.Len() || len(l.BlockEnds) != len(l.SubEnds) {
			t.Fatalf("%d of %d rows, %d blocks", len(order), rows.Len(), len(l.BlockEnds))
		}
		start := uint32(0)
		for i, end := range l.BlockEnds {
			checkBlock(t, rows, l, i, start, end)
			start = end
		}
		if int(start) != rows.Len() {
			t.Fatalf("blocks end at %d of %d", start, rows.Len())
		}
	})
}

// TestLateRowsApart: rows that come late, or with a cap in the far future, lie in blocks of their
// own, whether the others come as they are captured or years later. A history that comes device by
// device has no late rows.
func TestLateRowsApart(t *testing.T) {
	minute := int64(time.Minute)
	for name, f := range map[string]struct {
		cap  func(i int) int64
		late int // how many
	}{
		"as captured": {func(i int) int64 { return int64(i) * minute / 100 }, 400},
		"by device":   {func(i int) int64 { return int64(i%2000) * 15 * minute }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			rows, strays := new(record.Batch), map[uint32]bool{}
			for i := range 40_000 {
				capNs := f.cap(i)
				if f.late > 0 && i%100 == 7 {
					capNs -= 3000 * minute
					if i%1000 == 7 {
						capNs = record.Cap.Max() - 1
					}
					strays[uint32(i)] = true
				}
				rows.AppendStamped(record.Key{MID: int64(i % 50), CapNs: capNs,
					AcqNs: 1<<60 + int64(i)}, nil)
			}
			l := clusterRows(rows, small())
			onTime := uint32(0)
			if l.OnTime > 0 {
				onTime = l.BlockEnds[l.OnTime-1]
			}
			for _, rank := range l.Order[onTime:] {
				if !strays[rank] {
					t.Fatalf("row %d counts as late", rank)
				}
			}
			if len(l.Order)-int(onTime) != f.late {
				t.Fatalf("%d rows count as late, want %d", len(l.Order)-int(onTime), f.late)
			}
		})
	}
}

// checkBlock checks size, sub-runs and their order.
func checkBlock(t *testing.T, rows *record.Batch, l *Layout, i int, start, end uint32) {
	t.Helper()
	if end <= start || end-start > uint32(small().BlockRows) {
		t.Fatalf("block %d has rows %d to %d", i, start, end)
	}
	from, highest := start, record.Cap.Min()
	for k, subEnd := range l.SubEnds[i] {
		if subEnd < from || subEnd > end || k == subRuns-1 && subEnd != end {
			t.Fatalf("block %d: sub-run %d ends at %d of %d", i, k, subEnd, end)
		}
		next := highest
		for j := from; j < subEnd; j++ {
			capNs := rows.CapNs[l.Order[j]]
			if capNs < highest {
				t.Fatalf("block %d: sub-run %d reaches into the one before", i, k)
			}
			next = max(next, capNs)
			if j > from && compareRows(rows, l.Order[j-1], l.Order[j]) >= 0 {
				t.Fatalf("block %d: sub-run %d is not sorted at %d", i, k, j)
			}
		}
		from, highest = subEnd, next
	}
}

func compareRows(rows *record.Batch, a, b uint32) int {
	return cmp.Or(cmp.Compare(rows.CID[a], rows.CID[b]), cmp.Compare(rows.MOID[a], rows.MOID[b]),
		cmp.Compare(rows.MID[a], rows.MID[b]), cmp.Compare(rows.CapNs[a], rows.CapNs[b]),
		cmp.Compare(a, b))
}

// TestPlan holds plans against every row: no block with a matching row is missed, no block that
// cannot match is left, and what is said to be inside is.
func TestPlan(t *testing.T) {
	eachShape(t, small(), func(t *testing.T, rng *rand.Rand, rows *record.Batch) {
		s, l, _ := indexOf(rng, rows, small())
		parsed, err := Parse(s.AppendBlockDirectory(nil), s.AppendPostings(nil), s.AppendRanks(nil))
		if err != nil {
			t.Fatal(err)
		}
		var p, again Plan
		for range 60 {
			x := box(t, rng, rows)
			s.Plan(x, &p)
			checkPlan(t, s, rows, l, x, &p)
			parsed.Plan(x, &again)
			if !slices.Equal(p.Candidates, again.Candidates) || p.Stats != again.Stats {
				t.Fatalf("box %v: the parsed index plans otherwise", x)
			}
		}
	})
}

func checkPlan(
	t *testing.T, s *Segment, rows *record.Batch, l *Layout, x *record.Box, p *Plan,
) {
	t.Helper()
	planned, inside := map[uint32]uint8{}, 0
	for i, c := range p.Candidates {
		if i > 0 && c.Block <= p.Candidates[i-1].Block {
			t.Fatalf("box %v: candidates do not ascend", x)
		}
		planned[c.Block] = c.Residual
		if c.Residual == 0 {
			inside++
		}
	}
	if inside != p.Stats.Inside || p.Stats.Blocks != s.Blocks() {
		t.Fatalf("box %v: %+v", x, p.Stats)
	}
	start := uint32(0)
	for id, end := range l.BlockEnds {
		residual, ok := planned[uint32(id)]
		var some [record.NumDims]bool // a row lies in the box in this dimension
		any := false
		for _, rank := range l.Order[start:end] {
			key := rows.Key(int(rank))
			all := true
			for d := range record.Dim(record.NumDims) {
				in := x[d].Contains(key.Part(d))
				some[d], all = some[d] || in, all && in
				if ok && !in && residual>>d&1 == 0 {
					t.Fatalf("box %v: block %d need not be tested in %v, but %v lies outside", x,
						id,
						d, key)
				}
			}
			any = any || all
		}
		if any && !ok {
			t.Fatalf("box %v: block %d has rows in it and is not planned", x, id)
		}
		if ok {
			checkTight(t, s.Block(uint32(id)), s, x, some)
		}
		start = end
	}
}

// checkTight wants the zones of a planned block to meet the box in every dimension.
func checkTight(
	t *testing.T, b *BlockInfo, s *Segment, x *record.Box, some [record.NumDims]bool,
) {
	t.Helper()
	for d := range record.Dim(record.NumDims) {
		lo, hi := b.Min[d], b.Max[d]
		if d == record.Acq {
			lo, hi = s.AcqOf(uint32(lo)), s.AcqOf(uint32(hi))
		}
		if !some[d] && !x[d].Intersects(lo, hi) {
			t.Fatalf("box %v: a block with %v from %d to %d is planned", x, d, lo, hi)
		}
	}
}

// TestDirectory holds the zones of blocks and sub-runs against their rows.
func TestDirectory(t *testing.T) {
	eachShape(t, small(), func(t *testing.T, rng *rand.Rand, rows *record.Batch) {
		s, l, flags := indexOf(rng, rows, small())
		start := uint32(0)
		for i, end := range l.BlockEnds {
			b := s.Block(uint32(i))
			flagged, from := uint32(0), start
			for k := range b.Subs {
				sub := &b.Subs[k]
				for _, rank := range l.Order[from : start+sub.End] {
					key, capNs := key(rows, rank), rows.CapNs[rank]
					for d := range key {
						if key[d] < b.Min[d] || key[d] > b.Max[d] {
							t.Fatalf("block %d: row outside of %v", i, record.Dim(d))
						}
					}
					if capNs < sub.CapLo || capNs > sub.CapHi ||
						rank < sub.RankLo || rank > sub.RankHi {
						t.Fatalf("block %d: row outside of sub-run %d", i, k)
					}
					flagged += uint32(flags[rank>>6] >> (rank & 63) & 1)
				}
				from = start + sub.End
			}
			if from != end || b.Rows != end-start || b.Flagged != flagged {
				t.Fatalf("block %d: %+v, %d flagged", i, b, flagged)
			}
			start = end
		}
	})
}

func TestRanks(t *testing.T) {
	eachShape(t, small(), func(t *testing.T, rng *rand.Rand, rows *record.Batch) {
		s, _, _ := indexOf(rng, rows, small())
		n := rows.Len()
		for rank, acq := range rows.AcqNs {
			if got := s.AcqOf(uint32(rank)); got != acq {
				t.Fatalf("rank %d has acq %d, want %d", rank, got, acq)
			}
		}
		for range 200 {
			from := rows.AcqNs[rng.IntN(n)] + rng.Int64N(5) - 2
			to := rows.AcqNs[rng.IntN(n)] + rng.Int64N(1000) - 500
			lo, hi := s.RankRange(from, to)
			wantLo, _ := slices.BinarySearch(rows.AcqNs, from)
			wantHi, _ := slices.BinarySearch(rows.AcqNs, to)
			if int(lo) != wantLo || int(hi) != wantHi {
				t.Fatalf("[%d, %d): ranks %d to %d, want %d to %d", from, to, lo, hi, wantLo,
					wantHi)
			}
		}
		lo, hi := s.RankRange(record.Acq.Min(), record.Acq.Max())
		if lo != 0 || int(hi) != n {
			t.Fatalf("all acqs are ranks %d to %d of %d", lo, hi, n)
		}
	})
}

// TestPlanAllocatesNothing plans boxes again with memory that has grown.
func TestPlanAllocatesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	rows := shapes()[0].rows(rng, 30_000)
	s, _, _ := indexOf(rng, rows, small())
	var p Plan
	for i := range 50 {
		x := box(t, rng, rows)
		s.Plan(x, &p)
		if n := testing.AllocsPerRun(20, func() { s.Plan(x, &p) }); n > 0 {
			t.Errorf("box %d, %v: planning allocates %v times", i, x, n)
		}
	}
}
