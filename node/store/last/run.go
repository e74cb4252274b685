package last

import (
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/blocks"
	"github.com/pentad-db/pentad/sdk/record"
)

// fewNeeds: with this many rows of a run for one series that needs it, searching for its rows is
// faster than reading the series of all.
const fewNeeds = 12

// runsOfNeed: going through this many runs of a block takes as long as searching for a series.
const runsOfNeed = 16

// The columns that tell the series of rows, and those that tell one row of a series from another.
const (
	seriesColumns = segment.Columns(1<<record.CID | 1<<record.MOID | 1<<record.MID)
	timeColumns   = segment.Columns(1<<record.Cap | 1<<record.Acq)
)

// span is the rows [from, to) of the open block: what is not read yet of one series, ascending
// by cap.
type span struct {
	number   uint32
	from, to int
}

// readRun takes in the rows of the series that need a run.
func (l *search) readRun(s *segmentState, info *index.BlockInfo, r *run) error {
	sub := &info.Subs[r.sub]
	lo, hi := 0, int(sub.End)
	if r.sub > 0 {
		lo = int(info.Subs[r.sub-1].End)
	}
	if lo == hi || !s.Ranks.Intersects(int64(sub.RankLo), int64(sub.RankHi)) ||
		!l.box[record.Cap].Intersects(sub.CapLo, sub.CapHi) ||
		!l.anyNeeds(r.needs, index.Bound{Min: sub.CapLo, Max: sub.CapHi}) {
		return nil
	}
	c := index.Candidate{Block: r.block, Residual: 1}
	if _, err := l.Open(&s.PlannedSegment, c); err != nil {
		return err
	}
	if err := l.findSpans(info, r.needs, lo, hi); err != nil {
		return err
	}
	return l.readTails(s, r.block)
}

// findSpans finds the rows of [lo, hi) of the open block that are of the series in needs; both
// ascend by series.
func (l *search) findSpans(info *index.BlockInfo, needs []need, lo, hi int) error {
	l.spans = l.spans[:0]
	isSorted := blocks.SortedByDevice(info)
	if isSorted {
		var ok bool
		most := len(needs) * runsOfNeed
		if l.devices, ok = l.Block.AppendDevices(lo, hi, most, l.devices[:0]); ok {
			l.meetDevices(needs)
			return nil
		}
	}
	if isSorted && len(needs)*fewNeeds <= hi-lo {
		for _, n := range needs {
			mid := l.state.series[n.number].MID
			from, to := l.Block.SearchMIDs(lo, hi,
				l.Block.FindMIDs(mid, mid+1, info.Max[record.MID]))
			if from < to {
				l.spans = append(l.spans, span{n.number, from, to})
			}
		}
		return nil
	}
	l.named.Reset()
	l.tails = append(l.tails[:0], segment.Span{Lo: uint32(lo), Hi: uint32(hi)})
	if err := l.Block.GatherColumns(nil, l.tails, seriesColumns, &l.named); err != nil {
		return err
	}
	for from := 0; from < l.named.Len() && len(needs) > 0; {
		of := seriesAt(&l.named, from)
		to := from + 1
		for to < l.named.Len() && seriesAt(&l.named, to) == of {
			to++
		}
		for len(needs) > 0 && l.state.series[needs[0].number].Compare(of) < 0 {
			needs = needs[1:]
		}
		if len(needs) > 0 && l.state.series[needs[0].number].Series == of {
			l.spans = append(l.spans, span{needs[0].number, lo + from, lo + to})
		}
		from = to
	}
	return nil
}

// meetDevices finds the spans of devices that are those of the series in needs; both ascend, and
// are of one tenant and quantity.
func (l *search) meetDevices(needs []need) {
	for _, of := range l.devices {
		for len(needs) > 0 && l.state.series[needs[0].number].MID < of.MID {
			needs = needs[1:]
		}
		if len(needs) == 0 {
			return
		}
		if l.state.series[needs[0].number].MID == of.MID {
			l.spans = append(l.spans, span{needs[0].number, int(of.Lo), int(of.Hi)})
		}
	}
}

// readTails takes in the newest rows of all spans, and more of those that need more.
func (l *search) readTails(s *segmentState, block uint32) error {
	for most := l.state.n + 1; len(l.spans) > 0; most *= 2 {
		l.tails = l.tails[:0]
		for _, sp := range l.spans {
			l.tails = append(l.tails,
				segment.Span{Lo: uint32(max(sp.from, sp.to-most)), Hi: uint32(sp.to)})
		}
		l.found.Reset()
		if err := l.Block.GatherColumns(nil, l.tails, timeColumns, &l.found); err != nil {
			return err
		}
		if err := s.RanksToAcqs(l.found.AcqNs); err != nil {
			return err
		}
		more, end := l.spans[:0], 0
		for i, sp := range l.spans {
			sp.to = int(l.tails[i].Lo)
			rows := int(l.tails[i].Hi) - sp.to
			end += rows
			needsMore, err := l.takeTail(s, block, &sp, end-rows, end)
			if err != nil {
				return err
			}
			if needsMore && sp.from < sp.to {
				more = append(more, sp)
			}
		}
		l.spans = more
	}
	return nil
}

// takeTail takes in the rows [from, to) of what was found, which follow a span of the open block.
// It reports whether older ones may be needed, too.
func (l *search) takeTail(
	s *segmentState, block uint32, sp *span, from, to int,
) (needsMore bool, err error) {
	series := &l.state.series[sp.number]
	k := record.Key{CID: series.CID, MID: series.MID, MOID: series.MOID}
	for i := to - 1; i >= from; i-- {
		k.CapNs, k.AcqNs = l.found.CapNs[i], l.found.AcqNs[i]
		if k.CapNs < series.floorNs {
			return false, nil
		}
		if !l.box[record.Cap].Contains(k.CapNs) || !l.box[record.Acq].Contains(k.AcqNs) {
			continue
		}
		row := sp.to + i - from
		at := rowAt{source: s.source, part: block, row: uint32(row)}
		if err := l.take(sp.number, k, at, l.Block.Flag(row), l.found.Tomb(i)); err != nil {
			return false, err
		}
	}
	return true, nil
}
