// Package diff compares the readings of a box as of two acqs: how one as-of view differs from an
// earlier one.
//
// It owns the pairs of versions, one for each acq, as many as fit in memory, and how they are
// looked up. It reads what an [versions.Access] pins, divides the box as package versions does, and
// knows nothing of the store or of who takes the differences. Its main function is [Run]. It starts
// no goroutines.
package diff

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/blocks"
	"github.com/pentad-db/pentad/node/store/bounds"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/scan"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/node/store/tombstone"
	"github.com/pentad-db/pentad/node/store/versions"
	"github.com/pentad-db/pentad/sdk/record"
)

// payloadBytes is how many payload bytes a diff keeps for each reading that it has space for,
// before it divides the box further.
const payloadBytes = 256

// Sink takes differences of one kind, valid during the call. An error ends the diff.
type Sink func(d *record.Differences) error

// comparison is one running diff. Its scan is of the rows that came between the two acqs,
// without those that are hidden at the second.
//
// What can differ is a reading with such a row, or with an older one that an erase between the
// acqs hides. A row without the flag that it may supersede another is the first of its reading,
// so it was added and is handed out as it is met. All others are gathered in a table, as many as
// fit, and every version of them is looked up.
type comparison struct {
	*versions.Resolver
	stats  scan.Stats
	fromNs int64
	acq    [1]record.Range // of the box
	reader blocks.Gatherer // opens blocks concurrently with VersionLookup
	sink   Sink

	before []*tombstone.Range // hide rows at the first acq
	erases []*tombstone.Range // between the acqs, oldest first
	// Trees of what hides rows at the first acq, at the second, and of the erases between.
	atFrom, atTo, between *tombstone.Tree

	table table
	out   [record.DiffDeleted + 1]record.Differences
	count uint64
	look  lookup
}

// Run gives to sink what became of the readings of a box between two acqs, up to a horizon:
// how the view as of ToNs differs from that as of FromNs. ask is normalized.
//
// Errors: *durable.CorruptError, ctx.Err(), and what sink returns.
// Cost: at most from.MaxReadings readings in memory, with some of their payloads.
func Run(
	ctx context.Context, from *versions.Access, horizon int64, ask *record.Diff, sink Sink,
) (scan.Stats, error) {
	d := &comparison{Resolver: versions.New(ctx, from), fromNs: ask.FromNs, sink: sink}
	defer d.GiveBack()
	d.View, d.Horizon, d.UpperAcqNs = record.ViewAsOf, horizon, min(horizon, ask.ToNs)
	d.acq[0] = record.Range{From: math.MinInt64, To: d.UpperAcqNs}
	d.Box = ask.Box
	d.Box[record.Acq] = d.acq[:]
	d.reader.Ctx, d.reader.Consumer.Rows, d.OpenBlocks.Once = ctx, d.takeNew, true
	d.reader.Columns = segment.AllColumns
	for kind := range d.out {
		d.out[kind].Kind = record.DiffKind(kind)
	}
	var err error
	if d.fromNs < d.UpperAcqNs {
		err = d.run()
	}
	d.stats.HorizonNs, d.stats.HistoryChangedAcqNs = horizon, d.HistoryChangedAcqNs
	d.stats.Rows, d.stats.Workers = d.count, 1
	return d.stats, err
}

func (d *comparison) run() error {
	defer d.UnpinStates()
	err := segment.CatchPageFaults(func() error {
		d.PinStates()
		d.begin()
		for len(d.Waiting) > 0 {
			last := len(d.Waiting) - 1
			p := d.Waiting[last]
			d.Waiting = d.Waiting[:last]
			if err := d.comparePartition(p); err != nil {
				return err
			}
		}
		return d.flush()
	}, d.Files)
	d.reader.Counts.Rows, d.VersionLookup.Counts.Rows = 0, 0
	d.stats.Add(&d.reader.Counts)
	d.stats.Add(&d.VersionLookup.Counts)
	return err
}

// begin sorts the events, whose choice looked at all rows below the second acq, and narrows the
// box to the rows from the first acq on.
func (d *comparison) begin() {
	for _, t := range d.Tombstones {
		if t.Kind == event.Erase && t.AcqNs >= d.fromNs {
			d.erases = append(d.erases, t)
		} else {
			d.before = append(d.before, t)
		}
	}
	d.atFrom, d.atTo = tombstone.NewTree(d.before), tombstone.NewTree(d.Tombstones)
	d.between = tombstone.NewTree(d.erases)
	d.acq[0].From = d.fromNs // of the box
	for _, state := range d.States {
		p := versions.NewPartition(state)
		p.Box = d.Box
		d.Waiting = append(d.Waiting, p)
	}
}

// comparePartition compares the readings of a partition, or divides it.
func (d *comparison) comparePartition(p *versions.Partition) error {
	if err := d.Ctx.Err(); err != nil {
		p.GiveBack()
		return err
	}
	limit := d.Access.MaxReadings
	if !p.Planned {
		d.PlanPartition(p)
		d.stats.Segments += len(p.Segments)
	}
	if p.Flagged > limit && d.DivideByZones(p) {
		return nil
	}
	err := d.FindNewest(p, limit)
	if err == nil {
		err = d.findErased(p, limit)
	}
	if err == nil {
		d.table.fill(p.Newest, payloadBytes*limit)
		err = d.findVersions(p)
	}
	if errors.Is(err, versions.ErrFull) {
		d.DivideByReadings(p)
		return nil
	}
	if err == nil {
		err = d.compare()
	}
	if err == nil {
		err = d.giveNew(p)
	}
	p.GiveBack()
	return err
}

