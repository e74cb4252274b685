// Package index finds rows without reading them: it clusters rows into blocks that are narrow in
// all five dimensions, keeps the zones and posting lists of blocks, and plans which blocks a box
// can meet. It also owns the head, the index of the rows that are not in a file yet.
//
// It knows nothing of files, logs or versions' meaning; what it keeps is handed out as bytes and
// parsed back. Its main types are [Segment] and [Head]. It starts no goroutines.
package index

import (
	"cmp"
	"runtime"
	"slices"
	"sort"
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
	alignedRun = 8
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

// item is a row while it is being sorted.
type item struct {
	key  uint64 // the dimension that is being split, order-preserving
	cap  int64
	mid  uint32 // ordinal among the distinct devices
	rank uint32
	row  uint32 // number of the row in the batch
	pair uint32 // ordinal among the distinct pairs of tenant and quantity
}

// Clusterer clusters one batch after another and keeps its memory from one to the next.
type Clusterer struct {
	opt    Options
	layout *Layout
	mids   []int64  // ordinal -> device
	cids   []int32  // pair -> its tenant, ascending
	moids  []int32  // pair -> its quantity
	keys   []uint64 // of the sub-run being sorted
	sorted []item
	sorter keySorter

	all, sortedByPair []item   // the rows being clustered
	seen              []uint32 // by device, see countSeries
	inBlock           []uint32 // by device: the last mark of a pair in a block that has it
	inBlockMark       uint32
	ordinalsByRow     struct {
		mids, cids, moids, pairs []uint32
		pairKeys                 []int64
		table                    []uint32
	}

	// The sides of the shape that blocks strive for: a smaller one splits its dimension more often.
	unitMID, unitCapNs, unitRank float64
}

// NewClusterer returns one without memory.
func NewClusterer(opt Options) *Clusterer { return new(Clusterer).With(opt) }

// With makes it follow other options.
func (c *Clusterer) With(opt Options) *Clusterer {
	c.opt = opt.withDefaults()
	return c
}

// Cluster clusters rows that have acqs and are in acq order, in the memory of a layout. The same
// rows give the same layout.
//
// Cost: about 0.15 us a row.
func (c *Clusterer) Cluster(rows *record.Batch, to *Layout) {
	items := c.begin(rows, to)
	for i := range items {
		items[i].rank = uint32(i)
	}
	onTime := splitLate(items, c.opt.LateNs)
	c.clusterItems(items[:onTime], false)
	to.OnTime = len(to.BlockEnds)
	c.clusterItems(items[onTime:], true)
	c.layout = nil // it may be a part of something large
}

// ClusterTile clusters rows that are all late, or all on time, in the memory of a layout. AcqNs
// holds their ranks, in any order.
func (c *Clusterer) ClusterTile(rows *record.Batch, late bool, to *Layout) {
	items := c.begin(rows, to)
	for i := range items {
		items[i].rank = uint32(rows.AcqNs[i])
	}
	c.clusterItems(items, late)
	if !late {
		to.OnTime = len(to.BlockEnds)
	}
	c.layout = nil
}

// begin empties a layout, makes space for this many rows in it, and lists them.
func (c *Clusterer) begin(rows *record.Batch, l *Layout) []item {
	n := rows.Len()
	l.Order, l.BlockEnds, l.SubEnds = emptied(l.Order, n), l.BlockEnds[:0], l.SubEnds[:0]
	l.OnTime = 0
	l.Keys.Reset()
	l.Keys.CID, l.Keys.MID = emptied(l.Keys.CID, n), emptied(l.Keys.MID, n)
	l.Keys.MOID, l.Keys.CapNs = emptied(l.Keys.MOID, n), emptied(l.Keys.CapNs, n)
	l.Keys.AcqNs = emptied(l.Keys.AcqNs, n)
	c.layout = l
	return c.items(rows)
}

// clusterItems clusters the late rows, or the others.
func (c *Clusterer) clusterItems(items []item, late bool) {
	if len(items) > 0 {
		items = c.sortByPair(items)
		c.derive(items)
		if !late {
			c.fitSeries(items, 1)
		}
		c.split(items)
	}
}

// items lists the rows, without their ranks.
func (c *Clusterer) items(rows *record.Batch) []item {
	n := &c.ordinalsByRow
	var cids, moids []int32
	n.mids, c.mids = ordinals(rows.MID, n.mids, &n.table)
	n.cids, cids = ordinals(rows.CID, n.cids, &n.table)
	n.moids, moids = ordinals(rows.MOID, n.moids, &n.table)
	pairs := c.pairs(cids, moids)
	c.all = emptied(c.all, rows.Len())[:rows.Len()]
	for i := range c.all {
		c.all[i] = item{row: uint32(i), cap: rows.CapNs[i], mid: n.mids[i], pair: pairs[i]}
	}
	return c.all
}

// pairs numbers the distinct pairs of tenant and quantity, whose ordinals are known.
func (c *Clusterer) pairs(cids, moids []int32) []uint32 {
	n, width := &c.ordinalsByRow, int64(len(moids))
	c.cids, c.moids = c.cids[:0], c.moids[:0]
	if len(moids) == 1 { // as in most tiles of a merge
		for _, cid := range cids {
			c.cids, c.moids = append(c.cids, cid), append(c.moids, moids[0])
		}
		return n.cids
	}
	n.pairKeys = emptied(n.pairKeys, len(n.cids))[:len(n.cids)]
	for i := range n.pairKeys {
		n.pairKeys[i] = int64(n.cids[i])*width + int64(n.moids[i])
	}
	var distinct []int64
	n.pairs, distinct = ordinals(n.pairKeys, n.pairs, &n.table)
	for _, key := range distinct {
		c.cids, c.moids = append(c.cids, cids[key/width]), append(c.moids, moids[key%width])
	}
	return n.pairs
}

// splitLate moves the late rows behind the others, keeping the order, and returns where they start.
// A row is late when its cap is further from those of most rows that came about the
// same time than these are from each other, and lateNs.
func splitLate(items []item, lateNs int64) int {
	late := make([]item, 0, len(items)/16)
	var caps [lateSample]int64
	k := 0
	for from := 0; from < len(items); from += lateWindow {
		window := items[from:min(from+lateWindow, len(items))]
		each := max(1, len(window)/lateSample)
		for i := range caps {
			caps[i] = window[min(anyOf(i*len(window)/lateSample, each), len(window)-1)].cap
		}
		slices.Sort(caps[:])
		lo, hi := caps[lateSample/8], caps[lateSample-1-lateSample/8]
		far := uint64(hi) - uint64(lo) + uint64(lateNs)
		for i := range window {
			it := window[i]
			if it.cap < lo && uint64(lo)-uint64(it.cap) > far ||
				it.cap > hi && uint64(it.cap)-uint64(hi) > far {
				late = append(late, it)
				continue
			}
			items[k] = it
			k++
		}
	}
	copy(items[k:], late)
	return k
}

// sortByPair returns the items sorted by tenant and quantity, those of one pair in the order that
// they had.
func (c *Clusterer) sortByPair(items []item) []item {
	if len(c.cids) == 1 {
		return items
	}
	next := make([]uint32, len(c.cids)+1)
	for i := range items {
		next[items[i].pair+1]++
	}
	for pair := range c.cids {
		next[pair+1] += next[pair]
	}
	c.sortedByPair = emptied(c.sortedByPair, len(items))
	out := c.sortedByPair[:len(items)]
	for i := range items {
		pair := items[i].pair
		out[next[pair]] = items[i]
		next[pair]++
	}
	return out
}

// split divides items until they fit a block.
func (c *Clusterer) split(items []item) {
	for len(items) > c.opt.BlockRows {
		runtime.Gosched() // queries come first
		at := c.cut(items)
		c.split(items[:at])
		items = items[at:]
	}
	if len(items) > 0 {
		c.leaf(items)
	}
}

// widest returns which of device, cap and rank is widest in its unit, and how wide: 0 where all
// rows agree.
func (c *Clusterer) widest(items []item) (record.Dim, float64) {
	lo, hi := items[0], items[0]
	for i := range items {
		it := &items[i]
		lo.cap, hi.cap = min(lo.cap, it.cap), max(hi.cap, it.cap)
		lo.mid, hi.mid = min(lo.mid, it.mid), max(hi.mid, it.mid)
		lo.rank, hi.rank = min(lo.rank, it.rank), max(hi.rank, it.rank)
	}
	best, width := record.MID, float64(hi.mid-lo.mid)/c.unitMID
	if w := float64(uint64(hi.cap)-uint64(lo.cap)) / c.unitCapNs; w > width {
		best, width = record.Cap, w
	}
	if w := float64(hi.rank-lo.rank) / c.unitRank; w > width {
		best, width = record.Acq, w
	}
	return best, width
}

// cut divides items that are sorted by pair and returns where: between tenants, then between
// quantities, so that blocks are constant in them, which costs no bits and no filter; then along
// the widest dimension.
func (c *Clusterer) cut(items []item) int {
	if at, _ := c.border(items); at > 0 {
		return at
	}
	d, _ := c.widest(items)
	setKeys(items, d)
	at := max(1, (len(items)/2+c.opt.BlockRows/2)/c.opt.BlockRows) * c.opt.BlockRows
	selectNth(items, at)
	return at
}

// border returns the border between tenants, or quantities of the one tenant, that is nearest to
// the middle; 0 where there is none.
func (c *Clusterer) border(items []item) (int, record.Dim) {
	first, middle := items[0].pair, items[len(items)/2].pair
	last := items[len(items)-1].pair
	if first == last {
		return 0, 0
	}
	dim, value := record.CID, func(pair uint32) int32 { return c.cids[pair] }
	if c.cids[first] == c.cids[last] {
		dim, value = record.MOID, func(pair uint32) int32 { return c.moids[pair] }
	}
	below := sort.Search(len(items), func(i int) bool {
		return value(items[i].pair) >= value(middle)
	})
	upTo := sort.Search(len(items), func(i int) bool {
		return value(items[i].pair) > value(middle)
	})
	half := len(items) / 2
	if below == 0 || upTo < len(items) && upTo-half < half-below {
		return upTo, dim
	}
	return below, dim
}

func setKeys(items []item, d record.Dim) {
	for i := range items {
		it := &items[i]
		switch d {
		case record.MID:
			it.key = uint64(it.mid)
		case record.Cap:
			it.key = uint64(it.cap) ^ 1<<63
		default:
			it.key = uint64(it.rank)
		}
	}
}

// leaf makes a block: sub-runs by cap, each sorted by tenant, quantity, device, cap and rank. Those
// that are not needed are empty, at its end.
func (c *Clusterer) leaf(items []item) {
	setKeys(items, record.Cap)
	n, subs := len(items), c.subRunsOf(items)
	var ends [subRuns]int
	if subs > 1 {
		subs = endsOfInstants(items, &ends)
	}
	for i := range ends {
		if i >= subs-1 {
			ends[i] = n
		} else if ends[i] == 0 {
			ends[i] = n * (i + 1) / subs &^ 7 // filters take eight rows at once
		}
	}
	multiSelect(items, 0, ends[:subs-1])
	base := uint32(len(c.layout.Order))
	var subEnds [subRuns]uint32
	start := 0
	for i, end := range ends {
		c.sortRun(items[start:end])
		start = end
		subEnds[i] = base + uint32(end)
	}
	c.emit(items)
	c.layout.BlockEnds = append(c.layout.BlockEnds, base+uint32(n))
	c.layout.SubEnds = append(c.layout.SubEnds, subEnds)
}

// emit appends the rows of a block, in their order, to the layout.
func (c *Clusterer) emit(items []item) {
	l, keys := c.layout, &c.layout.Keys
	for i := range items {
		it := &items[i]
		l.Order = append(l.Order, it.row)
		keys.CID = append(keys.CID, c.cids[it.pair])
		keys.MID = append(keys.MID, c.mids[it.mid])
		keys.MOID = append(keys.MOID, c.moids[it.pair])
		keys.CapNs = append(keys.CapNs, it.cap)
		keys.AcqNs = append(keys.AcqNs, int64(it.rank))
	}
}
