package store

import (
	"fmt"
	"slices"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/record"
)

// scanHead gives the rows of a head to the sink; they come in batches of their own.
func (w *worker) scanHead(t *task) error {
	sc := w.scan
	if sc.countOnly && len(sc.tombstones) == 0 {
		n := uint64(t.head.Count(&t.partition.box, sc.horizon))
		w.rows += n
		w.headRows += n
		return nil
	}
	take := func(b *record.Batch, _ []uint64) error {
		if err := sc.ctx.Err(); err != nil {
			return err
		}
		sc.dropCovered(b)
		w.resolve(t.partition, b, 0)
		n := uint64(b.Len())
		if n == 0 {
			return nil
		}
		w.rows += n
		w.headRows += n
		return w.consumer.Rows(b)
	}
	return t.head.Scan(&t.partition.box, sc.horizon, w.keysOnly(), take)
}

// scanBlock adds the rows of a block that lie in the box to the batch.
func (w *worker) scanBlock(t *task, c index.Candidate) error {
	seg := t.segment
	if f := seg.lookupCached(c.Block); f != nil {
		return w.takeCached(t, f)
	}
	if w.isBatchable(seg, c) {
		w.single[0] = c
		return w.scanBatch(t, w.single[:])
	}
	if err := w.flushFull(); err != nil {
		return err
	}
	info, err := w.open(seg, c)
	if err != nil {
		return err
	}
	if c.Need == 0 && !w.scan.countOnly {
		return w.takeSpan(seg, t.partition, w.block, 0, w.block.Rows())
	}
	if w.scan.countOnly && c.Need&needTombstones == 0 {
		w.rows += uint64(w.count(seg, info, c.Need))
		return nil
	}
	w.sel = w.choose(seg, info, c.Need)
	if w.scan.countOnly {
		w.rows += uint64(len(w.sel))
		return nil
	}
	return w.takeChosen(seg, t.partition)
}

// flushFull hands the gathered rows to the sink when there are enough.
func (w *worker) flushFull() error {
	if w.batch.Len() < sinkRows {
		return nil
	}
	return w.flush()
}

