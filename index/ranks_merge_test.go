package index

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/record"
)

// crowded returns rows by acq, of which there are few.
func crowded(rng *rand.Rand, rows int) *record.Batch {
	acqs := make([]int64, rows)
	for i := range acqs {
		acqs[i] = rng.Int64N(1+int64(rows)) - int64(rows)/2
	}
	slices.Sort(acqs)
	b := &record.Batch{}
	for _, acq := range acqs {
		b.AppendStamped(record.Key{CID: rng.Int32N(3), MID: rng.Int64N(50), CapNs: rng.Int64N(99),
			AcqNs: acq}, nil)
	}
	return b
}

// TestSharedAcqs: rows that share acqs are counted and found by acq, also after they were written
// and read.
func TestSharedAcqs(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine")
	rng := rand.New(rand.NewPCG(rand.Uint64(), 1))
	for range 200 {
		rows := crowded(rng, 1+rng.IntN(700))
		s, _, _ := indexOf(rng, rows, small())
		parsed, err := Parse(s.AppendBlockDirectory(nil), s.AppendPostings(nil), s.AppendRanks(nil))
		if err != nil {
			t.Fatal(err)
		}
		equal := false
		for i, acq := range rows.AcqNs {
			equal = equal || i > 0 && acq == rows.AcqNs[i-1]
			if got := parsed.AcqOf(uint32(i)); got != acq {
				t.Fatalf("rank %d has acq %d, want %d", i, got, acq)
			}
		}
		if s.SharesAcqs() != equal || parsed.SharesAcqs() != equal {
			t.Fatalf("shares acqs: %v, %v; want %v", s.SharesAcqs(), parsed.SharesAcqs(), equal)
		}
		for acq := rows.AcqNs[0] - 2; acq < rows.AcqNs[rows.Len()-1]+3; acq++ {
			want, _ := slices.BinarySearch(rows.AcqNs, acq)
			if _, got := parsed.RankRange(acq, acq); int(got) != want {
				t.Fatalf("%d rows below %d, want %d", got, acq, want)
			}
		}
	}
}

// TestMergeRanks holds the new ranks of the rows of several segments, some dropped, against a list.
func TestMergeRanks(t *testing.T) {
	rounds.NotUnderRace(t, "one goroutine")
	rng := rand.New(rand.NewPCG(rand.Uint64(), 2))
	for range 200 {
		type place struct {
			acq     int64
			segment int
			rank    uint32
		}
		var segments []*Segment
		var dropped [][]uint64
		var want []place
		for i := range 1 + rng.IntN(5) {
			rows := crowded(rng, 1+rng.IntN(300))
			s, _, _ := indexOf(rng, rows, small())
			var gone []uint64
			if rng.IntN(2) == 0 {
				gone = make([]uint64, (rows.Len()+63)/64)
			}
			for rank, acq := range rows.AcqNs {
				if gone != nil && rng.IntN(3) == 0 {
					gone[rank>>6] |= 1 << (rank & 63)
					continue
				}
				want = append(want, place{acq, i, uint32(rank)})
			}
			segments, dropped = append(segments, s), append(dropped, gone)
		}
		slices.SortStableFunc(want, func(a, b place) int { return cmp.Compare(a.acq, b.acq) })
		s, err := MergeRanks(segments, dropped)
		if err != nil || s.Rows() != len(want) {
			t.Fatalf("%d rows stay, want %d, %v", s.Rows(), len(want), err)
		}
		stay := 0
		for i, seg := range segments {
			for rank := range uint32(seg.Rows()) {
				if _, ok := s.Rank(i, rank); ok {
					stay++
				}
			}
		}
		if stay != len(want) {
			t.Fatalf("%d rows have ranks, want %d", stay, len(want))
		}
		first := 0
		for i, w := range want {
			if w.acq > want[first].acq {
				first = i
			}
			got, ok := s.Rank(w.segment, w.rank)
			if !ok || got != uint32(i) || s.AcqOf(got) != w.acq || s.First(got) != uint32(first) {
				t.Fatalf("segment %d, rank %d becomes %d (%v) with acq %d, the first of which is "+
					"%d; want %d with %d, %d", w.segment, w.rank, got, ok, s.AcqOf(got),
					s.First(got), i, w.acq, first)
			}
		}
	}
}

// TestHeadShared: a head of rows that share acqs, all of which may supersede others, counts them.
func TestHeadShared(t *testing.T) {
	rng := rand.New(rand.NewPCG(rand.Uint64(), 3))
	rows := crowded(rng, 5000)
	h := NewHead(TopWatermarks())
	h.Insert(rows)
	if h.Flagged() != rows.Len() {
		t.Errorf("%d of %d rows are flagged", h.Flagged(), rows.Len())
	}
	for range 200 {
		from := rng.Int64N(6000) - 3000
		to := from + 1 + rng.Int64N(50)
		lo, _ := slices.BinarySearch(rows.AcqNs, from)
		hi, _ := slices.BinarySearch(rows.AcqNs, to)
		box := record.Box{record.Acq: record.RangeSet{{From: from, To: to}}}
		found := 0
		if err := h.Scan(&box, 1<<40, true, func(b *record.Batch, _ []uint64) error {
			found += b.Len()
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		n, between := h.Count(&box, 1<<40), h.CountBelow(to)-h.CountBelow(from)
		if n != hi-lo || found != hi-lo || between != hi-lo {
			t.Fatalf("acq %d to %d: %d counted, %d found, want %d", from, to, n, found, hi-lo)
		}
	}
}
