package versions

import (
	"cmp"
	"math"
	"slices"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/blocks"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/sdk/record"
)

// A row can be superseded only by versions that came after it. Those that came before a scan of its
// block are counted in what the segment keeps of the block, so a later scan looks only for newer
// ones, and the table of a partition is small. Two things may bring a superseded row back or add
// older versions: an event that hides the newer one, and a put below the horizon. What was kept
// before these is not used.

// newerFrom picks what is known of the superseded rows of the candidates of a partition. It returns
// the acq from which on newer versions of their rows must be looked for.
func (r *Resolver) newerFrom(p *Partition) int64 {
	p.knownBelowNs = math.MinInt64
	if !r.UseSuperseded || p.State.Backdated != nil {
		return math.MinInt64
	}
	changedNs := r.HistoryChangedAcqNs
	for _, t := range r.Tombstones {
		changedNs = max(changedNs, t.AcqNs)
	}
	fromNs := int64(math.MaxInt64)
	for _, seg := range p.Segments {
		if r.useSum(p, seg, changedNs) {
			fromNs = min(fromNs, seg.Sum.SearchedBelowNs)
			continue
		}
		for _, c := range seg.Plan.Candidates {
			known := seg.Segment.Superseded.Of(c.Block, seg.File)
			if known != nil && known.FirstSearchedBelowNs <= r.UpperAcqNs {
				if searchedBelowNs := known.SearchedBelowNs(); changedNs < searchedBelowNs {
					seg.Known = append(seg.Known, blocks.BlockSuperseded{Block: c.Block,
						SupersededRows: known})
					fromNs = min(fromNs, searchedBelowNs)
					p.knownBelowNs = max(p.knownBelowNs, searchedBelowNs)
					continue
				}
			}
			oldest := seg.Index.Block(c.Block).Min[record.Acq]
			fromNs = min(fromNs, seg.Index.AcqOf(uint32(oldest)))
		}
	}
	return fromNs
}

// useSum uses the sum of a segment of which all rows are only counted, if no version can have come
// since.
func (r *Resolver) useSum(p *Partition, seg *blocks.PlannedSegment, changedNs int64) bool {
	if !r.CountOnly || !seg.IsWhole() {
		return false
	}
	sum := seg.Segment.Superseded.Sum()
	if sum == nil || sum.FirstSearchedBelowNs > r.UpperAcqNs ||
		sum.SearchedBelowNs <= max(changedNs, p.newestFlaggedNs) {
		return false
	}
	seg.Sum = sum
	return true
}

// KeepSum keeps with a segment how many of its rows are superseded, after all its blocks were
// counted by what is known of each, so that the next count need not look at these.
func (r *Resolver) KeepSum(p *Partition, seg *blocks.PlannedSegment) {
	if len(seg.Known) < seg.Index.Blocks() || !seg.IsWhole() {
		return
	}
	seg.Segment.Superseded.KeepSum(p.newestFlaggedNs, seg.AllKnown)
}

// HasNoNewer reports whether no row of a block can have a newer version, except those that known
// counts already.
func (p *Partition) HasNoNewer(info *index.BlockInfo, known *shards.SupersededRows) bool {
	if known == nil {
		return p.Newest.hasNone(info, math.MinInt64)
	}
	return p.Newest.hasNone(info, known.SearchedBelowNs())
}

// keepHasNoNewer keeps with the segment of a block, which is inside the box, that no row of it has
// a newer version that came since: the next scan looks only for those that come from now on. Where
// none came of any reading, there is nothing to spare the next scan.
func (r *Resolver) keepHasNoNewer(
	p *Partition, seg *blocks.PlannedSegment, number uint32, known *shards.SupersededRows,
) {
	switch {
	case !r.UseSuperseded || p.newestFromNs == math.MinInt64 || p.Flagged == 0:
	case known != nil && p.Newest.len() == 0:
	case known != nil:
		known.Raise(r.UpperAcqNs)
	default:
		seg.Segment.Superseded.Keep(number, seg.File, int(seg.Index.Block(number).Rows),
			shards.NewSupersededRows(r.UpperAcqNs, nil, 0))
	}
}

// eachFlagged calls visit with the candidates that have flagged rows, and may have versions from
// the acq on that matters.
func (p *Partition) eachFlagged(
	seg *blocks.PlannedSegment, visit func(index.Candidate, *index.BlockInfo),
) {
	all := p.newestFromNs == math.MinInt64
	if seg.Index.Flagged() == 0 ||
		!all && seg.Index.Bounds()[record.Acq].Max < p.newestFromNs {
		return
	}
	for _, c := range seg.Plan.Candidates {
		info := seg.Index.Block(c.Block)
		if info.Flagged > 0 &&
			(all || seg.Index.AcqOf(uint32(info.Max[record.Acq])) >= p.newestFromNs) {
			visit(c, info)
		}
	}
}

// SupersededFinder finds the superseded rows of whole blocks. One goroutine uses it; the zero value
// is ready.
type SupersededFinder struct {
	keys      record.Batch
	rows      []uint32  // of the block, which keys are of
	newer     []version // that may be of readings of the block
	matches   []match
	positions []uint16
}

// match is a row of a block and the acq of the newest version of its reading.
type match struct {
	row      uint32
	newestNs int64
}