// takeChosen adds the chosen rows of the open block to the batch, leaving out those that a newer
// version in the partition hides, if one is given.
func (w *worker) takeChosen(seg *segmentScan, p *partition) error {
	if len(w.sel) == 0 {
		return nil
	}
	if lo, hi := int(w.sel[0]), int(w.sel[len(w.sel)-1])+1; hi-lo == len(w.sel) {
		return w.takeSpan(seg, p, w.block, lo, hi) // ascending, so nothing is missing between
	}
	for rest := w.sel; len(rest) > 0; {
		n := len(rest)
		if !w.keysOnly() {
			n = w.block.Fit(rest, sinkBytes)
		}
		if err := w.take(seg, p, w.block, rest[:n], nil); err != nil {
			return err
		}
		if rest = rest[n:]; len(rest) > 0 || len(w.batch.Data) >= sinkBytes {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeSpan is takeChosen for the rows [lo, hi) of a block.
func (w *worker) takeSpan(seg *segmentScan, p *partition, b *segment.Block, lo, hi int) error {
	for lo < hi {
		end := min(hi, lo+spanRows)
		if !w.keysOnly() {
			end = b.FitSpan(lo, end, sinkBytes)
		}
		w.span[0] = segment.Span{Lo: uint32(lo), Hi: uint32(end)}
		if err := w.take(seg, p, b, nil, w.span[:]); err != nil {
			return err
		}
		if lo = end; lo < hi || len(w.batch.Data) >= sinkBytes {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// take adds rows of a block to the batch: those of sel, or with nil those of spans.
func (w *worker) take(
	seg *segmentScan, p *partition, b *segment.Block, sel []uint32, spans []segment.Span,
) error {
	start, parts := w.batch.Len(), w.columns
	if start == 0 && w.consumer.PayloadBuffer != nil {
		w.lent.begin(&w.batch, w.consumer.PayloadBuffer(w.nested))
	}
	if err := b.GatherColumns(sel, spans, parts, &w.batch); err != nil {
		return err
	}
	if parts>>record.Acq&1 != 0 {
		if err := seg.stampRows(w.batch.AcqNs[start:]); err != nil {
			return err
		}
	}
	if p != nil {
		w.resolve(p, &w.batch, start)
	}
	return nil
}

// open checks and parses a block.
func (w *worker) open(seg *segmentScan, c index.Candidate) (*index.BlockInfo, error) {
	return w.openAs(seg, c, &w.own)
}

// openAs is open in the memory of a block.
func (w *worker) openAs(
	seg *segmentScan, c index.Candidate, b *segment.Block,
) (*index.BlockInfo, error) {
	if err := w.step(); err != nil {
		return nil, err
	}
	w.block = b
	info, err := seg.OpenBlock(c.Block, b, w.copies || w.scan != nil && w.scan.verify)
	if err != nil {
		return nil, err
	}
	w.blocks++
	w.bytes += uint64(info.Size)
	w.examined += uint64(info.Rows)
	if c.Need == 0 {
		w.inside++
	}
	return info, nil
}

// stampRows turns the ranks that a block stores into acquisition times.
func (seg *segmentScan) stampRows(ranks []int64) error {
	rows := uint64(seg.Index.Rows())
	for _, rank := range ranks {
		if uint64(rank) >= rows {
			return corrupt(seg.File.Path(), 0, fmt.Sprintf("a block holds rank %d of %d rows", rank,
				rows))
		}
	}
	seg.Index.ReplaceByAcqs(ranks)
	return nil
}

// filterOrder is the order in which dimensions are tested: those that vary most in a block, and
// so drop most rows, first.
var filterOrder = [record.NumDims]record.Dim{
	record.MID, record.Cap, record.Acq, record.MOID, record.CID,
}

// choose returns the positions of the rows of the open block that lie in the box and are not
// hidden, in ascending order.
func (w *worker) choose(seg *segmentScan, info *index.BlockInfo, need uint8) []uint32 {
	sel := w.sel[:0]
	if need == 0 {
		return w.filterSpan(seg, 0, 0, w.block.Rows(), sel)
	}
	w.findDevices(info, need)
	lo := 0
	for i := range info.Subs {
		sub := &info.Subs[i]
		hi := int(sub.End)
		if untested, some := w.needOf(seg, sub, need); some && lo < hi {
			sel = w.filterSub(seg, untested, lo, hi, sel)
		}
		lo = hi
	}
	if need&needTombstones != 0 {
		return w.dropCovered(seg, info, sel)
	}
	return sel
}

// count returns how many rows choose would, where none can be hidden.
func (w *worker) count(seg *segmentScan, info *index.BlockInfo, need uint8) (rows int) {
	w.findDevices(info, need)
	lo := 0
	for i := range info.Subs {
		sub := &info.Subs[i]
		hi := int(sub.End)
		switch untested, some := w.needOf(seg, sub, need); {
		case !some || lo == hi:
		case untested == 0:
			rows += hi - lo
		case w.searched && untested == 1<<record.MID:
			for _, m := range w.devices {
				from, to := w.block.SearchMIDs(lo, hi, m)
				rows += max(0, to-from)
			}
		default:
			w.sel = w.filterSub(seg, untested, lo, hi, w.sel[:0])
			rows += len(w.sel)
		}
		lo = hi
	}
	return rows
}

// needOf returns which of the needed dimensions have to be tested on the rows of a sub-run: its own
// zones may lie inside the box, or outside.
func (w *worker) needOf(
	seg *segmentScan, sub *index.SubRun, need uint8,
) (untested uint8, some bool) {
	caps, rankLo, rankHi := w.box[record.Cap], int64(sub.RankLo), int64(sub.RankHi)
	if !caps.Meets(sub.CapLo, sub.CapHi) || !seg.ranks.Meets(rankLo, rankHi) {
		return 0, false
	}
	if caps.Covers(sub.CapLo, sub.CapHi) {
		need &^= 1 << record.Cap
	}
	if seg.ranks.Covers(rankLo, rankHi) {
		need &^= 1 << record.Acq
	}
	return need, true
}

// findDevices translates the devices of the box for the open block, where its sub-runs are sorted
// by device.
func (w *worker) findDevices(info *index.BlockInfo, need uint8) {
	w.devices = w.devices[:0]
	if w.searched = need>>record.MID&1 == 1 && sortedByDevice(info); w.searched {
		w.devices = w.devicesOf(w.block, info, w.devices)
	}
}

// sortedByDevice reports whether the sub-runs of a block are: when tenant and quantity are
// constant.
func sortedByDevice(info *index.BlockInfo) bool {
	return info.Min[record.CID] == info.Max[record.CID] &&
		info.Min[record.MOID] == info.Max[record.MOID]
}

// devicesOf appends the devices of the box as a block stores them.
func (w *worker) devicesOf(
	b *segment.Block, info *index.BlockInfo, dst []segment.MIDs,
) []segment.MIDs {
	for _, r := range w.box[record.MID] {
		if r.To > info.Min[record.MID] && r.From <= info.Max[record.MID] {
			dst = append(dst, b.FindMIDs(r.From, r.To, info.Max[record.MID]))
		}
	}
	return dst
}

// filterSub appends the positions of the matching rows of a sub-run.
func (w *worker) filterSub(
	seg *segmentScan, need uint8, lo, hi int, sel []uint32,
) []uint32 {
	if !w.searched {
		return w.filterSpan(seg, need, lo, hi, sel)
	}
	for _, m := range w.devices {
		if from, to := w.block.SearchMIDs(lo, hi, m); from < to {
			sel = w.filterSpan(seg, need&^(1<<record.MID), from, to, sel)
		}
	}
	return sel
}

// filterSpan tests the needed dimensions on the rows [lo, hi).
func (w *worker) filterSpan(seg *segmentScan, need uint8, lo, hi int, sel []uint32) []uint32 {
	start, first := len(sel), true
	for _, d := range filterOrder {
		if need>>d&1 == 0 {
			continue
		}
		set := w.box[d]
		if d == record.Acq {
			set = seg.ranks
		}
		if first {
			sel, first = w.block.FilterSpan(d, set, lo, hi, sel), false
		} else {
			sel = sel[:start+len(w.block.Filter(d, set, sel[start:]))]
		}
		if len(sel) == start {
			return sel
		}
	}
	if first {
		sel = slices.Grow(sel, hi-lo)[:start+hi-lo]
		for i, all := 0, sel[start:]; i < len(all); i++ {
			all[i] = uint32(lo + i)
		}
	}
	return sel
}
