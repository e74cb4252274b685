// Package index finds rows without reading them: it partitions rows into blocks that are narrow in
// all five dimensions, keeps the zones and posting lists of blocks, and plans which blocks a box
// can meet. It also owns the head, the index of the rows that are not in a file yet.
//
// It knows nothing of files, logs or versions' meaning; what it keeps is handed out as bytes and
// parsed back. Its main types are [Segment] and [Head]. It starts no goroutines.
package index

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// subRuns is how many runs of rows, split by cap, a block has; each is sorted by device.
const subRuns = 4

// maxBlockRows is how many rows a block may have; the files know no larger ones.
const maxBlockRows = 4096

// Options say what shape blocks take. The zero value works; so do values below zero, as zero.
type Options struct {
	// BlockRows is how many rows a block has at most, a multiple of 8 up to 4096; 2048.
	BlockRows int
	// LateNs separates rows whose acq is later than their cap by more than this, so that
	// late rows and corrections do not widen the blocks of the others; 15 minutes.
	LateNs int64
}

func (o Options) withDefaults() Options {
	o.BlockRows = min(cmp.Or(max(0, o.BlockRows), 2048), maxBlockRows)
	o.LateNs = cmp.Or(max(0, o.LateNs), int64(15*time.Minute))
	return o
}

// Scores of one more tenant or quantity in a block. They are split first, so that blocks are
// constant in them: no bits, no filter.
const (
	scoreCID  = 1000
	scoreMOID = 100
)

const (
	// midWeight is how many times blocks are cut by device for each time that they are cut by cap:
	// most questions are about few devices.
	midWeight = 2
	// derivedFrom is about how many rows the units are derived from.
	derivedFrom = 4096
)

// Layout is a permutation of rows and its division into blocks.
type Layout struct {
	Order     []uint32          // position -> rank, the number of the row in acq order
	BlockEnds []uint32          // position after the last row of each block
	OnTime    int               // blocks before the first that holds late rows
	SubEnds   [][subRuns]uint32 // per block, positions after the last row of each sub-run
}

// item is a row while it is being sorted.
type item struct {
	key   uint64 // the dimension that is being split, order-preserving
	cap   int64
	mid   uint32 // ordinal among the distinct devices
	rank  uint32
	row   uint32 // number of the row in the batch
	group uint32 // ordinal among the distinct pairs of tenant and quantity
}

type partitioner struct {
	opt    Options
	layout *Layout
	cids   []uint32 // group -> ordinal of its tenant, ascending
	moids  []uint32 // group -> ordinal of its quantity
	keys   []uint64 // of the sub-run being sorted
	sorted []item

	// The sides of the shape that blocks strive for: a smaller one splits its dimension more often.
	unitMID, unitCapNs, unitRank float64
}

func newPartitioner(rows *record.Batch, opt Options) *partitioner {
	return &partitioner{opt: opt.withDefaults(),
		layout: &Layout{Order: make([]uint32, 0, rows.Len())}}
}

// Partition clusters rows that are stamped and in acq order. The same rows give the same layout.
//
// Cost: about 0.25 us a row.
func Partition(rows *record.Batch, opt Options) *Layout {
	p := newPartitioner(rows, opt)
	items := p.items(rows)
	for i := range items {
		items[i].rank = uint32(i)
	}
	late := splitLate(items, rows, p.opt.LateNs)
	p.derive(items[:late])
	p.split(items[:late])
	p.layout.OnTime = len(p.layout.BlockEnds)
	p.derive(items[late:])
	p.split(items[late:])
	return p.layout
}

// PartitionPart clusters rows that are all late, or all on time. AcqNs holds their ranks, in any
// order.
func PartitionPart(rows *record.Batch, late bool, opt Options) *Layout {
	p := newPartitioner(rows, opt)
	items := p.items(rows)
	for i := range items {
		items[i].rank = uint32(rows.AcqNs[i])
	}
	p.derive(items)
	p.split(items)
	if !late {
		p.layout.OnTime = len(p.layout.BlockEnds)
	}
	return p.layout
}

// items lists the rows, without their ranks.
func (p *partitioner) items(rows *record.Batch) []item {
	items := make([]item, rows.Len())
	for i := range items {
		items[i].row = uint32(i)
		items[i].cap = rows.CapNs[i]
	}
	for i, o := range ordinals(rows.MID) {
		items[i].mid = o
	}
	cids, moids := ordinals(rows.CID), ordinals(rows.MOID)
	width := int64(slices.Max(append(moids, 0))) + 1 // 0 where there are no rows
	pairs := make([]int64, len(cids))
	for i := range pairs {
		pairs[i] = int64(cids[i])*width + int64(moids[i])
	}
	groups := ordinals(pairs)
	count := int(slices.Max(append(groups, 0))) + 1
	p.cids, p.moids = make([]uint32, count), make([]uint32, count)
	for i, g := range groups {
		items[i].group = g
		p.cids[g], p.moids[g] = cids[i], moids[i]
	}
	return items
}

