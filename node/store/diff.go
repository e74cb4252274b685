package store

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/blocks"
	"github.com/pentad-db/pentad/node/store/bounds"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/node/store/tombstone"
	"github.com/pentad-db/pentad/sdk/record"
)

// diffBytes is how many payload bytes a diff keeps for each reading that it has room for, before it
// cuts the box further.
const diffBytes = 256

// DiffSink takes differences of one kind, valid during the call. An error ends the diff.
type DiffSink func(d *record.Differences) error

// diff is one running diff. Its scan is of the rows that came between the two moments, without
// those that are hidden at the second.
//
// What can differ is a reading with such a row, or with an older one that an erase between the
// moments hides. A row without the flag that it may supersede another is the first of its reading,
// so it was added and is handed out as it is met. All others are gathered in a table, as many as
// fit, and every version of them is looked up.
type diff struct {
	*scan
	fromNs int64
	reader blocks.Gatherer // opens blocks beside the finder
	sink   DiffSink

	before []*tombstone.Range // hide rows at the first moment
	erases []*tombstone.Range // between the moments, oldest first
	// Trees of what hides rows at the first moment, at the second, and of the erases between.
	atFrom, atTo, between *tombstone.Tree

	table diffTable
	out   [record.DiffDeleted + 1]record.Differences
	count uint64
	look  lookup
}

// Diff gives to sink what became of the readings of a box between two moments: how the view as of
// ToNs differs from that as of FromNs. A reading that was put again with the payload that it had
// is no difference. What is purged was never there, at either moment. Differences come in no order.
//
// Errors: *record.InvalidError, ErrClosed, *segment.CorruptError, ctx.Err(), and what sink returns.
// Cost: that of the rows that were acquired between the moments or erased between them, and of
// finding the older versions of those that have some; at most versionRoom readings in memory.
func (s *Store) Diff(ctx context.Context, ask *record.Diff, sink DiffSink) (ScanStats, error) {
	s.scanning.RLock()
	defer s.scanning.RUnlock()
	began := time.Now()
	checked := *ask
	if err := checked.Normalize(); err != nil {
		return ScanStats{}, err
	}
	sc, err := s.newScan(ctx, &record.Query{Box: checked.Box, View: record.ViewAsOf,
		AsOfAcqNs: checked.ToNs})
	if err != nil {
		return ScanStats{}, err
	}
	defer sc.giveBack()
	d := &diff{scan: sc, fromNs: checked.FromNs, sink: sink}
	d.reader.Ctx, d.reader.Consumer.Rows, d.cache.Once = ctx, d.takeNew, true
	d.reader.Columns = segment.AllColumns
	for kind := range d.out {
		d.out[kind].Kind = record.DiffKind(kind)
	}
	if d.fromNs < sc.end {
		err = d.run()
	}
	sc.stats.Rows, sc.stats.Workers = d.count, 1
	sc.stats.TookNs = int64(time.Since(began))
	s.counters.scans.Add(1)
	s.counters.blocksScanned.Add(int64(sc.stats.BlocksScanned))
	return sc.stats, s.noteDamage(err)
}

func (d *diff) run() error {
	defer d.release()
	err := segment.Guard(func() error {
		d.acquire()
		d.begin()
		for len(d.waiting) > 0 {
			last := len(d.waiting) - 1
			p := d.waiting[last]
			d.waiting = d.waiting[:last]
			if err := d.piece(p); err != nil {
				return err
			}
		}
		return d.flush()
	}, d.mappings)
	d.reader.Rows, d.finder.Rows = 0, 0
	d.stats.add(&d.reader.Counts)
	d.stats.add(&d.finder.Counts)
	return err
}

// begin sorts the events, whose choice looked at all rows below the second moment, and narrows the
// box to the rows from the first moment on.
func (d *diff) begin() {
	for _, h := range d.tombstones {
		if h.Kind == event.Erase && h.AcqNs >= d.fromNs {
			d.erases = append(d.erases, h)
		} else {
			d.before = append(d.before, h)
		}
	}
	d.atFrom, d.atTo = tombstone.NewTree(d.before), tombstone.NewTree(d.tombstones)
	d.between = tombstone.NewTree(d.erases)
	d.acq[0].From = d.fromNs // of the box
	for _, now := range d.states {
		p := newPartition(now)
		p.box = d.box
		d.waiting = append(d.waiting, p)
	}
}

