package index

import (
	"slices"
	"sort"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/pentad-db/pentad/sdk/record"
)

// maxBlocks is how many blocks a segment has at most, so that every posting list is a single
// roaring container.
const maxBlocks = 1 << 16

// maxRows is how many rows a segment has at most.
const maxRows = maxBlocks * maxBlockRows

// maxBins is how finely a dimension is divided. More bins make lists shorter and the index
// larger; devices are asked for most narrowly. Tenants and quantities are usually few: then the
// bins are exact.
var maxBins = [record.NumDims]int{
	record.CID: 128, record.MID: 128, record.MOID: 128, record.Cap: 64, record.Acq: 64,
}

// posting is a list of block ids, and its length. A list of many blocks is also a bit per block of
// the segment, which is looked into 64 blocks at a time: at most 4 MB in 100 million rows.
type posting struct {
	ids   *roaring.Bitmap
	count int
	words []uint64
}

// finish notes the length of the list, in a segment of this many blocks.
func (l *posting) finish(blocks int) {
	l.count = int(l.ids.GetCardinality())
	if l.count <= enoughCandidates {
		return
	}
	l.words = make([]uint64, max(wordsFor(blocks), int(l.ids.DenseSize())))
	l.ids.WriteDenseTo(l.words)
	l.words = l.words[:wordsFor(blocks)]
}

// postings are the lists of one dimension. Of bin i: le holds the blocks whose smallest value is at
// most bounds[i], ge those whose greatest is at least bounds[i], ov those that have values in
// [bounds[i], bounds[i+1]), the last bin being open.
type postings struct {
	bounds     []int64
	le, ge, ov []posting
}

func buildPostings(blocks []BlockInfo, d record.Dim) postings {
	p := postings{bounds: binBounds(blocks, d)}
	p.fill(blocks, d)
	return p
}

// fill makes the lists of given bins.
func (p *postings) fill(blocks []BlockInfo, d record.Dim) {
	n := len(p.bounds)
	p.le, p.ge, p.ov = newPostings(n), newPostings(n), newPostings(n)
	for id := range blocks {
		lo, hi := blocks[id].Min[d], blocks[id].Max[d]
		first, last := p.bin(lo), p.bin(hi)
		for i := first; i <= last; i++ {
			p.ov[i].ids.Add(uint32(id))
		}
		for i := sort.Search(n, func(i int) bool { return p.bounds[i] >= lo }); i < n; i++ {
			p.le[i].ids.Add(uint32(id))
		}
		for i := 0; i < n && p.bounds[i] <= hi; i++ {
			p.ge[i].ids.Add(uint32(id))
		}
	}
	for _, list := range [][]posting{p.le, p.ge, p.ov} {
		for i := range list {
			list[i].ids.RunOptimize()
			list[i].finish(len(blocks))
		}
	}
}

func newPostings(n int) []posting {
	list := make([]posting, n)
	for i := range list {
		list[i].ids = roaring.New()
	}
	return list
}

// binBounds takes all distinct ends of blocks, or so many quantiles of them. The first is the
// smallest value of the segment.
func binBounds(blocks []BlockInfo, d record.Dim) []int64 {
	ends := make([]int64, 0, 2*len(blocks))
	for i := range blocks {
		ends = append(ends, blocks[i].Min[d], blocks[i].Max[d])
	}
	slices.Sort(ends)
	distinct := slices.Compact(slices.Clone(ends))
	if len(distinct) <= maxBins[d] {
		return distinct
	}
	bounds := make([]int64, 0, maxBins[d])
	for i := range maxBins[d] {
		bounds = append(bounds, ends[i*len(ends)/maxBins[d]])
	}
	return slices.Compact(bounds)
}

// bin returns the bin that a value lies in; values below all bins count as in the first.
func (p *postings) bin(v int64) int {
	return max(0, sort.Search(len(p.bounds), func(i int) bool { return p.bounds[i] > v })-1)
}

// lists appends the lists whose intersection holds every block with a value in [lo, hi].
func (p *postings) lists(lo, hi int64, blocks int, dst []*posting) []*posting {
	first, last := p.bin(lo), p.bin(hi)
	if first == last {
		return append(dst, &p.ov[first])
	}
	if l := &p.ge[first]; l.count < blocks {
		dst = append(dst, l)
	}
	up := last
	if p.bounds[up] < hi {
		up++
	}
	if up < len(p.bounds) && p.le[up].count < blocks {
		dst = append(dst, &p.le[up])
	}
	return dst
}
