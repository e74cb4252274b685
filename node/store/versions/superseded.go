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
	p.supersededBelowNs = math.MinInt64
	if !r.UseSuperseded || p.State.Backdated != nil {
		return math.MinInt64
	}
	changedNs := r.HistoryChangedAcqNs
	for _, t := range r.Tombstones {
		changedNs = max(changedNs, t.AcqNs)
	}
	fromNs := int64(math.MaxInt64)
	for _, seg := range p.Segments {
		for _, c := range seg.Plan.Candidates {
			known := seg.Segment.Superseded.Of(c.Block)
			if known != nil && known.SinceNs <= r.UpperAcqNs {
				if belowNs := known.BelowNs(); changedNs < belowNs {
					seg.Superseded = append(seg.Superseded, blocks.BlockSuperseded{Block: c.Block,
						SupersededRows: known})
					fromNs = min(fromNs, belowNs)
					p.supersededBelowNs = max(p.supersededBelowNs, belowNs)
					continue
				}
			}
			oldest := seg.Index.Block(c.Block).Min[record.Acq]
			fromNs = min(fromNs, seg.Index.AcqOf(uint32(oldest)))
		}
	}
	return fromNs
}

// HasNoNewer reports whether no row of a block can have a newer version, except those that known
// counts already.
func (p *Partition) HasNoNewer(info *index.BlockInfo, known *shards.SupersededRows) bool {
	if known == nil {
		return p.Newest.hasNone(info, math.MinInt64)
	}
	return p.Newest.hasNone(info, known.BelowNs())
}

// keepHasNoNewer keeps with the segment of a block, which is inside the box, that no row of it has
// a newer version that came since: the next scan looks only for those that come from now on.
func (r *Resolver) keepHasNoNewer(
	p *Partition, seg *blocks.PlannedSegment, number uint32, known *shards.SupersededRows,
) {
	switch {
	case !r.UseSuperseded || p.fromNs == math.MinInt64 || p.Flagged == 0:
	case known != nil:
		known.Raise(r.UpperAcqNs)
	default:
		seg.Segment.Superseded.Keep(number, seg.Index.Blocks(), int(seg.Index.Block(number).Rows),
			shards.NewSupersededRows(r.UpperAcqNs, nil))
	}
}

// mayHaveNewer reports whether a block may have versions from the acq on that matters.
func (p *Partition) mayHaveNewer(seg *blocks.PlannedSegment, info *index.BlockInfo) bool {
	return p.fromNs == math.MinInt64 ||
		seg.Index.AcqOf(uint32(info.Max[record.Acq])) >= p.fromNs
}

// SupersededFinder finds the superseded rows of whole blocks. One goroutine uses it; the zero value
// is ready.
type SupersededFinder struct {
	keys      record.Batch
	rows      []uint32 // of the block, which keys are of
	caps      record.RangeSet
	positions []uint16
}

// fewCaps is of how many newer versions at most the caps are looked for in a block, instead of
// comparing all keys.
const fewCaps = 8

// Find returns the positions of the rows of an open block, which lies inside the box, that have a
// newer version in the partition, ascending, valid until the next call. It is not ok where other
// rows may have to be removed too, or what is known is not used. What it finds is kept for other
// scans.
//
// Errors: *durable.CorruptError.
func (f *SupersededFinder) Find(
	r *Resolver, p *Partition, seg *blocks.PlannedSegment, number uint32, b *segment.Block,
) (positions []uint16, ok bool, err error) {
	if !r.UseSuperseded || p.fromNs == math.MinInt64 || b.HasTombs() {
		return nil, false, nil
	}
	known := seg.SupersededOf(number)
	f.positions = f.positions[:0]
	if known != nil {
		f.positions = append(f.positions, known.Positions...)
	}
	if p.HasNoNewer(seg.Index.Block(number), known) {
		r.keepHasNoNewer(p, seg, number, known)
		return f.positions, true, nil
	}
	info := seg.Index.Block(number)
	f.caps, ok = p.newerCaps(info, known, f.caps[:0])
	if err = f.add(p, seg, info, b, ok); err == nil {
		err = seg.VerifyBlock(number) // what came of its rows is kept, and not read again
	}
	if err != nil {
		return nil, false, err
	}
	seg.Segment.Superseded.Keep(number, seg.Index.Blocks(), b.Rows(),
		shards.NewSupersededRows(r.UpperAcqNs, slices.Clone(f.positions)))
	return f.positions, true, nil
}

// newerCaps appends the caps of the newer versions that may be of readings of a block, if they are
// known and few.
func (p *Partition) newerCaps(
	info *index.BlockInfo, known *shards.SupersededRows, dst record.RangeSet,
) (caps record.RangeSet, few bool) {
	fromNs := int64(math.MinInt64)
	if known != nil {
		fromNs = known.BelowNs()
	}
	if fromNs < p.Newest.latestNs {
		return dst, false
	}
	p.Newest.eachLatest(info, fromNs, func(v *version) bool {
		dst = append(dst, record.At(v.CapNs))
		return len(dst) <= fewCaps
	})
	slices.SortFunc(dst, func(a, b record.Range) int { return cmp.Compare(a.From, b.From) })
	return slices.Compact(dst), len(dst) <= fewCaps
}

// add adds the rows that have a newer version in the table of the partition: of all, or of those
// with the caps of the newer ones.
func (f *SupersededFinder) add(
	p *Partition, seg *blocks.PlannedSegment, info *index.BlockInfo, b *segment.Block, byCap bool,
) (err error) {
	f.keys.Reset()
	if byCap {
		f.rows = f.rowsWithCaps(info, b, f.rows[:0])
		err = b.Gather(f.rows, true, &f.keys)
	} else {
		err = b.GatherSpan(0, b.Rows(), true, &f.keys)
	}
	if err == nil {
		err = seg.RanksToAcqs(f.keys.AcqNs)
	}
	if err != nil {
		return err
	}
	k := &f.keys
	known := len(f.positions)
	for i := p.Newest.nextCandidate(k, 0); i < k.Len(); i = p.Newest.nextCandidate(k, i+1) {
		if !p.Newest.Supersedes(k.Key(i)) {
			continue
		}
		at := i
		if byCap {
			at = int(f.rows[i])
		}
		f.positions = append(f.positions, uint16(at))
	}
	if known > 0 && known < len(f.positions) {
		slices.Sort(f.positions)
		f.positions = slices.Compact(f.positions)
	}
	return nil
}

// rowsWithCaps appends the positions of the rows of a block that have one of the caps.
func (f *SupersededFinder) rowsWithCaps(
	info *index.BlockInfo, b *segment.Block, dst []uint32,
) []uint32 {
	lo := 0
	for i := range info.Subs {
		sub := &info.Subs[i]
		hi := int(sub.End)
		if f.caps.Intersects(sub.CapLo, sub.CapHi) {
			dst = b.FilterSpan(record.Cap, f.caps, lo, hi, dst)
		}
		lo = hi
	}
	return dst
}
