// Package index finds rows without reading them: it clusters rows into blocks that are narrow in
// all five dimensions, keeps the zones and posting lists of blocks, and plans which blocks a box
// can meet. It also owns the head, the index of the rows that are not in a file yet.
//
// It knows nothing of files, logs or versions' meaning; what it keeps is handed out as bytes and
// parsed back. Its main types are [Segment] and [Head]. It starts no goroutines.
package index

import (
	"cmp"
	"math/bits"
	"runtime"
	"slices"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// subRuns is how many runs of rows, split by cap, a block has; each is sorted by device.
const subRuns = 8

// maxBlockRows is how many rows a block may have; the files know no larger ones.
const maxBlockRows = 8192

const (
	// longRun is how many readings of a series are stored as one run in place of one for each
	// sub-run: such a run is narrow, and quick to search.
	longRun = 64
	// alignedRun is longRun for series that take readings at the same instants: these are found in
	// all runs at once.
	alignedRun = 4
	// instantSamples is how many rows of a block are looked at for these, and instantShare how many
	// of them have the same cap at least.
	instantSamples = 256
	instantShare   = 4
)

// Options say what shape blocks take. The zero value works; so do values below zero, as zero.
type Options struct {
	// BlockRows is how many rows a block has at most, a multiple of 8 up to 8192; 8192.
	BlockRows int
	// LateNs separates rows whose cap is further than this, and some more, from those of most rows
	// that came about the same time, so that late rows and corrections do not widen the blocks of
	// the others; 15 minutes.
	LateNs int64
}

func (o Options) withDefaults() Options {
	o.BlockRows = min(cmp.Or(max(0, o.BlockRows), maxBlockRows), maxBlockRows)
	o.LateNs = cmp.Or(max(0, o.LateNs), int64(15*time.Minute))
	return o
}

const (
	// lateWindow is how many rows came about the same time, and lateSample how many of them say
	// where most caps lie.
	lateWindow = 8192
	lateSample = 128
)

// Layout is a permutation of rows and its division into blocks.
type Layout struct {
	Order     []uint32          // position -> number of the row in the batch
	BlockEnds []uint32          // position after the last row of each block
	OnTime    int               // blocks before the first that holds late rows
	SubEnds   [][subRuns]uint32 // per block, positions after the last row of each sub-run
	// Keys are those of the rows by position, without payloads; AcqNs holds ranks. What looks at
	// all rows goes through memory once, and not wherever the rows came from.
	Keys record.Batch
}

// partRows is about how many rows a part of a layout has: they stay in the caches.
const partRows = 1 << 16

// item is a row while it is being sorted.
type item struct {
	cap  int64
	mid  uint32 // ordinal among the distinct devices
	rank uint32
	row  uint32 // number of the row in the batch
	pair uint32 // ordinal among the distinct pairs of tenant and quantity
}

// Clusterer clusters one batch after another and keeps its memory from one to the next.
type Clusterer struct {
	opt    Options
	rows   *record.Batch // that are clustered
	ranks  []int64       // of the rows; nil: their numbers
	late   bool          // whether the blocks being made hold late rows
	layout *Layout       // that gets the blocks
	take   func(part *Layout) (next *Layout, err error)
	err    error // of take
	// partRows is about how many rows a part has; tests are small.
	partRows int

	mids   []int64 // ordinal -> device
	cids   []int32 // pair -> its tenant, ascending
	moids  []int32 // pair -> its quantity
	midOf  []uint32
	pairOf []uint32 // row -> number of its pair, in order of appearance
	pairs  []pair   // ascending
	order  []uint32
	groups [2]rowsByPair // rows on time, and late ones
	series []SeriesCap   // of these, of each ascending
	onTime int           // how many series are of the first

	items, spare []item
	block        []item    // together, of several stretches
	ofSeries     []stretch // of items, that of each series
	ranksAscend  bool      // in each of these
	cuts         []stretch
	keys, inTurn []uint64
	counts       [1 << deviceDigitBits]uint32
	table, next  []uint32
	lateRows     []uint32
	recent       [recentPairs]pair
	numbers      map[[2]int32]uint32
	subOf        [maxBlockRows]uint8 // position in a block -> sub-run
	seen         []uint32            // by device, see countSeries

	// The sides of the shape that blocks strive for: a smaller one splits its dimension more often.
	unitMID, unitCapNs, unitRank float64
}

// NewClusterer returns one without memory.
func NewClusterer(opt Options) *Clusterer { return new(Clusterer).With(opt) }

// With makes it follow other options.
func (c *Clusterer) With(opt Options) *Clusterer {
	c.opt = opt.withDefaults()
	c.partRows = cmp.Or(c.partRows, partRows)
	if c.numbers == nil {
		c.numbers = map[[2]int32]uint32{}
	}
	return c
}

// Cluster clusters rows that have acqs and are in acq order, in the memory of a layout. The same
// rows give the same layout.
//
// Cost: about 0.1 us a row.
func (c *Clusterer) Cluster(rows *record.Batch, to *Layout) { _ = c.ClusterInParts(rows, to, nil) }

// ClusterInParts is Cluster that hands over the layout in parts of some 65,000 rows, those of the
// blocks that are on time first. The memory that take returns gets the next part. A part names some
// of the rows; positions count from its beginning. Clustering ends with the first error of take,
// which is returned.
func (c *Clusterer) ClusterInParts(
	rows *record.Batch, to *Layout, take func(part *Layout) (next *Layout, err error),
) error {
	c.begin(rows, nil)
	c.take = take
	c.use(to)
	c.lateRows = lateOf(rows.CapNs, c.opt.LateNs, c.lateRows[:0])
	c.group(c.lateRows)
	c.clusterGroup(&c.groups[0], false)
	c.onTime = len(c.series)
	c.clusterGroup(&c.groups[1], true)
	return c.end()
}

// ClusterTile clusters rows that are all late, or all on time, in the memory of a layout. AcqNs
// holds their ranks, in any order.
func (c *Clusterer) ClusterTile(rows *record.Batch, late bool, to *Layout) {
	c.begin(rows, rows.AcqNs)
	c.use(to)
	c.group(nil)
	c.clusterGroup(&c.groups[0], late)
	c.onTime = len(c.series)
	_ = c.end()
}

// begin numbers the devices and the pairs of rows.
func (c *Clusterer) begin(rows *record.Batch, ranks []int64) {
	c.rows, c.ranks, c.take, c.err = rows, ranks, nil, nil
	c.series, c.onTime = c.series[:0], 0
	c.midOf, c.mids = ordinals(rows.MID, c.midOf, &c.table)
	c.numberPairs(rows)
}

// end lets go of what is not the clusterer's, and may be part of something large.
func (c *Clusterer) end() error {
	err := c.err
	c.rows, c.ranks, c.layout, c.take, c.err = nil, nil, nil, nil, nil
	return err
}

// use empties a layout, which gets the next blocks.
func (c *Clusterer) use(l *Layout) {
	n := c.rows.Len()
	if c.take != nil {
		n = min(n, c.partRows+c.opt.BlockRows)
	}
	l.Order, l.BlockEnds, l.SubEnds = emptied(l.Order, n), l.BlockEnds[:0], l.SubEnds[:0]
	l.OnTime = 0
	l.Keys.Reset()
	l.Keys.CID, l.Keys.MID = emptied(l.Keys.CID, n), emptied(l.Keys.MID, n)
	l.Keys.MOID, l.Keys.CapNs = emptied(l.Keys.MOID, n), emptied(l.Keys.CapNs, n)
	l.Keys.AcqNs = emptied(l.Keys.AcqNs, n)
	c.layout = l
}

// clusterGroup clusters the late rows, or the others.
func (c *Clusterer) clusterGroup(g *rowsByPair, late bool) {
	if len(g.order) == 0 || c.err != nil {
		return
	}
	c.late = late
	c.derive(g)
	if !late {
		c.fitSeries(g, 1)
	}
	c.splitPairs(g, 0, len(c.cids))
	c.handOver(1)
}

// handOver hands over a part that has this many rows, if parts are asked for.
func (c *Clusterer) handOver(rows int) {
	if c.take == nil || len(c.layout.Order) < rows || c.err != nil {
		return
	}
	next, err := c.take(c.layout)
	if c.err = err; err == nil {
		c.use(next)
	}
}

func (c *Clusterer) rankOf(row uint32) uint32 {
	if c.ranks == nil {
		return row
	}
	return uint32(c.ranks[row])
}

// lateOf appends the numbers of late rows to dst. A row is late when its cap is further from those
// of most rows that came about the same time than these are from each other, and lateNs.
func lateOf(capsNs []int64, lateNs int64, dst []uint32) []uint32 {
	var sample [lateSample]int64
	for from := 0; from < len(capsNs); from += lateWindow {
		window := capsNs[from:min(from+lateWindow, len(capsNs))]
		each := max(1, len(window)/lateSample)
		for i := range sample {
			sample[i] = window[min(anyOf(i*len(window)/lateSample, each), len(window)-1)]
		}
		slices.Sort(sample[:])
		lo, hi := sample[lateSample/8], sample[lateSample-1-lateSample/8]
		far := uint64(hi) - uint64(lo) + uint64(lateNs)
		for i, v := range window {
			if v < lo && uint64(lo)-uint64(v) > far || v > hi && uint64(v)-uint64(hi) > far {
				dst = append(dst, uint32(from+i))
			}
		}
	}
	return dst
}

// split divides items of a pair, or of so few rows that they fit a block, until they do.
func (c *Clusterer) split(items []item) {
	for len(items) > c.opt.BlockRows && c.err == nil {
		runtime.Gosched() // queries come first
		at := c.cut(items)
		c.split(items[:at])
		items = items[at:]
	}
	if len(items) > 0 && c.err == nil {
		c.leaf(items)
		c.handOver(c.partRows)
	}
}

// widest returns which of device, cap and rank is widest in its unit, and how wide: 0 where all
// rows agree.
func (c *Clusterer) widest(items []item) (record.Dim, float64) {
	lo, hi := items[0], items[0]
	for i := range items {
		it := &items[i]
		lo.cap, hi.cap = min(lo.cap, it.cap), max(hi.cap, it.cap)
		lo.rank, hi.rank = min(lo.rank, it.rank), max(hi.rank, it.rank)
	}
	lo.mid, hi.mid = items[0].mid, items[len(items)-1].mid // they are sorted by device
	return c.widestBetween(&lo, &hi)
}

// widestBetween is widest for the least and the greatest of each dimension.
func (c *Clusterer) widestBetween(lo, hi *item) (record.Dim, float64) {
	best, width := record.MID, float64(hi.mid-lo.mid)/c.unitMID
	if w := float64(uint64(hi.cap)-uint64(lo.cap)) / c.unitCapNs; w > width {
		best, width = record.Cap, w
	}
	if w := float64(hi.rank-lo.rank) / c.unitRank; w > width {
		best, width = record.Acq, w
	}
	return best, width
}

// placeOfCut returns behind which of n rows to cut: near the middle, so that blocks are full.
func placeOfCut(n, blockRows int) int { return max(1, (n/2+blockRows/2)/blockRows) * blockRows }

// cut divides items of one pair along the widest dimension and returns where.
func (c *Clusterer) cut(items []item) int {
	d, _ := c.widest(items)
	at := placeOfCut(len(items), c.opt.BlockRows)
	if d == record.MID {
		return at // they are sorted by device
	}
	keys := c.keysOf(items, d)
	c.inTurn = append(c.inTurn[:0], keys...)
	selectNth(keys, at)
	ties := 0 // of the keys before the cut
	for _, key := range keys[:at] {
		if key == keys[at] {
			ties++
		}
	}
	c.divide(items, c.inTurn, keys[at], ties)
	return at
}

// keysOf returns the part of a key that is being cut, order-preserving; it belongs to the
// clusterer until the next call.
func (c *Clusterer) keysOf(items []item, d record.Dim) []uint64 {
	c.keys = emptied(c.keys, len(items))[:len(items)]
	switch d {
	case record.MID:
		for i := range items {
			c.keys[i] = uint64(items[i].mid)
		}
	case record.Cap:
		for i := range items {
			c.keys[i] = uint64(items[i].cap) ^ 1<<63
		}
	default:
		for i := range items {
			c.keys[i] = uint64(items[i].rank)
		}
	}
	return c.keys
}

// divide moves the items with keys below a number to the front, and some of those that equal it,
// ties of them, and keeps the order otherwise.
func (c *Clusterer) divide(items []item, keys []uint64, number uint64, ties int) {
	c.spare = emptied(c.spare, len(items))
	spare := c.spare[:len(items)]
	front, back := 0, 0
	for i, key := range keys {
		_, below := bits.Sub64(key, number, 0)
		if key == number && ties > 0 {
			ties--
			below = 1
		}
		it := items[i]
		items[front], spare[back] = it, it
		front += int(below)
		back += int(1 - below)
	}
	copy(items[front:], spare[:back])
}

// leaf makes a block: sub-runs by cap, each sorted by tenant, quantity, device, cap and rank. Those
// that are not needed are empty, at its end.
func (c *Clusterer) leaf(items []item) {
	n, subs := len(items), subRunsOf(items)
	var ends [subRuns]int
	if subs > 1 {
		subs = endsOfInstants(items, &ends)
	}
	base := uint32(len(c.layout.Order))
	var subEnds [subRuns]uint32
	for i := range ends {
		if i >= subs-1 {
			ends[i] = n
		} else if ends[i] == 0 {
			ends[i] = n * (i + 1) / subs &^ 7 // filters take eight rows at once
		}
		subEnds[i] = base + uint32(ends[i])
	}
	c.emit(c.bySubRun(items, ends[:subs]))
	l := c.layout
	l.BlockEnds = append(l.BlockEnds, base+uint32(n))
	l.SubEnds = append(l.SubEnds, subEnds)
	if !c.late {
		l.OnTime = len(l.BlockEnds)
	}
}

// emit appends the rows of a block, in their order, to the layout.
func (c *Clusterer) emit(items []item) {
	n, keys := len(items), &c.layout.Keys
	order, cids, mids := extend(&c.layout.Order, n), extend(&keys.CID, n), extend(&keys.MID, n)
	moids, caps, ranks := extend(&keys.MOID, n), extend(&keys.CapNs, n), extend(&keys.AcqNs, n)
	for i := range items {
		it := &items[i]
		order[i] = it.row
		cids[i], mids[i], moids[i] = c.cids[it.pair], c.mids[it.mid], c.moids[it.pair]
		caps[i], ranks[i] = it.cap, int64(it.rank)
	}
}
