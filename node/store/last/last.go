// Package last finds the newest readings of every series in a box: what a query for the last n asks
// for.
//
// It owns the order in which heads and blocks are looked at, so that few are, and the readings that
// were found so far. It reads the heads of a read state, its segments through package blocks, asks
// package versions which rows are hidden, and knows nothing of the store or of the other workers of
// a scan. Its main function is [Scan]. It starts no goroutines.
package last

import (
	"errors"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/blocks"
	"github.com/pentad-db/pentad/node/store/bounds"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/node/store/versions"
	"github.com/pentad-db/pentad/sdk/record"
)

// search finds the newest readings of every series in a box of one shard.
//
// Heads come first, from the newest row back, then the runs of all segments by descending greatest
// cap. A chunk or run is passed over when no series that can be in it has space for its caps. That
// is final unless a reading that took the space turns out to have a newer version that is not
// shown; a series to which that happens is looked at once more, with the versions that hide others
// found before.
type search struct {
	*blocks.Gatherer
	resolver    *versions.Resolver
	readState   *shards.State
	box         record.Box
	state       state
	newer       *versions.Table // with lost series: every version that hides another
	segments    []*segmentState
	spare       []*segmentState // memory of earlier ones
	heads       []*index.Head   // newest first
	cell        index.HeadCell
	chunks      []index.HeadChunk // of the cell
	inHead      []index.HeadRow
	needsOfCell []need // the series of the cell
	arena       []need // of runs
	spans       []span // of the open block
	devices     []segment.DeviceSpan
	tails       []segment.Span
	named       record.Batch // rows of which only the series is read
	found       record.Batch
	positions   []uint64     // of rows of a head that are handed out
	keys        []record.Key // of such rows of a block
}

var searches = sync.Pool{New: func() any { return new(search) }}

// Scan gives the newest n readings of each series in a box of one shard to the consumer of a
// gatherer. What else is asked, the resolver knows. It is not changed: many may use one.
//
// Errors: *durable.CorruptError, ctx.Err(), and those of the consumer.
// Cost: the rows of at most MaxReadings readings of the resolver in memory; a box that has more is
// cut.
func Scan(
	g *blocks.Gatherer, resolver *versions.Resolver, n int, state *shards.State, box record.Box,
) error {
	l := searches.Get().(*search)
	l.Gatherer, l.resolver, l.readState, l.box = g, resolver, state, box
	l.state.reset(n, resolver.Access.MaxReadings)
	g.Box = &l.box
	err := l.find()
	if err == nil && len(l.state.lost) > 0 {
		err = l.findLost()
	}
	if err == nil {
		err = l.emit()
	}
	at, d := int64(0), record.Dim(0)
	halve := errors.Is(err, versions.ErrFull)
	if halve {
		at, d = l.state.middle()
	} else {
		g.Counts.SupersededRows += l.state.overtaken
	}
	l.giveBack()
	if !halve {
		return err
	}
	below, from := bounds.Cut(&box, d, at)
	if err := Scan(g, resolver, n, state, below); err != nil {
		return err
	}
	return Scan(g, resolver, n, state, from)
}

// giveBack returns the memory to a pool.
func (l *search) giveBack() {
	l.forgetSegments()
	clear(l.heads)
	l.Gatherer, l.resolver, l.readState, l.newer, l.box = nil, nil, nil, nil, record.Box{}
	searches.Put(l)
}

// findLost looks once more at the series that lost a reading.
func (l *search) findLost() error {
	lost := l.box
	lost[record.MID] = l.state.forgetLost()
	r := new(versions.Resolver)
	r.Reuse(l.resolver.Ctx, &l.resolver.Access)
	r.Box, r.NewestAcqs, r.View = lost, l.resolver.NewestAcqs, l.resolver.View
	r.Horizon, r.Tombstones = l.resolver.Horizon, l.resolver.Tombstones
	r.OpenBlocks.Once = true
	r.Waiting = append(r.Waiting, &versions.Partition{State: l.readState, Box: lost})
	defer r.UnpinStates()
	whole := l.box
	for {
		more, err := r.NextPass()
		if err != nil || !more {
			l.box, l.newer = whole, nil
			l.Counts.Blocks += r.VersionLookup.Counts.Blocks
			l.Counts.Bytes += r.VersionLookup.Counts.Bytes
			l.Counts.Examined += r.VersionLookup.Counts.Examined
			return err
		}
		for _, p := range r.Pass {
			l.box, l.newer = p.Box, p.Newest
			if err := l.find(); err != nil {
				l.box = whole
				return err
			}
		}
	}
}

func (l *search) find() error {
	l.forgetSegments()
	l.heads, l.arena = l.heads[:0], l.arena[:0]
	l.readState.EachHead(func(h *index.Head) { l.heads = append(l.heads, h) })
	for i, h := range l.heads {
		if err := l.head(uint32(i), h); err != nil {
			return err
		}
	}
	return l.findSealed()
}

// head takes in what of a head can be among the newest.
func (l *search) head(source uint32, h *index.Head) error {
	if h.Rows() == 0 {
		return nil
	}
	for _, id := range h.Cells(&l.box) {
		if err := l.resolver.Ctx.Err(); err != nil {
			return err
		}
		h.Cell(id, &l.box, &l.cell)
		l.needsOfCell = l.needsOfCell[:0]
		for _, s := range l.cell.Series {
			l.needsOfCell = append(l.needsOfCell, need{l.state.announce(s.Series), s.MaxCapNs})
		}
		if err := l.cellRows(source, h); err != nil {
			return err
		}
	}
	l.state.settle()
	return nil
}

