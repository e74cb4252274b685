package index

import (
	"math/bits"
	"slices"
	"sort"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// enoughCandidates: below this many blocks, looking at their zones is cheaper than
	// intersecting another list.
	enoughCandidates = 128
	// fewRanges are looked through one by one.
	fewRanges = 8
)

// Candidate is a block that a box can meet. Residual has a bit for each dimension in which the
// block reaches outside the box; after Plan, 0 means that all its rows are in the box. The bits
// above those of dimensions are the caller's.
type Candidate struct {
	Block    uint32
	Residual uint8
}

// PlanStats say how a plan came about.
type PlanStats struct {
	Blocks         int // blocks of the segment
	Listed         int // left by posting lists
	Lists          int // lists looked at
	Inside         int // candidates wholly inside the box
	DroppedByZones [record.NumDims]int
}

// Plan is the outcome of planning a box on one segment, and the memory that planning needs. It
// may be used again and again, by one goroutine at a time.
type Plan struct {
	Candidates []Candidate     // ascending by block
	Ranks      record.RangeSet // the acq of the box as ranks of the segment
	Stats      PlanStats

	ids    []uint32
	lists  []*posting
	unions [record.NumDims][]uint64
	sets   [][]uint64 // bitmaps of blocks, see and
	tests  []zoneTest
	iter   roaring.ManyIntIterator
}

// Plan finds the blocks that may hold rows of a normalized box.
//
// Cost: about a microsecond, several where thousands of blocks are left, a few hundred with a
// thousand ranges; no allocation once p has grown.
func (s *Segment) Plan(box *record.Box, p *Plan) {
	p.Candidates, p.lists = p.Candidates[:0], p.lists[:0]
	p.Stats = PlanStats{Blocks: len(s.blocks)}
	p.Ranks = s.AppendRankRanges(p.Ranks[:0], box)
	if len(box[record.Acq]) > 0 && len(p.Ranks) == 0 {
		return
	}
	constrained := *box
	constrained[record.Acq] = p.Ranks
	if len(p.Ranks) == 1 && p.Ranks[0].From == 0 && p.Ranks[0].To == int64(s.rows) {
		constrained[record.Acq] = nil
	}
	if moids := s.bounds[record.MOID]; box[record.MOID].Covers(moids.Min, moids.Max) {
		constrained[record.MOID] = nil // nearly always all but reserved moids
	}
	for d := range record.NumDims {
		s.list(record.Dim(d), constrained[d], p)
	}
	s.intersect(p)
	p.Stats.Listed = len(p.ids)
	s.classify(&constrained, p)
}

// list chooses the posting lists of one dimension. Of a set of several ranges it makes the union
// of each range's shortest list.
func (s *Segment) list(d record.Dim, set record.RangeSet, p *Plan) {
	p.unions[d] = p.unions[d][:0]
	if len(set) == 0 {
		return
	}
	if len(set) == 1 {
		p.lists = s.postings[d].lists(set[0].From, set[0].To-1, len(s.blocks), p.lists)
		return
	}
	words := p.dense(&p.unions[d], wordsFor(len(s.blocks)))
	clear(words)
	kept := len(p.lists)
	var before *posting
	for _, r := range set {
		p.lists = s.postings[d].lists(r.From, r.To-1, len(s.blocks), p.lists[:kept])
		if len(p.lists) == kept { // this range alone leaves every block
			p.unions[d] = words[:0]
			return
		}
		smallest := p.lists[kept]
		if len(p.lists) > kept+1 && p.lists[kept+1].count < smallest.count {
			smallest = p.lists[kept+1]
		}
		if smallest == before { // neighbouring ranges often share a bin
			continue
		}
		before = smallest
		p.load(smallest)
		for _, id := range p.ids {
			words[id>>6] |= 1 << (id & 63)
		}
	}
	p.lists = p.lists[:kept]
	p.unions[d] = words
}

func wordsFor(blocks int) int { return (blocks + 63) / 64 }

