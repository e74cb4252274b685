package index

import "github.com/pentad-db/pentad/sdk/record"

// Bound is the smallest and the greatest value of a dimension.
type Bound struct{ Min, Max int64 }

// SubRun is a run of rows of a block, sorted by tenant, quantity, device, cap and acq, with zones
// of its own.
type SubRun struct {
	End            uint32 // position in the block after the last row
	CapLo, CapHi   int64
	RankLo, RankHi uint32
}

// BlockInfo is the entry of a block in the block directory of its segment. Min and Max of
// [record.Acq] are ranks.
type BlockInfo struct {
	Min, Max [record.NumDims]int64
	Offset   uint64 // where the block lies in its file
	Size     uint32
	Rows     uint32
	Flagged  uint32 // rows that may supersede an older one
	Subs     [subRuns]SubRun
}

// Segment is the index of one sealed segment. It is immutable and may be used by many goroutines.
type Segment struct {
	blocks   []BlockInfo
	rows     uint32
	onTime   uint32                // blocks before the first that holds late rows
	flagged  int                   // rows that may supersede an older one
	bounds   [record.NumDims]Bound // of acq: as acq
	ranks    rankTable
	postings [record.NumDims]postings
}

// Build makes the index of rows laid out in blocks that lie at offsets. flags is a bitmap by rank.
//
// Cost: about 5 ns a row.
func Build(
	rows *record.Batch, l *Layout, flags []uint64, offsets []uint64, sizes []uint32,
) *Segment {
	var b Builder
	b.Add(l, flags)
	return b.FinishRows(rows, offsets, sizes)
}

// Builder makes the index of a segment that is written in runs of blocks. The zero value is ready.
type Builder struct {
	blocks []BlockInfo
	onTime uint32
}

// Add describes the blocks of a run. flags is a bitmap by row. Once a run has late blocks, those
// of all later runs must be late.
//
// Cost: about 5 ns a row.
func (b *Builder) Add(l *Layout, flags []uint64) {
	if l.OnTime > 0 && int(b.onTime) < len(b.blocks) {
		panic("BUG: blocks that are on time follow late ones")
	}
	b.onTime += uint32(l.OnTime)
	start := uint32(0)
	for i, end := range l.BlockEnds {
		info := BlockInfo{Rows: end - start}
		for k, subEnd := range l.SubEnds[i] {
			info.Subs[k].End = subEnd - start
		}
		info.describe(l, start, end, flags)
		info.describeSubs(l, start)
		b.blocks = append(b.blocks, info)
		start = end
	}
}

// Carry takes over the description of a block of another segment, whose rows are on time and get
// ranks higher by a number. Such blocks come before all others.
func (b *Builder) Carry(info *BlockInfo, rankShift uint32) {
	if int(b.onTime) < len(b.blocks) {
		panic("BUG: blocks that are on time follow late ones")
	}
	carried := *info
	carried.Min[record.Acq] += int64(rankShift)
	carried.Max[record.Acq] += int64(rankShift)
	end := uint32(0)
	for i := range carried.Subs {
		if sub := &carried.Subs[i]; sub.End > end {
			sub.RankLo, sub.RankHi = sub.RankLo+rankShift, sub.RankHi+rankShift
			end = sub.End
		}
	}
	b.blocks = append(b.blocks, carried)
	b.onTime++
}

// Finish makes the index of all runs, whose ranks are those of a rank map.
//
// Cost: about 30 us a block.
func (b *Builder) Finish(s *RankMap, offsets []uint64, sizes []uint32) *Segment {
	return b.finish(s.ranks, offsets, sizes)
}

// FinishRows makes the index of all runs, whose ranks are the positions of rows in acq order.
func (b *Builder) FinishRows(rows *record.Batch, offsets []uint64, sizes []uint32) *Segment {
	var ranks rankBuilder
	ranks.add(rows.AcqNs...)
	return b.finish(ranks.finish(), offsets, sizes)
}

func (b *Builder) finish(ranks rankTable, offsets []uint64, sizes []uint32) *Segment {
	s := &Segment{blocks: b.blocks, rows: ranks.rows, onTime: b.onTime, ranks: ranks}
	for i := range s.blocks {
		s.blocks[i].Offset, s.blocks[i].Size = offsets[i], sizes[i]
	}
	s.finish()
	for d := range s.postings {
		s.postings[d] = buildPostings(s.blocks, record.Dim(d))
	}
	return s
}

// describe sets the zones of a block, the rows [start, end), and counts its flags.
func (b *BlockInfo) describe(l *Layout, start, end uint32, flags []uint64) {
	set := func(d record.Dim, lo, hi int64) { b.Min[d], b.Max[d] = lo, hi }
	cid, maxCID := extent(l.Keys.CID[start:end])
	moid, maxMOID := extent(l.Keys.MOID[start:end])
	mid, maxMID := extent(l.Keys.MID[start:end])
	set(record.CID, int64(cid), int64(maxCID))
	set(record.MOID, int64(moid), int64(maxMOID))
	set(record.MID, mid, maxMID)
	for _, i := range l.Order[start:end] {
		b.Flagged += uint32(flags[i>>6] >> (i & 63) & 1)
	}
}