// splitLate moves the late rows behind the others, keeping the order, and returns where they start.
func splitLate(items []item, rows *record.Batch, lateNs int64) int {
	isLate := func(i int) bool {
		acq, capNs := rows.AcqNs[i], rows.CapNs[i]
		return capNs < acq && uint64(acq)-uint64(capNs) > uint64(lateNs)
	}
	count := 0
	for i := range items {
		if isLate(i) {
			count++
		}
	}
	late := make([]item, 0, count)
	k := 0
	for i := range items {
		if isLate(i) {
			late = append(late, items[i])
			continue
		}
		items[k] = items[i]
		k++
	}
	copy(items[k:], late)
	return k
}

// split divides items until they fit a block.
func (p *partitioner) split(items []item) {
	for len(items) > p.opt.BlockRows {
		at := p.cut(items)
		p.split(items[:at])
		items = items[at:]
	}
	if len(items) > 0 {
		p.leaf(items)
	}
}

// derive sets the units from what the rows are: as many cuts through devices as midWeight says for
// each through the time they cover and for each through the order in which they came. The
// hundredth of the caps at either end may be garbage and does not count.
func (p *partitioner) derive(items []item) {
	if len(items) == 0 {
		return
	}
	step := max(1, len(items)/derivedFrom)
	p.keys = p.keys[:0]
	mids := make([]uint64, 0, 2*derivedFrom)
	ranks := make([]uint64, 0, 2*derivedFrom)
	for i := 0; i < len(items); i += step {
		p.keys = append(p.keys, uint64(items[i].cap)^1<<63)
		mids = append(mids, uint64(items[i].mid))
		ranks = append(ranks, uint64(items[i].rank))
	}
	p.unitMID = spanOfMost(mids) / midWeight
	p.unitCapNs = spanOfMost(p.keys)
	p.unitRank = spanOfMost(ranks)
}

// spanOfMost returns how wide the middle 98 % of numbers lie, at least 1.
func spanOfMost(numbers []uint64) float64 {
	slices.Sort(numbers)
	trim := len(numbers) / 100
	return max(1, float64(numbers[len(numbers)-1-trim]-numbers[trim]))
}

// widest returns the dimension that is widest in its unit, and how wide: 0 where all rows agree.
func (p *partitioner) widest(items []item) (record.Dim, float64) {
	lo, hi := items[0], items[0]
	moidLo, moidHi := p.moids[lo.group], p.moids[lo.group]
	for i := range items {
		it := &items[i]
		lo.cap, hi.cap = min(lo.cap, it.cap), max(hi.cap, it.cap)
		lo.mid, hi.mid = min(lo.mid, it.mid), max(hi.mid, it.mid)
		lo.rank, hi.rank = min(lo.rank, it.rank), max(hi.rank, it.rank)
		lo.group, hi.group = min(lo.group, it.group), max(hi.group, it.group)
		moid := p.moids[it.group]
		moidLo, moidHi = min(moidLo, moid), max(moidHi, moid)
	}
	scores := [record.NumDims]float64{
		record.CID:  float64(p.cids[hi.group]-p.cids[lo.group]) * scoreCID,
		record.MOID: float64(moidHi-moidLo) * scoreMOID,
		record.MID:  float64(hi.mid-lo.mid) / p.unitMID,
		record.Cap:  float64(uint64(hi.cap)-uint64(lo.cap)) / p.unitCapNs,
		record.Acq:  float64(hi.rank-lo.rank) / p.unitRank,
	}
	best := record.CID
	for d := range record.NumDims {
		if scores[d] > scores[best] {
			best = record.Dim(d)
		}
	}
	return best, scores[best]
}

// cut divides along the widest dimension and returns where.
func (p *partitioner) cut(items []item) int {
	d, _ := p.widest(items)
	p.setKeys(items, d)
	half := len(items) / 2
	if d == record.CID || d == record.MOID {
		return cutBetweenValues(items, half)
	}
	at := max(1, (half+p.opt.BlockRows/2)/p.opt.BlockRows) * p.opt.BlockRows
	selectNth(items, at)
	return at
}

func (p *partitioner) setKeys(items []item, d record.Dim) {
	for i := range items {
		it := &items[i]
		switch d {
		case record.CID:
			it.key = uint64(p.cids[it.group])
		case record.MOID:
			it.key = uint64(p.moids[it.group])
		case record.MID:
			it.key = uint64(it.mid)
		case record.Cap:
			it.key = uint64(it.cap) ^ 1<<63
		default:
			it.key = uint64(it.rank)
		}
	}
}

// cutBetweenValues divides at the border of a value that is nearest to the middle.
func cutBetweenValues(items []item, half int) int {
	selectNth(items, half)
	middle := items[half].key
	below, upTo := 0, 0
	for i := range items {
		if items[i].key < middle {
			below++
		}
		if items[i].key <= middle {
			upTo++
		}
	}
	at := below
	if below == 0 || upTo < len(items) && upTo-half < half-below {
		at = upTo
	}
	pivot := middle
	if at == upTo {
		pivot++
	}
	k := 0
	for i := range items {
		if items[i].key < pivot {
			items[k], items[i] = items[i], items[k]
			k++
		}
	}
	return at
}

