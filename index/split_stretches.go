package index

import (
	"runtime"

	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// stretchReadings is how many readings of a series make it pay to divide stretches in place of
	// items.
	stretchReadings = 16
	// nthSample is how many keys are looked at to find about where one of a number of keys is, and
	// nthMargin how far off it may be among them: four times the standard deviation.
	nthSample = 1024
	nthMargin = 64
)

// stretch is items of one series that follow one another, by number.
type stretch struct{ from, to uint32 }

// stretches divides items as stretches of their series. In each, caps and ranks ascend, so a cut is
// searched for and nothing is moved.
type stretches struct {
	*Clusterer
	items []item
	dim   record.Dim // of the cut that is made
}

// splitItems is split for items that bySeries has just made.
func (c *Clusterer) splitItems(items []item) {
	if len(items) > c.opt.BlockRows && c.ranksAscend &&
		len(items) >= stretchReadings*len(c.ofSeries) {
		c.splitStretches(items)
		return
	}
	c.split(items)
}

// splitStretches is split for items of which Clusterer.ofSeries are the series, where the ranks of
// each ascend. It makes the same blocks.
func (c *Clusterer) splitStretches(items []item) {
	s := stretches{Clusterer: c, items: items}
	s.split(c.ofSeries, len(items))
}

// split divides stretches of n items until they fit a block.
func (s *stretches) split(of []stretch, n int) {
	base := len(s.cuts)
	for n > s.opt.BlockRows && s.err == nil {
		runtime.Gosched() // queries come first
		at := placeOfCut(n, s.opt.BlockRows)
		low, high := s.cut(of, n, at)
		s.split(low, at)
		of, n = high, n-at
	}
	if n > 0 && s.err == nil {
		s.leaf(s.together(of, n))
		s.handOver(s.partRows)
	}
	s.cuts = s.cuts[:base]
}

// together returns the n items of stretches in one slice, which lasts until the next call.
func (s *stretches) together(of []stretch, n int) []item {
	first := of[0].from
	if int(of[len(of)-1].to-first) == n { // nothing is between them
		return s.items[first:][:n]
	}
	s.block = emptied(s.block, n)
	for _, x := range of {
		s.block = append(s.block, s.items[x.from:x.to]...)
	}
	return s.block
}

// cut divides stretches of n items along the widest dimension: the first ones have at items.
func (s *stretches) cut(of []stretch, n, at int) (low, high []stretch) {
	s.dim = s.widestOf(of)
	base := len(s.cuts)
	if s.dim == record.MID {
		return s.cutDevices(of, at)
	}
	key, ties := s.nth(of, n, at)
	for _, x := range of { // those behind the cut come first: they are needed longer
		if y := s.behind(x, key, &ties); y.from < y.to {
			s.cuts = append(s.cuts, y)
		}
	}
	middle := len(s.cuts)
	high = s.cuts[base:middle:middle]
	k := 0
	for _, x := range of {
		if k < len(high) && high[k].from >= x.from && high[k].from < x.to {
			x.to = high[k].from
			k++
		}
		if x.from < x.to {
			s.cuts = append(s.cuts, x)
		}
	}
	return s.cuts[middle:len(s.cuts):len(s.cuts)], high
}

// cutDevices divides stretches behind a number of items.
func (s *stretches) cutDevices(of []stretch, at int) (low, high []stretch) {
	i, before := 0, 0
	for ; before+of[i].len() <= at; i++ {
		before += of[i].len()
	}
	middle := of[i].from + uint32(at-before)
	base := len(s.cuts)
	s.cuts = append(append(s.cuts, stretch{middle, of[i].to}), of[i+1:]...)
	high = s.cuts[base:len(s.cuts):len(s.cuts)]
	base = len(s.cuts)
	if s.cuts = append(s.cuts, of[:i]...); before < at {
		s.cuts = append(s.cuts, stretch{of[i].from, middle})
	}
	return s.cuts[base:len(s.cuts):len(s.cuts)], high
}

func (x stretch) len() int { return int(x.to - x.from) }

// widestOf is widest for stretches, which are sorted by device.
func (s *stretches) widestOf(of []stretch) record.Dim {
	first, last := &s.items[of[0].from], &s.items[of[len(of)-1].to-1]
	lo, hi := *first, *last
	for _, x := range of {
		a, b := &s.items[x.from], &s.items[x.to-1]
		lo.cap, hi.cap = min(lo.cap, a.cap), max(hi.cap, b.cap)
		lo.rank, hi.rank = min(lo.rank, a.rank), max(hi.rank, b.rank)
	}
	lo.mid, hi.mid = first.mid, last.mid
	d, _ := s.widestBetween(&lo, &hi)
	return d
}

// key returns what is cut of an item, order-preserving.
func (s *stretches) key(i uint32) uint64 {
	if s.dim == record.Cap {
		return uint64(s.items[i].cap) ^ 1<<63
	}
	return uint64(s.items[i].rank)
}

// below returns the first item of a stretch whose key is a number or more, its end if there is
// none.
func (s *stretches) below(x stretch, number uint64) uint32 {
	from, n := x.from, x.to-x.from
	for n > 0 {
		if half := n / 2; s.key(from+half) < number {
			from, n = from+half+1, n-half-1
		} else {
			n = half
		}
	}
	return from
}

// behind returns the part of a stretch whose keys are a number or more, without those that equal it
// while there are ties.
func (s *stretches) behind(x stretch, number uint64, ties *int) stretch {
	for x.from = s.below(x, number); *ties > 0 && x.from < x.to && s.key(x.from) == number; {
		x.from++
		*ties--
	}
	return x
}

// nth returns the key that is at a place among the n keys of stretches, were they sorted, and how
// many keys before that place equal it.
func (s *stretches) nth(of []stretch, n, at int) (key uint64, ties int) {
	low, high := s.about(of, n, at)
	below := s.between(of, low, high)
	if at < below || at >= below+len(s.keys) {
		below = s.between(of, 0, ^uint64(0))
	}
	selectNth(s.keys, at-below)
	key = s.keys[at-below]
	for _, k := range s.keys[:at-below] {
		if k == key {
			ties++
		}
	}
	return key, ties
}

// about returns two keys between which is, in all likelihood, the one at a place.
func (s *stretches) about(of []stretch, n, at int) (low, high uint64) {
	low, high = 0, ^uint64(0)
	if n <= 2*nthSample {
		return low, high
	}
	step := (n + nthSample - 1) / nthSample
	s.keys = emptied(s.keys, nthSample)
	before, k := 0, 0
	for from := 0; from < n; from += step {
		i := min(anyOf(from, step), n-1)
		for before+of[k].len() <= i {
			before += of[k].len()
			k++
		}
		s.keys = append(s.keys, s.key(of[k].from+uint32(i-before)))
	}
	sampled := len(s.keys)
	place := int(int64(at) * int64(sampled) / int64(n))
	if place-nthMargin >= 0 {
		selectNth(s.keys, place-nthMargin)
		low = s.keys[place-nthMargin]
	}
	if place+nthMargin < sampled {
		selectNth(s.keys, place+nthMargin)
		high = s.keys[place+nthMargin]
	}
	return low, high
}

// between gathers the keys from low to high, and returns how many are below.
func (s *stretches) between(of []stretch, low, high uint64) (below int) {
	s.keys = s.keys[:0]
	for _, x := range of {
		from := s.below(x, low)
		below += int(from - x.from)
		for i := from; i < x.to; i++ {
			key := s.key(i)
			if key > high {
				break
			}
			s.keys = append(s.keys, key)
		}
	}
	return below
}
