package index

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// blockRows returns the rows of a block as a file gives them, and how many are flagged.
func blockRows(
	rows *record.Batch, l *Layout, flags []uint64, i int,
) (b *record.Batch, flagged int) {
	start := uint32(0)
	if i > 0 {
		start = l.BlockEnds[i-1]
	}
	b = &record.Batch{}
	for _, rank := range l.Order[start:l.BlockEnds[i]] {
		k := rows.Key(int(rank))
		k.AcqNs = int64(rank)
		b.AppendStamped(k, nil)
		flagged += int(flags[rank>>6] >> (rank & 63) & 1)
	}
	return b, flagged
}

// A check finds nothing in what Build made, and every number that is changed.
func TestCheck(t *testing.T) {
	eachShape(t, small(), func(t *testing.T, rng *rand.Rand, rows *record.Batch) {
		s, l, flags := indexOf(rng, rows, small())
		for i := range s.blocks {
			b, flagged := blockRows(rows, l, flags, i)
			if err := s.CheckBlock(uint32(i), b, flagged); err != nil {
				t.Fatalf("block %d: %v", i, err)
			}
		}
		if err := s.CheckPostings(); err != nil {
			t.Fatal(err)
		}
		i := rng.IntN(len(s.blocks))
		b, flagged := blockRows(rows, l, flags, i)
		bend := func(what string, change func(b *BlockInfo)) {
			t.Helper()
			whole := s.blocks[i]
			change(&s.blocks[i])
			if s.blocks[i] != whole && s.CheckBlock(uint32(i), b, flagged) == nil {
				t.Errorf("%s of block %d is not noticed", what, i)
			}
			s.blocks[i] = whole
		}
		for d := range record.NumDims {
			bend("minimum", func(b *BlockInfo) { b.Min[d]-- })
			bend("maximum", func(b *BlockInfo) { b.Max[d]++ })
		}
		for k := range subRuns {
			subs := &s.blocks[i].Subs
			if subs[k].End == 0 || k > 0 && subs[k].End == subs[k-1].End {
				continue // empty
			}
			bend("cap", func(b *BlockInfo) { b.Subs[k].CapLo++ })
			bend("cap", func(b *BlockInfo) { b.Subs[k].CapHi-- })
			bend("rank", func(b *BlockInfo) { b.Subs[k].RankLo++ })
			bend("rank", func(b *BlockInfo) { b.Subs[k].RankHi++ })
		}
		bend("flags", func(b *BlockInfo) { b.Flagged++ })
		for k := 1; k < int(s.blocks[i].Subs[0].End); k++ {
			if compareReadings(b, k-1, k) < 0 {
				unsorted := *b
				unsorted.MID, unsorted.CapNs = slices.Clone(b.MID), slices.Clone(b.CapNs)
				unsorted.CID, unsorted.MOID = slices.Clone(b.CID), slices.Clone(b.MOID)
				swapReadings(&unsorted, k-1, k)
				if s.CheckBlock(uint32(i), &unsorted, flagged) == nil {
					t.Errorf("rows %d and %d of block %d change places unnoticed", k-1, k, i)
				}
				break
			}
		}
		b.AcqNs[0] = int64(s.rows)
		bend("rank", func(b *BlockInfo) { b.Max[record.Acq] = int64(s.rows) })
		bendPostings(t, rng, s)
	})
}

func swapReadings(b *record.Batch, i, k int) {
	b.CID[i], b.CID[k] = b.CID[k], b.CID[i]
	b.MID[i], b.MID[k] = b.MID[k], b.MID[i]
	b.MOID[i], b.MOID[k] = b.MOID[k], b.MOID[i]
	b.CapNs[i], b.CapNs[k] = b.CapNs[k], b.CapNs[i]
}

// bendPostings adds a block to a list or takes it out.
func bendPostings(t *testing.T, rng *rand.Rand, s *Segment) {
	t.Helper()
	for d := range s.postings {
		p := &s.postings[d]
		list := [][]posting{p.le, p.ge, p.ov}[rng.IntN(3)]
		ids := list[rng.IntN(len(list))].ids
		block := rng.Uint32N(uint32(len(s.blocks)))
		ids.Flip(uint64(block), uint64(block)+1)
		if s.CheckPostings() == nil {
			t.Errorf("%v: a wrong list is not noticed", record.Dim(d))
		}
		ids.Flip(uint64(block), uint64(block)+1)
	}
}