// cellRows takes in what of the cell in hand can be among the newest.
func (l *search) cellRows(source uint32, h *index.Head) error {
	const atOnce = 16
	caps := l.box[record.Cap]
	for to := l.cell.Chunks; to > 0 && len(l.needsOfCell) > 0; {
		from := max(0, to-atOnce)
		l.chunks = h.Chunks(l.cell.ID, from, to, l.chunks[:0])
		for i := to - 1; i >= from && len(l.needsOfCell) > 0; i-- {
			k := &l.chunks[i-from]
			if caps.Intersects(k.Caps.Min, k.Caps.Max) && l.anyNeeds(l.needsOfCell, k.Caps) {
				if err := l.chunk(source, h, i, k.BeforeNs); err != nil {
					return err
				}
			}
			if k.BeforeNs < bounds.Extent(caps, record.Cap).Min {
				return nil
			}
		}
		to = from
	}
	return nil
}

// chunk takes in what of a chunk of the cell in hand can be among the newest, and drops the series
// that need nothing of those before it, whose caps reach up to beforeNs.
func (l *search) chunk(source uint32, h *index.Head, i int, beforeNs int64) error {
	l.inHead = h.ChunkRows(l.cell.ID, i, &l.box, l.resolver.Horizon, l.inHead[:0])
	if err := l.takeHead(source); err != nil {
		return err
	}
	l.needsOfCell = slices.DeleteFunc(l.needsOfCell, func(n need) bool {
		return l.state.series[n.number].floorNs > beforeNs
	})
	return nil
}

// takeHead takes in rows of the cell in hand, the newest first.
func (l *search) takeHead(source uint32) error {
	for i := len(l.inHead) - 1; i >= 0; i-- {
		r := &l.inHead[i]
		number, ok := l.numberOf(l.needsOfCell, index.Series{CID: r.Key.CID, MOID: r.Key.MOID,
			MID: r.Key.MID})
		if !ok {
			continue // it needs no more, or came after the series were listed
		}
		at := rowAt{source: source, part: l.cell.ID, row: r.Row}
		if err := l.take(number, r.Key, at, r.Flagged, r.Tomb); err != nil {
			return err
		}
	}
	return nil
}

// take takes in a row of a series.
func (l *search) take(number uint32, k record.Key, at rowAt, flagged, tomb bool) error {
	if l.resolver.CoveredBy(k) != nil {
		return nil
	}
	if l.newer.Supersedes(k) {
		l.state.overtaken++
		return nil
	}
	row := rowState{capNs: k.CapNs, acqNs: k.AcqNs, at: at, notShown: tomb || !l.resolver.Shows(k)}
	return l.state.add(number, row, flagged || l.readState.Backdated != nil)
}

// need is a series that may have rows in a source, and the greatest cap that it can have there.
type need struct {
	number   uint32
	newestNs int64
}

// anyNeeds reports whether one of the series has space for caps of a range that it can have.
func (l *search) anyNeeds(needs []need, caps index.Bound) bool {
	for i := range needs {
		if l.needs(&needs[i], caps) {
			return true
		}
	}
	return false
}

func (l *search) needs(n *need, caps index.Bound) bool {
	return l.state.series[n.number].floorNs <= caps.Max && caps.Min <= n.newestNs
}

// search returns the index of the first of some series that is not below s.
func (l *search) search(needs []need, s index.Series) int {
	lo, hi := 0, len(needs)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if l.state.series[needs[mid].number].Compare(s) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

func (l *search) numberOf(needs []need, s index.Series) (uint32, bool) {
	if i := l.search(needs, s); i < len(needs) && l.state.series[needs[i].number].Series == s {
		return needs[i].number, true
	}
	return 0, false
}

// emit hands out the rows that remain, source by source in the order of their positions.
func (l *search) emit() error {
	for source, rows := range l.state.shownRows(len(l.heads) + len(l.readState.Sealed)) {
		if source < len(l.heads) {
			if err := l.emitHead(l.heads[source], rows); err != nil {
				return err
			}
			continue
		}
		seg := &blocks.PlannedSegment{Segment: l.readState.Sealed[source-len(l.heads)]}
		for from := 0; from < len(rows); {
			to := from + 1
			for to < len(rows) && rows[to].position>>32 == rows[from].position>>32 {
				to++
			}
			if err := l.emitBlock(seg, rows[from:to]); err != nil {
				return err
			}
			from = to
		}
	}
	return nil
}

func (l *search) emitHead(h *index.Head, rows []shownRow) error {
	l.Counts.HeadRows += uint64(len(rows))
	for len(rows) > 0 {
		if err := l.shrink(); err != nil {
			return err
		}
		l.positions = l.positions[:0]
		for _, r := range rows[:min(len(rows), blocks.BatchRows)] {
			l.positions = append(l.positions, r.position)
		}
		rows = rows[h.Gather(l.positions, l.KeysOnly(), blocks.BatchBytes, &l.Batch):]
	}
	return nil
}

// shrink flushes the batch when it has enough rows for the sink.
func (l *search) shrink() error {
	if l.Batch.Len() >= blocks.BatchRows || len(l.Batch.Data) >= blocks.BatchBytes {
		return l.Flush()
	}
	return nil
}

// emitBlock hands out rows of one block, of which only payloads are not known.
func (l *search) emitBlock(seg *blocks.PlannedSegment, rows []shownRow) error {
	if err := l.shrink(); err != nil {
		return err
	}
	if err := l.Reopen(seg, uint32(rows[0].position>>32)); err != nil {
		return err
	}
	l.Chosen, l.keys = l.Chosen[:0], l.keys[:0]
	for _, r := range rows {
		l.Chosen = append(l.Chosen, uint32(r.position))
		l.keys = append(l.keys, l.state.key(r))
	}
	return l.TakeKeyed(l.keys)
}