// rowsPerSearch: for a newer version for each of these rows of a block or more, all its rows are
// looked up in the table, which takes some 10 ns each.
const rowsPerSearch = 16

// RowsToSearch returns about how many of the rows of a whole block take as long to decode as to
// count those that have no newer version.
func (p *Partition) RowsToSearch(rows int) int {
	if p.newestFromNs == math.MinInt64 {
		return rows
	}
	return min(rows, rowsPerSearch*p.Newest.len())
}

// Find returns the positions of the rows of an open block, which lies inside the box, that have a
// newer version in the partition, ascending, valid until the next call. It is not ok where other
// rows may have to be removed too, or what is known is not used. What it finds is kept for other
// scans.
//
// Errors: *durable.CorruptError.
func (f *SupersededFinder) Find(
	r *Resolver, p *Partition, seg *blocks.PlannedSegment, number uint32, b *segment.Block,
) (positions []uint16, ok bool, err error) {
	if !r.UseSuperseded || p.newestFromNs == math.MinInt64 || b.HasTombs() {
		return nil, false, nil
	}
	info, known := seg.Index.Block(number), seg.SupersededOf(number)
	f.positions = f.positions[:0]
	if known != nil {
		f.positions = append(f.positions, known.Positions...)
	}
	few := f.addNewer(p, info, known)
	if few && len(f.newer) == 0 {
		r.keepHasNoNewer(p, seg, number, known)
		return f.positions, true, nil
	}
	if few {
		err = f.search(seg, info, b)
	} else {
		err = f.lookUpAll(p, seg, b)
	}
	if err != nil {
		return nil, false, err
	}
	found := known.Provisional(seg.File, r.UpperAcqNs, slices.Clone(f.positions))
	if found == nil {
		tick := seg.File.VerifyTick()
		if err := seg.VerifyBlock(number); err != nil {
			return nil, false, err
		}
		found = shards.NewSupersededRows(r.UpperAcqNs, slices.Clone(f.positions), tick)
	}
	seg.Segment.Superseded.Keep(number, seg.File, b.Rows(), found)
	return f.positions, true, nil
}

// addNewer collects the newer versions that may be of readings of a block, if they are known and
// few.
func (f *SupersededFinder) addNewer(
	p *Partition, info *index.BlockInfo, known *shards.SupersededRows,
) (few bool) {
	f.newer = f.newer[:0]
	fromNs := int64(math.MinInt64)
	if known != nil {
		fromNs = known.SearchedBelowNs()
	}
	if p.Newest.len() == 0 {
		return true
	}
	if fromNs < p.Newest.recentFromNs {
		return false
	}
	most := int(info.Rows) / rowsPerSearch
	p.Newest.eachRecent(info, fromNs, func(v *version) bool {
		f.newer = append(f.newer, *v)
		return len(f.newer) <= most
	})
	return len(f.newer) <= most
}

// search adds the rows of the readings of the newer versions that are older.
func (f *SupersededFinder) search(
	seg *blocks.PlannedSegment, info *index.BlockInfo, b *segment.Block,
) error {
	f.rows, f.matches = f.rows[:0], f.matches[:0]
	for n := range f.newer {
		v := &f.newer[n]
		lo := 0
		for i := range info.Subs {
			sub := &info.Subs[i]
			if hi := int(sub.End); sub.CapLo <= v.CapNs && v.CapNs <= sub.CapHi && lo < hi {
				first, end := b.SearchReading(lo, hi, v.key())
				for ; first < end; first++ {
					f.matches = append(f.matches, match{uint32(first), v.acqNs})
				}
			}
			lo = int(sub.End)
		}
	}
	slices.SortFunc(f.matches, func(a, b match) int { return cmp.Compare(a.row, b.row) })
	for _, m := range f.matches { // ascending, as GatherColumns wants them
		f.rows = append(f.rows, m.row)
	}
	f.keys.Reset()
	err := b.GatherColumns(f.rows, nil, 1<<record.Acq, &f.keys)
	if err == nil {
		err = seg.RanksToAcqs(f.keys.AcqNs)
	}
	if err != nil {
		return err
	}
	for i, m := range f.matches {
		if m.newestNs <= f.keys.AcqNs[i] {
			continue
		}
		at, known := slices.BinarySearch(f.positions, uint16(m.row))
		if !known {
			f.positions = slices.Insert(f.positions, at, uint16(m.row))
		}
	}
	return nil
}

// lookUpAll adds the rows that have a newer version in the table of the partition.
func (f *SupersededFinder) lookUpAll(
	p *Partition, seg *blocks.PlannedSegment, b *segment.Block,
) error {
	f.keys.Reset()
	err := b.GatherSpan(0, b.Rows(), true, &f.keys)
	if err == nil {
		err = seg.RanksToAcqs(f.keys.AcqNs)
	}
	if err != nil {
		return err
	}
	k := &f.keys
	found := len(f.positions)
	for i := p.Newest.nextCandidate(k, 0); i < k.Len(); i = p.Newest.nextCandidate(k, i+1) {
		if p.Newest.Supersedes(k.Key(i)) {
			f.positions = append(f.positions, uint16(i))
		}
	}
	if found < len(f.positions) {
		slices.Sort(f.positions)
		f.positions = slices.Compact(f.positions)
	}
	return nil
}