// piece compares the readings of a partition, or cuts it.
func (d *diff) piece(p *partition) error {
	if err := d.ctx.Err(); err != nil {
		p.release()
		return err
	}
	room := d.store.opt.versionRoom
	if !p.planned {
		d.planPartition(p)
		d.stats.Segments += len(p.segments)
	}
	if p.flagged > room && d.cutByZones(p) {
		return nil
	}
	err := d.findNewest(p, room)
	if err == nil {
		err = d.findErased(p, room)
	}
	if err == nil {
		d.table.fill(p.newest, diffBytes*room)
		err = d.findVersions(p)
	}
	if errors.Is(err, errFull) {
		d.cutByReadings(p)
		return nil
	}
	if err == nil {
		err = d.compare()
	}
	if err == nil {
		err = d.giveNew(p)
	}
	p.release()
	return err
}

// findErased adds to the table the readings of which an erase between the moments hides a row that
// was to be seen at the first.
func (d *diff) findErased(p *partition, room int) error {
	if p.newest == nil {
		p.newest = newNewestTable(room)
	}
	for _, h := range d.erases {
		box, ok := intersection(&p.box, &h.Box)
		if !ok {
			continue
		}
		if err := d.eachErased(p, &box); err != nil {
			return err
		}
	}
	return d.findOlderBelow(p)
}

// findOlderBelow adds to the table the readings with rows from before the first moment that came
// below the horizon: of those a row without a flag need not be the first.
func (d *diff) findOlderBelow(p *partition) error {
	if p.state.Backdated == nil {
		return nil
	}
	box := p.box
	box[record.Acq] = below(d.fromNs)
	return d.eachErased(&partition{state: p.state.Backdated, newest: p.newest}, &box)
}

// intersection returns what of a partition's devices, quantities and caps an event concerns.
func intersection(piece, event *record.Box) (box record.Box, ok bool) {
	for d := range record.NumDims {
		set := piece[d]
		if d == int(record.Acq) {
			set = nil // an event hides what is older
		}
		if box[d], ok = common(set, event[d]); !ok {
			return box, false
		}
	}
	return box, true
}

