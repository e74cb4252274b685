package index

import (
	"cmp"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/pentad-db/pentad/sdk/record"
)

// CheckBlock compares what the index says of a block with its rows, which stand in the order of
// the block and have ranks in place of acquisition times, and with how many of them are flagged.
func (s *Segment) CheckBlock(i uint32, rows *record.Batch, flagged int) error {
	b := &s.blocks[i]
	if rows.Len() != int(b.Rows) || flagged != int(b.Flagged) {
		return fmt.Errorf("it holds %d rows, %d flagged; the directory says %d and %d", rows.Len(),
			flagged, b.Rows, b.Flagged)
	}
	for _, rank := range rows.AcqNs {
		if uint64(rank) >= uint64(s.rows) {
			return fmt.Errorf("it holds rank %d of %d rows", rank, s.rows)
		}
	}
	for d := range record.NumDims {
		lo, hi := zoneOf(rows, record.Dim(d))
		if lo != b.Min[d] || hi != b.Max[d] {
			return fmt.Errorf("its %v is %d to %d; the directory says %d to %d", record.Dim(d), lo,
				hi, b.Min[d], b.Max[d])
		}
	}
	start := uint32(0)
	for k := range b.Subs {
		sub := &b.Subs[k]
		if err := b.checkSub(sub, rows, start); err != nil {
			return fmt.Errorf("sub-run %d: %w", k, err)
		}
		start = sub.End
	}
	return nil
}

func zoneOf(rows *record.Batch, d record.Dim) (lo, hi int64) {
	switch d {
	case record.CID:
		a, b := extent(rows.CID)
		return int64(a), int64(b)
	case record.MOID:
		a, b := extent(rows.MOID)
		return int64(a), int64(b)
	case record.MID:
		return extent(rows.MID)
	case record.Cap:
		return extent(rows.CapNs)
	default:
		return extent(rows.AcqNs)
	}
}

// checkSub checks the zones of a sub-run, which starts at a row, and that it is sorted where
// searches rely on it.
func (b *BlockInfo) checkSub(sub *SubRun, rows *record.Batch, start uint32) error {
	if start == sub.End {
		return nil
	}
	capLo, capHi := extent(rows.CapNs[start:sub.End])
	rankLo, rankHi := extent(rows.AcqNs[start:sub.End])
	if capLo != sub.CapLo || capHi != sub.CapHi || rankLo != int64(sub.RankLo) ||
		rankHi != int64(sub.RankHi) {
		return fmt.Errorf("caps %d to %d, ranks %d to %d; the directory says %d to %d, %d to %d",
			capLo, capHi, rankLo, rankHi, sub.CapLo, sub.CapHi, sub.RankLo, sub.RankHi)
	}
	for k := int(start) + 1; k < int(sub.End); k++ {
		if compareReadings(rows, k-1, k) > 0 {
			return fmt.Errorf("row %d is not sorted by tenant, quantity, device and cap", k)
		}
	}
	return nil
}

func compareReadings(rows *record.Batch, i, k int) int {
	return cmp.Or(cmp.Compare(rows.CID[i], rows.CID[k]), cmp.Compare(rows.MOID[i], rows.MOID[k]),
		cmp.Compare(rows.MID[i], rows.MID[k]), cmp.Compare(rows.CapNs[i], rows.CapNs[k]))
}

// CheckPostings compares every posting list with the directory.
func (s *Segment) CheckPostings() error {
	for d := range s.postings {
		if err := s.postings[d].check(s.blocks, record.Dim(d)); err != nil {
			return fmt.Errorf("posting lists of %v: %w", record.Dim(d), err)
		}
	}
	return nil
}

func (p *postings) check(blocks []BlockInfo, d record.Dim) error {
	want := postings{bounds: p.bounds}
	want.fill(blocks, d)
	for name, pair := range map[string][2][]posting{"up to": {p.le, want.le},
		"from": {p.ge, want.ge}, "in": {p.ov, want.ov}} {
		for i := range pair[0] {
			if !pair[0][i].ids.Equals(pair[1][i].ids) {
				return fmt.Errorf("blocks with values %s bin %d (%d): %d are listed, there are "+
					"%d, %d differ", name, i, p.bounds[i], pair[0][i].count, pair[1][i].count,
					roaring.Xor(pair[0][i].ids, pair[1][i].ids).GetCardinality())
			}
		}
	}
	return nil
}