// load reads the ids of a list into p.ids.
func (p *Plan) load(l *posting) {
	p.ids = slices.Grow(p.ids[:0], l.count)[:l.count]
	p.iter.Initialize(l.ids)
	p.ids = p.ids[:p.iter.NextMany(p.ids)]
}

// intersect leaves in p.ids the blocks that lists and unions agree on: id by id where the shortest
// list is short, and the zones do the rest, otherwise 64 at a time.
func (s *Segment) intersect(p *Plan) {
	for i, l := range p.lists {
		if l.count < p.lists[0].count {
			p.lists[0], p.lists[i] = l, p.lists[0]
		}
	}
	words := p.sets[:0]
	for _, union := range p.unions {
		if len(union) > 0 {
			words = append(words, union)
		}
	}
	if len(p.lists) > 0 && p.lists[0].words == nil {
		p.load(p.lists[0])
		for _, union := range words {
			p.keep(union)
		}
		p.Stats.Lists += 1 + len(words)
	} else {
		slices.SortFunc(p.lists, func(a, b *posting) int { return a.count - b.count })
		for _, l := range p.lists {
			words = append(words, l.words) // all have them if the shortest has
		}
		p.and(words, len(s.blocks))
		p.Stats.Lists += len(words)
	}
	p.sets = words
}

// and leaves in p.ids the blocks whose bit is set in all of the words. Those after the first two
// are looked at only where these have a bit in common.
func (p *Plan) and(words [][]uint64, blocks int) {
	p.ids = p.ids[:0]
	if len(words) == 0 {
		for id := range blocks {
			p.ids = append(p.ids, uint32(id))
		}
		return
	}
	first, rest := words[0], words[1:]
	second := first
	if len(rest) > 0 {
		second, rest = rest[0], rest[1:]
	}
	second = second[:len(first)]
	for i, word := range first {
		if word &= second[i]; word == 0 {
			continue
		}
		for _, by := range rest {
			word &= by[i]
		}
		for ; word != 0; word &= word - 1 {
			p.ids = append(p.ids, uint32(i<<6+bits.TrailingZeros64(word)))
		}
	}
}

// dense makes space for this many words; what they hold is undefined.
func (p *Plan) dense(words *[]uint64, count int) []uint64 {
	*words = slices.Grow((*words)[:0], count)[:count]
	return *words
}

// keep drops the ids whose bit is not set.
func (p *Plan) keep(words []uint64) {
	k := 0
	for _, id := range p.ids {
		p.ids[k] = id
		k += int(words[id>>6] >> (id & 63) & 1)
	}
	p.ids = p.ids[:k]
}

// classify checks the zones of the blocks in p.ids against the box.
func (s *Segment) classify(box *record.Box, p *Plan) {
	tests := p.tests[:0]
	for d, set := range box {
		if len(set) > 0 {
			tests = append(tests, zoneTest{record.Dim(d), set[0]})
		}
	}
	p.tests = tests
next:
	for _, id := range p.ids {
		b, residual := &s.blocks[id], uint8(0)
		for i := range tests {
			t := &tests[i]
			least, most, r := b.Min[t.dim], b.Max[t.dim], t.first
			if r.To <= least {
				r = firstBehind(box[t.dim], least)
			}
			if r.From > most || r.To <= least {
				p.Stats.DroppedByZones[t.dim]++
				continue next
			}
			if r.From > least || most >= r.To {
				residual |= 1 << t.dim
			}
		}
		if residual == 0 {
			p.Stats.Inside++
		}
		p.Candidates = append(p.Candidates, Candidate{id, residual})
	}
}

// zoneTest is what a box asks of the zones of blocks in one dimension.
type zoneTest struct {
	dim   record.Dim
	first record.Range // of the set
}

// firstBehind returns the first range of a set that ends behind a value, or the last of all: no
// other meets first what begins there.
func firstBehind(set record.RangeSet, v int64) record.Range {
	i := 0
	if len(set) > fewRanges {
		i = sort.Search(len(set), func(i int) bool { return set[i].To > v })
	} else {
		for i < len(set) && set[i].To <= v {
			i++
		}
	}
	return set[min(i, len(set)-1)]
}
