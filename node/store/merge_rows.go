package store

import (
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/blocks"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/node/store/tombstone"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// defaultTileBytes is about how much of its rows, decoded, a merge has in memory at once;
	// sorting them takes as much again.
	defaultTileBytes = 32 << 20
	// mergeSamples is about how many rows decide where tiles end.
	mergeSamples = 1 << 18
	// keyBytes is what the key of a row takes when decoded.
	keyBytes = 40
)

// merger feeds the rows of a run of segments, tile by tile, to a segment writer.
type merger struct {
	store      *Store
	run        []*shards.Segment
	acq        record.Range       // of the rows that the new segment keeps; zero: all
	tombstones []*tombstone.Range // whose rows it leaves out
	ended      func() error       // asked before each tile is written; nil: it goes on
	ranks      *index.RankMap
	builder    index.Builder
	series     index.SeriesSet
	reader     blocks.Reader
	plan       index.Plan
	carried    [][]uint32 // by input: the blocks that are taken over as they are, and a bitmap
	isCarried  [][]uint64

	buffers *mergeBuffers
	*clusteredTile
}

// mergeBuffers is the memory of a merge. The next merge of any store in the process reuses it.
type mergeBuffers struct {
	clusterer index.Clusterer
	tiles     [2]clusteredTile // one is clustered while the other is written
}

var mergeBufferPool = sync.Pool{New: func() any { return new(mergeBuffers) }}

// clusteredTile is the rows of a tile, clustered.
type clusteredTile struct {
	rows   record.Batch
	flags  []uint64
	layout index.Layout
}

// writeTiles hands over the tiles of the rows that are on time, then of the late ones. One is
// clustered while the one before is encoded and written.
func (m *merger) writeTiles(add func(*segment.RowRun) error) error {
	m.buffers.clusterer.With(m.store.opt.Index)
	return overlap(m.buffers.tiles[1:], func(give giveFunc[clusteredTile]) error {
		return segment.CatchPageFaults(func() error { return m.cluster(give) }, m.files)
	}, func(p *clusteredTile) error { return m.addTile(p, add) })
}

// addTile describes a tile and hands it over.
func (m *merger) addTile(p *clusteredTile, add func(*segment.RowRun) error) error {
	if m.ended != nil {
		if err := m.ended(); err != nil {
			return err
		}
	}
	m.builder.Add(&p.layout, p.flags)
	return add(&segment.RowRun{Rows: &p.rows, Order: p.layout.Order, Keys: &p.layout.Keys,
		BlockEnds: p.layout.BlockEnds, Flags: p.flags})
}

// cluster gives clustered tiles.
func (m *merger) cluster(give giveFunc[clusteredTile]) error {
	for _, late := range []bool{false, true} {
		tiles, err := m.cutTiles(late)
		if err != nil {
			return err
		}
		for i := range tiles {
			if err := m.clusterTile(&tiles[i], late); err != nil {
				return err
			}
			if m.rows.Len() == 0 {
				continue
			}
			if m.clusteredTile, err = give(m.clusteredTile); err != nil {
				return err
			}
		}
	}
	return nil
}

// files yields the files that are read.
func (m *merger) files(yield func(*segment.File) bool) {
	for _, seg := range m.run {
		if !yield(seg.File) {
			return
		}
	}
}

// blocksOf returns the blocks [from, to) of a segment that hold late rows, or the others.
func blocksOf(idx *index.Segment, late bool) (from, to int) {
	if late {
		return idx.OnTime(), idx.Blocks()
	}
	return 0, idx.OnTime()
}

// cutTiles cuts the keys into tiles of about Options.TileBytes.
func (m *merger) cutTiles(late bool) ([]index.Tile, error) {
	total, rows := uint64(0), 0
	if err := m.eachBlock(late, func(int) error {
		total += m.cost()
		rows += m.reader.Block.Rows()
		return nil
	}); err != nil || total == 0 {
		return nil, err
	}
	perSample := max(1, total/mergeSamples)
	var sample record.Batch
	carried := uint64(0)
	err := m.eachBlock(late, func(i int) error {
		start, carry := sample.Len(), carried+m.cost()
		n := carry / perSample
		carried = carry % perSample
		rows := uint64(m.reader.Block.Rows())
		sel := m.reader.Chosen[:0]
		for k := range n { // a row of many bytes may stand for several
			// Blocks are sorted by device: equal steps would meet the same ones in many.
			jitter := (uint64(sample.Len())*0x9e3779b97f4a7c15 + k*0xbf58476d1ce4e5b9) >> 40
			sel = append(sel, uint32((k<<24+jitter)*rows/n>>24))
		}
		m.reader.Chosen = sel
		if err := m.reader.Block.Gather(sel, true, &sample); err != nil {
			return err
		}
		keep := start
		for k := start; k < sample.Len(); k++ {
			if merged, ok := m.ranks.Rank(i, uint32(sample.AcqNs[k])); ok {
				sample.Move(keep, k)
				sample.AcqNs[keep] = int64(m.ranks.First(merged))
				keep++
			}
		}
		sample.Truncate(keep)
		return nil
	})
	if err != nil {
		return nil, err
	}
	atMost := max(1, int(m.store.opt.TileBytes/perSample))
	if sample.Len() <= atMost+atMost/2 {
		atMost = max(1, sample.Len()) // two halves would be worse than one
	}
	return index.MergeTiles(&sample, atMost, float64(rows)/float64(max(1, sample.Len())), late,
		m.store.opt.Index), nil
}

