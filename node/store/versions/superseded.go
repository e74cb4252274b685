package versions

import (
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
	p.knownToNs = math.MinInt64
	if !r.UseKnown || p.State.Backdated != nil {
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
			if known != nil && changedNs < known.BelowNs && known.BelowNs <= r.UpperAcqNs {
				seg.Superseded = append(seg.Superseded, blocks.BlockSuperseded{Block: c.Block,
					SupersededRows: known})
				fromNs = min(fromNs, known.BelowNs)
				p.knownToNs = max(p.knownToNs, known.BelowNs)
				continue
			}
			oldest := seg.Index.Block(c.Block).Min[record.Acq]
			fromNs = min(fromNs, seg.Index.AcqOf(uint32(oldest)))
		}
	}
	return fromNs
}

// Misses reports whether no row of a block can have a newer version beyond what is known.
func (p *Partition) Misses(info *index.BlockInfo, known *shards.SupersededRows) bool {
	if known == nil {
		return p.Newest.misses(info, math.MinInt64)
	}
	return p.Newest.misses(info, known.BelowNs)
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
	positions []uint16
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
	if !r.UseKnown || p.fromNs == math.MinInt64 || b.HasTombs() {
		return nil, false, nil
	}
	known := seg.SupersededOf(number)
	f.positions = f.positions[:0]
	if known != nil {
		f.positions = append(f.positions, known.Positions...)
	}
	if !p.Misses(seg.Index.Block(number), known) {
		err := f.add(p, seg, b)
		if err == nil {
			err = seg.VerifyBlock(number) // what came of its rows is kept, and not read again
		}
		if err != nil {
			return nil, false, err
		}
	}
	if p.Superseding > 0 { // else nothing was looked for that another scan would have to
		seg.Segment.Superseded.Keep(number, seg.Index.Blocks(), b.Rows(),
			&shards.SupersededRows{BelowNs: r.UpperAcqNs, Positions: slices.Clone(f.positions)})
	}
	return f.positions, true, nil
}

// add adds the rows that have a newer version in the table of the partition.
func (f *SupersededFinder) add(p *Partition, seg *blocks.PlannedSegment, b *segment.Block) error {
	f.keys.Reset()
	if err := b.GatherSpan(0, b.Rows(), true, &f.keys); err != nil {
		return err
	}
	if err := seg.RanksToAcqs(f.keys.AcqNs); err != nil {
		return err
	}
	k := &f.keys
	known := len(f.positions)
	for i := p.Newest.nextCandidate(k, 0); i < k.Len(); i = p.Newest.nextCandidate(k, i+1) {
		if p.Newest.Supersedes(k.Key(i)) {
			f.positions = append(f.positions, uint16(i))
		}
	}
	if known > 0 && known < len(f.positions) {
		slices.Sort(f.positions)
		f.positions = slices.Compact(f.positions)
	}
	return nil
}
