package index

import (
	"cmp"
	"slices"
	"sort"

	"github.com/pentad-db/pentad/sdk/record"
)

// rowsByPair lists rows by their pair of tenant and quantity, those of one pair in the order that
// they had.
type rowsByPair struct {
	order  []uint32 // numbers of the rows
	starts []uint32 // pair -> where its rows begin, and where those of the last one end
}

// trim leaves pairs without rows out at both ends of [lo, hi).
func (g *rowsByPair) trim(lo, hi int) (int, int) {
	for lo < hi && g.starts[lo+1] == g.starts[lo] {
		lo++
	}
	for hi > lo && g.starts[hi-1] == g.starts[hi] {
		hi--
	}
	return lo, hi
}

// recentPairs is how many pairs are found without a map.
const recentPairs = 1 << 10

// pair is a tenant and a quantity, and its number in order of appearance.
type pair struct {
	cid, moid int32
	number    uint32
	isSet     bool
}

// numberPairs numbers the pairs of tenant and quantity as they appear, and lists them in ascending
// order.
func (c *Clusterer) numberPairs(rows *record.Batch) {
	n := rows.Len()
	c.pairOf, c.pairs = emptied(c.pairOf, n)[:n], c.pairs[:0]
	clear(c.recent[:])
	clear(c.numbers)
	for i := range n {
		cid, moid := rows.CID[i], rows.MOID[i]
		r := &c.recent[(uint32(cid)*0x9e3779b1+uint32(moid)*0x85ebca6b)>>(32-10)]
		if r.cid != cid || r.moid != moid || !r.isSet {
			*r = c.number(cid, moid)
		}
		c.pairOf[i] = r.number
	}
	slices.SortFunc(c.pairs, func(a, b pair) int {
		return cmp.Or(cmp.Compare(a.cid, b.cid), cmp.Compare(a.moid, b.moid))
	})
	c.cids, c.moids = c.cids[:0], c.moids[:0]
	for _, p := range c.pairs {
		c.cids, c.moids = append(c.cids, p.cid), append(c.moids, p.moid)
	}
}

func (c *Clusterer) number(cid, moid int32) pair {
	key := [2]int32{cid, moid}
	number, ok := c.numbers[key]
	p := pair{cid, moid, number, true}
	if !ok {
		p.number = uint32(len(c.pairs))
		c.numbers[key] = p.number
		c.pairs = append(c.pairs, p)
	}
	return p
}

// group lists by pair the rows that are late, which ascend, and the others.
func (c *Clusterer) group(late []uint32) {
	n := c.rows.Len()
	c.order = emptied(c.order, n)[:n]
	lateOnes, others := &c.groups[1], &c.groups[0]
	lateOnes.count(c, late)
	others.starts = emptied(others.starts, len(c.pairs)+1)[:len(c.pairs)+1]
	clear(others.starts)
	for _, p := range c.pairOf {
		others.starts[p]++
	}
	for p := range c.pairs {
		others.starts[p] -= lateOnes.starts[p]
	}
	others.order, lateOnes.order = c.order[:n-len(late)], c.order[n-len(late):]
	next := c.begins(others)
	k := 0
	for i, p := range c.pairOf {
		if k < len(late) && late[k] == uint32(i) {
			k++
			continue
		}
		others.order[next[p]] = uint32(i)
		next[p]++
	}
	next = c.begins(lateOnes)
	for _, i := range late {
		p := c.pairOf[i]
		lateOnes.order[next[p]] = i
		next[p]++
	}
}

// count counts rows by the numbers of their pairs.
func (g *rowsByPair) count(c *Clusterer, rows []uint32) {
	g.starts = emptied(g.starts, len(c.pairs)+1)[:len(c.pairs)+1]
	clear(g.starts)
	for _, i := range rows {
		g.starts[c.pairOf[i]]++
	}
}

// begins turns counts by number into where the rows of pairs begin, and returns the same by number.
func (c *Clusterer) begins(g *rowsByPair) (next []uint32) {
	next = emptied(c.next, len(c.pairs))[:len(c.pairs)]
	c.next = next
	copy(next, g.starts) // counts
	at := uint32(0)
	for i, p := range c.pairs {
		g.starts[i] = at
		n := next[p.number]
		next[p.number] = at
		at += n
	}
	g.starts[len(c.pairs)] = at
	return next
}

// splitPairs divides the rows of the pairs [lo, hi) until they fit a block: between tenants, then
// between quantities, so that blocks are constant in them, which costs no bits and no filter.
func (c *Clusterer) splitPairs(g *rowsByPair, lo, hi int) {
	lo, hi = g.trim(lo, hi)
	switch rows := int(g.starts[hi] - g.starts[lo]); {
	case rows == 0:
	case hi-lo == 1 || rows <= c.opt.BlockRows:
		c.split(c.bySeries(g, lo, hi))
	default:
		at, _ := c.border(g, lo, hi)
		c.splitPairs(g, lo, at)
		c.splitPairs(g, at, hi)
	}
}

// border returns the first pair behind the border between tenants, or quantities of the one
// tenant, that is nearest to the middle of the rows of the pairs [lo, hi), which are several, the
// first and the last with rows.
func (c *Clusterer) border(g *rowsByPair, lo, hi int) (at int, dim record.Dim) {
	half := g.starts[lo] + (g.starts[hi]-g.starts[lo])/2
	middle := lo + sort.Search(hi-lo, func(i int) bool { return g.starts[lo+i+1] > half })
	dim, values := record.CID, c.cids
	if c.cids[lo] == c.cids[hi-1] {
		dim, values = record.MOID, c.moids
	}
	below := lo + sort.Search(hi-lo, func(i int) bool { return values[lo+i] >= values[middle] })
	upTo := lo + sort.Search(hi-lo, func(i int) bool { return values[lo+i] > values[middle] })
	if below == lo || upTo < hi && g.starts[upTo]-half < half-g.starts[below] {
		return upTo, dim
	}
	return below, dim
}