// selectNth reorders items so that those before n have keys no greater than those from n on.
// Equal keys are told apart by rank, which makes the outcome a matter of the rows alone.
func selectNth(items []item, n int) {
	lo, hi := 0, len(items)
	// Writers choose caps, and could choose them so that every pivot is a bad one.
	rounds := 3 * bits.Len(uint(len(items)))
	for hi-lo > 1 && n > lo && n < hi {
		if rounds--; rounds < 0 {
			slices.SortFunc(items[lo:hi], compareKeys)
			return
		}
		pivot := median(items[lo], items[lo+(hi-lo)/2], items[hi-1])
		i, j := lo, hi-1
		for i <= j {
			for less(&items[i], &pivot) {
				i++
			}
			for less(&pivot, &items[j]) {
				j--
			}
			if i <= j {
				items[i], items[j] = items[j], items[i]
				i++
				j--
			}
		}
		switch {
		case n <= j:
			hi = j + 1
		case n >= i:
			lo = i
		default:
			return
		}
	}
}

func less(a, b *item) bool { return a.key < b.key || a.key == b.key && a.rank < b.rank }

func compareKeys(a, b item) int {
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.rank, b.rank))
}

func median(a, b, c item) item {
	if less(&b, &a) {
		a, b = b, a
	}
	if less(&c, &b) {
		b = c
		if less(&b, &a) {
			b = a
		}
	}
	return b
}

// leaf makes a block: sub-runs by cap, each sorted by tenant, quantity, device, cap and rank.
func (p *partitioner) leaf(items []item) {
	p.setKeys(items, record.Cap)
	n := len(items)
	var ends [subRuns]int
	for i := range ends {
		ends[i] = n * (i + 1) / subRuns
	}
	selectNth(items, ends[1])
	selectNth(items[:ends[1]], ends[0])
	selectNth(items[ends[1]:], ends[2]-ends[1])
	base := uint32(len(p.layout.Order))
	var subs [subRuns]uint32
	start := 0
	for i, end := range ends {
		p.sortRun(items[start:end])
		start = end
		subs[i] = base + uint32(end)
	}
	for i := range items {
		p.layout.Order = append(p.layout.Order, items[i].row)
	}
	p.layout.BlockEnds = append(p.layout.BlockEnds, base+uint32(n))
	p.layout.SubEnds = append(p.layout.SubEnds, subs)
}

func compareItems(a, b item) int {
	return cmp.Or(cmp.Compare(a.group, b.group),
		cmp.Compare(a.mid, b.mid), cmp.Compare(a.cap, b.cap), cmp.Compare(a.rank, b.rank))
}

// sortRun sorts a sub-run. Numbers sort several times as fast as items: where device and cap fit
// 64 bits together with the place, they are sorted at once, otherwise cap after device.
func (p *partitioner) sortRun(items []item) {
	if len(items) < 2 {
		return
	}
	lo, hi := items[0], items[0]
	for i := range items {
		it := &items[i]
		lo.cap, hi.cap = min(lo.cap, it.cap), max(hi.cap, it.cap)
		lo.mid, hi.mid = min(lo.mid, it.mid), max(hi.mid, it.mid)
		lo.group, hi.group = min(lo.group, it.group), max(hi.group, it.group)
	}
	midBits := bits.Len32(hi.mid - lo.mid)
	seriesBits := bits.Len32(hi.group-lo.group) + midBits
	capBits := bits.Len64(uint64(hi.cap) - uint64(lo.cap))
	placeBits := bits.Len(uint(len(items) - 1))
	if seriesBits+placeBits > 64 {
		slices.SortFunc(items, compareItems)
		return
	}
	withCap := seriesBits+capBits+placeBits <= 64
	p.keys = p.keys[:0]
	for i := range items {
		it := &items[i]
		key := uint64(it.group-lo.group)<<midBits | uint64(it.mid-lo.mid)
		if withCap {
			key = key<<capBits | (uint64(it.cap) - uint64(lo.cap))
		}
		p.keys = append(p.keys, key<<placeBits|uint64(i))
	}
	slices.Sort(p.keys)
	p.sorted = slices.Grow(p.sorted[:0], len(items))
	for _, key := range p.keys {
		p.sorted = append(p.sorted, items[key&(1<<placeBits-1)])
	}
	copy(items, p.sorted)
	p.sortTies(items, placeBits, withCap)
}

// sortTies brings items whose numbers tie into order: rows of one device, of one cap too when the
// caps are in the numbers.
func (p *partitioner) sortTies(items []item, placeBits int, withCap bool) {
	for from := 0; from < len(items); {
		to := from + 1
		for to < len(items) && p.keys[to]>>placeBits == p.keys[from]>>placeBits {
			to++
		}
		if tied := items[from:to]; len(tied) > 1 {
			if withCap {
				slices.SortFunc(tied, func(a, b item) int { return cmp.Compare(a.rank, b.rank) })
			} else {
				slices.SortFunc(tied, compareItems)
			}
		}
		from = to
	}
}