// common returns the values that two normalised sets share; ok is false when there are none.
func common(a, b record.RangeSet) (set record.RangeSet, ok bool) {
	if len(a) == 0 || len(b) == 0 {
		return append(a[:len(a):len(a)], b...), true
	}
	for len(a) > 0 && len(b) > 0 {
		r := record.Range{From: max(a[0].From, b[0].From), To: min(a[0].To, b[0].To)}
		if r.From < r.To {
			set = append(set, r)
		}
		if a[0].To < b[0].To {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return set, len(set) > 0
}

// eachErased adds the readings of the rows in a box that were to be seen at the first moment.
func (d *diff) eachErased(p *partition, box *record.Box) error {
	var err error
	if box[record.Acq] = bounds.Clip(box[record.Acq], d.fromNs); len(box[record.Acq]) == 0 {
		return nil
	}
	p.eachHead(func(h *index.Head) {
		if err != nil || h.Rows() == 0 {
			return
		}
		err = h.Scan(box, d.fromNs, true, func(b *record.Batch, _ []uint64) error {
			return d.addErased(p, b)
		})
	})
	for _, sealed := range slices.Backward(p.state.Sealed) {
		if _, ok := shards.Missed(sealed, box); ok || err != nil {
			continue
		}
		seg := blocks.Plan(sealed, box, d.before)
		for c := range d.store.ahead.Each(sealed, seg.Plan.Candidates) {
			if err = d.eachErasedOf(p, seg, c, box); err != nil {
				break
			}
		}
		seg.Free()
	}
	d.finder.Box = nil
	return err
}

// eachErasedOf is eachErased for one block.
func (d *diff) eachErasedOf(
	p *partition, seg *blocks.Planned, c index.Candidate, box *record.Box,
) error {
	w := &d.finder
	w.Box = box
	if err := w.Keys(seg, c, &w.Batch); err != nil {
		return err
	}
	return d.addErased(p, &w.Batch)
}

func (d *diff) addErased(p *partition, b *record.Batch) error {
	for i := range b.Len() {
		if d.atFrom.Oldest(b.Key(i)) != nil {
			continue
		}
		if err := p.newest.add(b, i); err != nil {
			return err
		}
	}
	return d.ctx.Err()
}

// compare hands out how the readings of the table differ.
func (d *diff) compare() error {
	t := &d.table
	for i := range t.pairs {
		pair := &t.pairs[i]
		was, is := pair.old.shown(), pair.new.shown()
		if !was && !is || was && is &&
			bytes.Equal(t.payload(&pair.old), t.payload(&pair.new)) {
			continue
		}
		key := record.Key{CID: pair.cid, MID: pair.mid, MOID: pair.moid, CapNs: pair.cap,
			AcqNs: pair.new.acqNs}
		kind := record.DiffChanged
		switch {
		case !was:
			kind = record.DiffAdded
		case !is:
			kind = record.DiffDeleted
		}
		out := &d.out[kind]
		if was {
			old := key
			old.AcqNs = pair.old.acqNs
			out.Old.AppendStamped(old, t.payload(&pair.old))
			if !pair.new.known {
				key.AcqNs = d.between.Oldest(old).AcqNs
			}
		}
		if is {
			out.New.AppendStamped(key, t.payload(&pair.new))
		} else {
			out.New.AppendStampedTomb(key)
		}
		if err := d.flushFull(out); err != nil {
			return err
		}
	}
	return nil
}

// giveNew hands out the rows that came between the moments and are the first of their readings,
// except those in the table.
func (d *diff) giveNew(p *partition) error {
	var err error
	p.eachHead(func(h *index.Head) {
		if err != nil || h.Rows() == 0 {
			return
		}
		err = h.Scan(&p.box, d.end, false, func(b *record.Batch, _ []uint64) error {
			d.reader.HeadRows += uint64(b.Len())
			return d.takeNew(b)
		})
	})
	w := &d.reader
	for _, seg := range p.segments {
		for c := range d.store.ahead.Each(seg.Segment, seg.Plan.Candidates) {
			info := seg.Index.Block(c.Block)
			if err != nil || info.Flagged == info.Rows {
				continue
			}
			w.Box = &p.box
			if info, err = w.Open(seg, c); err != nil {
				continue
			}
			w.Chosen = w.Choose(seg, info, c.Need)
			if err = w.TakeChosen(seg); err == nil && w.Batch.Len() >= blocks.BatchRows {
				err = w.Flush()
			}
		}
	}
	if err == nil {
		err = w.Flush()
	}
	return err
}

// takeNew takes rows that came between the moments.
func (d *diff) takeNew(b *record.Batch) error {
	if err := d.ctx.Err(); err != nil {
		return err
	}
	out := &d.out[record.DiffAdded]
	for i := range b.Len() {
		if b.Tomb(i) || d.table.find(b, i) != nil || d.atTo.Oldest(b.Key(i)) != nil {
			continue
		}
		out.New.AppendRow(b, i)
		if err := d.flushFull(out); err != nil {
			return err
		}
	}
	return nil
}

// flushBytes is how many payload bytes make a sink be called early: with two payloads of the
// largest size more they still fit a frame.
const flushBytes = 4 << 20

func (d *diff) flushFull(out *record.Differences) error {
	if out.Len() < blocks.BatchRows && len(out.Old.Data)+len(out.New.Data) < flushBytes {
		return nil
	}
	return d.flushOne(out)
}

func (d *diff) flushOne(out *record.Differences) error {
	n := out.Len()
	if n == 0 {
		return nil
	}
	d.count += uint64(n)
	err := d.sink(out)
	out.Reset()
	return err
}

func (d *diff) flush() error {
	for i := range d.out {
		if err := d.flushOne(&d.out[i]); err != nil {
			return err
		}
	}
	return nil
}

// below is the range of acq that ends at a moment.
func below(ns int64) record.RangeSet { return record.RangeSet{{From: math.MinInt64, To: ns}} }