// findErased adds to the table the readings of which an erase between the acqs hides a row that
// was to be seen at the first.
func (d *comparison) findErased(p *versions.Partition, limit int) error {
	if p.Newest == nil {
		p.Newest = versions.NewTable(limit)
	}
	for _, h := range d.erases {
		box, ok := intersection(&p.Box, &h.Box)
		if !ok {
			continue
		}
		if err := d.eachErased(p, &box); err != nil {
			return err
		}
	}
	return d.findOlderBelow(p)
}

// findOlderBelow adds to the table the readings with rows from before the first acq that came
// below the horizon: of those a row without a flag need not be the first.
func (d *comparison) findOlderBelow(p *versions.Partition) error {
	if p.State.Backdated == nil {
		return nil
	}
	box := p.Box
	box[record.Acq] = below(d.fromNs)
	return d.eachErased(&versions.Partition{State: p.State.Backdated, Newest: p.Newest}, &box)
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

// common returns the values that two normalized sets share; ok is false when there are none.
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

// eachErased adds the readings of the rows in a box that were to be seen at the first acq.
func (d *comparison) eachErased(p *versions.Partition, box *record.Box) error {
	var err error
	if box[record.Acq] = bounds.Clip(box[record.Acq], d.fromNs); len(box[record.Acq]) == 0 {
		return nil
	}
	p.EachHead(func(h *index.Head) {
		if err != nil || h.Rows() == 0 {
			return
		}
		err = h.Scan(box, d.fromNs, true, func(b *record.Batch, _ []uint64) error {
			return d.addErased(p, b)
		})
	})
	for _, sealed := range slices.Backward(p.State.Sealed) {
		if _, ok := shards.PrunedBy(sealed, box); ok || err != nil {
			continue
		}
		seg := blocks.Plan(sealed, box, d.before)
		for c := range d.Access.Readahead.Each(sealed, seg.Plan.Candidates) {
			if err = d.eachErasedOf(p, seg, c, box); err != nil {
				break
			}
		}
		seg.Free()
	}
	d.VersionLookup.Box = nil
	return err
}

// eachErasedOf is eachErased for one block.
func (d *comparison) eachErasedOf(
	p *versions.Partition, seg *blocks.PlannedSegment, c index.Candidate, box *record.Box,
) error {
	g := &d.VersionLookup
	g.Box = box
	if err := g.Keys(seg, c, &g.Batch); err != nil {
		return err
	}
	return d.addErased(p, &g.Batch)
}

func (d *comparison) addErased(p *versions.Partition, b *record.Batch) error {
	for i := range b.Len() {
		if d.atFrom.Oldest(b.Key(i)) != nil {
			continue
		}
		if err := p.Newest.Add(b, i); err != nil {
			return err
		}
	}
	return d.Ctx.Err()
}

// compare hands out how the readings of the table differ.
func (d *comparison) compare() error {
	t := &d.table
	for i := range t.pairs {
		pair := &t.pairs[i]
		was, is := pair.old.shown(), pair.new.shown()
		if !was && !is || was && is &&
			bytes.Equal(t.payload(&pair.old), t.payload(&pair.new)) {
			continue
		}
		key := record.Key{CID: pair.CID, MID: pair.MID, MOID: pair.MOID, CapNs: pair.CapNs,
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

// giveNew hands out the rows that came between the acqs and are the first of their readings,
// except those in the table.
func (d *comparison) giveNew(p *versions.Partition) error {
	var err error
	p.EachHead(func(h *index.Head) {
		if err != nil || h.Rows() == 0 {
			return
		}
		err = h.Scan(&p.Box, d.UpperAcqNs, false, func(b *record.Batch, _ []uint64) error {
			d.reader.Counts.HeadRows += uint64(b.Len())
			return d.takeNew(b)
		})
	})
	g := &d.reader
	for _, seg := range p.Segments {
		for c := range d.Access.Readahead.Each(seg.Segment, seg.Plan.Candidates) {
			info := seg.Index.Block(c.Block)
			if err != nil || info.Flagged == info.Rows {
				continue
			}
			g.Box = &p.Box
			if info, err = g.Open(seg, c); err != nil {
				continue
			}
			g.Chosen = g.Choose(seg, info, c.Residual)
			if err = g.TakeChosen(seg); err == nil && g.Batch.Len() >= blocks.BatchRows {
				err = g.Flush()
			}
		}
	}
	if err == nil {
		err = g.Flush()
	}
	return err
}

// takeNew takes rows that came between the acqs.
func (d *comparison) takeNew(b *record.Batch) error {
	if err := d.Ctx.Err(); err != nil {
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

func (d *comparison) flushFull(out *record.Differences) error {
	if out.Len() < blocks.BatchRows && len(out.Old.Data)+len(out.New.Data) < flushBytes {
		return nil
	}
	return d.flushOne(out)
}

func (d *comparison) flushOne(out *record.Differences) error {
	n := out.Len()
	if n == 0 {
		return nil
	}
	d.count += uint64(n)
	err := d.sink(out)
	out.Reset()
	return err
}

func (d *comparison) flush() error {
	for i := range d.out {
		if err := d.flushOne(&d.out[i]); err != nil {
			return err
		}
	}
	return nil
}

// below is the range of acqs below one.
func below(ns int64) record.RangeSet { return record.RangeSet{{From: math.MinInt64, To: ns}} }