// cost is what the rows of the open block take when decoded.
func (m *merger) cost() uint64 {
	b := m.reader.Block
	return uint64(b.Rows())*keyBytes + b.PayloadBytes()
}

// eachBlock opens the blocks of every input in turn.
func (m *merger) eachBlock(late bool, visit func(i int) error) error {
	for i, seg := range m.run {
		if m.store.closed.Load() {
			return ErrClosed
		}
		from, to := blocksOf(seg.Index, late)
		for b := from; b < to; b++ {
			if m.carries(i, uint32(b)) {
				continue
			}
			c := index.Candidate{Block: uint32(b)}
			if _, err := m.reader.Open(&blocks.PlannedSegment{Segment: seg}, c); err != nil {
				return err
			}
			if err := visit(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// clusterTile gathers the rows of a tile and clusters them.
func (m *merger) clusterTile(r *index.Tile, late bool) error {
	m.rows.Reset()
	m.flags = m.flags[:0]
	box := m.box(r)
	m.reader.Box = &box
	for i, seg := range m.run {
		if m.store.closed.Load() {
			return ErrClosed
		}
		if err := m.gather(i, seg, late); err != nil {
			return err
		}
	}
	if m.rows.Len() == 0 {
		return nil
	}
	for len(m.flags) < (m.rows.Len()+63)/64 {
		m.flags = append(m.flags, 0)
	}
	m.buffers.clusterer.ClusterTile(&m.rows, late, &m.layout)
	m.series.AddAll(m.buffers.clusterer.Series())
	return nil
}

// box is the tile as a box, whose acq are times.
func (m *merger) box(r *index.Tile) record.Box {
	var x record.Box
	for d := range record.Dim(record.NumDims) {
		if r[d] == record.All(d) {
			continue
		}
		set := r[d]
		if d == record.Acq {
			set = record.Range{From: m.acqOf(r[d].From), To: m.acqOf(r[d].To)}
		}
		x[d] = record.RangeSet{set}
	}
	if m.acq != (record.Range{}) {
		set := m.acq
		if of := x[record.Acq]; of != nil {
			set = record.Range{From: max(set.From, of[0].From), To: min(set.To, of[0].To)}
		}
		x[record.Acq] = record.RangeSet{set}
	}
	return x
}

// acqOf turns an end of a range of ranks into one of acquisition times.
func (m *merger) acqOf(rank int64) int64 {
	switch {
	case rank <= 0:
		return math.MinInt64
	case rank >= int64(m.ranks.Rows()):
		return record.Acq.Max()
	default:
		return m.ranks.AcqOf(uint32(rank))
	}
}

// gather adds the rows of a tile that lie in one input.
func (m *merger) gather(i int, seg *shards.Segment, late bool) error {
	r := &m.reader
	planned := blocks.PlannedSegment{Plan: &m.plan}
	planned.Begin(seg, r.Box, m.tombstones)
	from, to := blocksOf(seg.Index, late)
	candidates := slices.DeleteFunc(m.plan.Candidates, func(c index.Candidate) bool {
		return int(c.Block) < from || int(c.Block) >= to || m.carries(i, c.Block)
	})
	m.store.readahead.Clock.Refresh()
	m.store.readahead.Prefetch(seg, candidates)
	for _, c := range candidates {
		runtime.Gosched() // queries come first
		info, err := r.Open(&planned, c)
		if err != nil {
			return err
		}
		r.Chosen = r.Choose(&planned, info, c.Residual)
		start := m.rows.Len()
		if err := r.Block.Gather(r.Chosen, false, &m.rows); err != nil {
			return err
		}
		for k, rank := range m.rows.AcqNs[start:] {
			merged, _ := m.ranks.Rank(i, uint32(rank))
			m.rows.AcqNs[start+k] = int64(merged)
		}
		if info.Flagged > 0 {
			m.flag(start)
		}
	}
	return nil
}

// flag notes which of the chosen rows of the open block, the first of which is row start, may
// supersede an older one.
func (m *merger) flag(start int) {
	for k, i := range m.reader.Chosen {
		if !m.reader.Block.Flag(int(i)) {
			continue
		}
		at := start + k
		for at>>6 >= len(m.flags) {
			m.flags = append(m.flags, 0)
		}
		m.flags[at>>6] |= 1 << (at & 63)
	}
}