// describeSubs sets the zones of the sub-runs, whose ends are known, and those of the block that
// follow from them. The block starts at a position of the layout.
func (b *BlockInfo) describeSubs(l *Layout, start uint32) {
	first := true
	from := start
	for k := range b.Subs {
		sub := &b.Subs[k]
		to := start + sub.End
		if from == to {
			continue
		}
		sub.CapLo, sub.CapHi = extent(l.Keys.CapNs[from:to])
		rankLo, rankHi := extent(l.Keys.AcqNs[from:to])
		sub.RankLo, sub.RankHi = uint32(rankLo), uint32(rankHi)
		from = to
		lo, hi := [2]int64{sub.CapLo, rankLo}, [2]int64{sub.CapHi, rankHi}
		for i, d := range [2]record.Dim{record.Cap, record.Acq} {
			if first {
				b.Min[d], b.Max[d] = lo[i], hi[i]
			}
			b.Min[d], b.Max[d] = min(b.Min[d], lo[i]), max(b.Max[d], hi[i])
		}
		first = false
	}
}

// extent returns the smallest and the greatest of values.
func extent[T int32 | int64](values []T) (lo, hi T) {
	lo, hi = values[0], values[0]
	for _, v := range values {
		lo, hi = min(lo, v), max(hi, v)
	}
	return lo, hi
}

// finish derives what follows from blocks and ranks.
func (s *Segment) finish() {
	for d := range record.NumDims {
		s.bounds[d] = Bound{s.blocks[0].Min[d], s.blocks[0].Max[d]}
		for i := range s.blocks {
			s.bounds[d].Min = min(s.bounds[d].Min, s.blocks[i].Min[d])
			s.bounds[d].Max = max(s.bounds[d].Max, s.blocks[i].Max[d])
		}
	}
	s.bounds[record.Acq] = Bound{s.AcqOf(0), s.AcqOf(s.rows - 1)}
	for i := range s.blocks {
		s.flagged += int(s.blocks[i].Flagged)
	}
}

// Bounds returns the smallest and greatest value of each dimension, acq as acquisition time.
func (s *Segment) Bounds() [record.NumDims]Bound { return s.bounds }

// Rows returns the number of rows.
func (s *Segment) Rows() int { return int(s.rows) }

// Flagged returns the number of rows that may supersede an older one.
func (s *Segment) Flagged() int { return s.flagged }

// Blocks returns the number of blocks.
func (s *Segment) Blocks() int { return len(s.blocks) }

// OnTime returns the number of blocks before the first that holds late rows.
func (s *Segment) OnTime() int { return int(s.onTime) }

// IsCarriable reports whether a merge may take over a block as it is: its rows are on time, of one
// tenant and quantity, and as many as nearly fill a block.
func (s *Segment) IsCarriable(i uint32, opt Options) bool {
	b := &s.blocks[i]
	return i < s.onTime && int(b.Rows) >= opt.withDefaults().BlockRows*3/4 &&
		b.Min[record.CID] == b.Max[record.CID] && b.Min[record.MOID] == b.Max[record.MOID]
}

// Block returns the entry of a block in the block directory; it belongs to the segment.
func (s *Segment) Block(i uint32) *BlockInfo { return &s.blocks[i] }

// ReplaceByAcqs puts the acquisition times of rows in the place of their ranks, which are below
// Rows.
//
// Cost: 2 ns a row where acqs are consecutive, as within a batch.
func (s *Segment) ReplaceByAcqs(ranks []int64) { s.ranks.replaceByAcqs(ranks) }

// AcqOf returns the acquisition time of a row.
func (s *Segment) AcqOf(rank uint32) int64 { return s.ranks.acqOf(rank) }

// SharesAcqs reports whether there are rows with the same acq.
func (s *Segment) SharesAcqs() bool { return s.ranks.shared }

// RankRange returns the ranks [lo, hi) of the rows with acq in [from, to).
func (s *Segment) RankRange(fromNs, toNs int64) (lo, hi uint32) {
	bound := &s.bounds[record.Acq]
	if lo, hi = 0, s.rows; fromNs > bound.Min {
		lo = s.ranks.below(fromNs)
	}
	if toNs <= bound.Max {
		hi = s.ranks.below(toNs)
	}
	return lo, hi
}

// AppendRankRanges appends the acq of a box as ranks of the segment.
func (s *Segment) AppendRankRanges(dst record.RangeSet, box *record.Box) record.RangeSet {
	for _, r := range box[record.Acq] {
		if lo, hi := s.RankRange(r.From, r.To); lo < hi {
			dst = append(dst, record.Range{From: int64(lo), To: int64(hi)})
		}
	}
	return dst
}
