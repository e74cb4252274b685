package sealed

import (
	"encoding/binary"
	"iter"
)

func damaged() error { return fail(StatusPartial, "a saved sum is damaged") }

// run is a stretch of sequence numbers, both ends included.
type run struct {
	from, to uint32
	next     int32 // of its chain, in the runs of the sum
}

// addRun adds a run to chain number i, in front of the last one or behind it where they touch. Rows
// of a block mostly go on where the row before them ended.
//
//go:noinline
func (s *Sum) addRun(i int, from, to uint32) {
	c, at := &s.chains[i], int32(len(s.runs))
	if c.n > 0 {
		last := &s.runs[c.last]
		if last.to+1 == from {
			last.to = to
			return
		}
		if last.from == to+1 { // sealed newest first
			last.from = from
			c.unsorted = c.unsorted || c.n > 1
			return
		}
		c.unsorted = c.unsorted || last.to >= from
		last.next = at
	} else {
		c.first = at
	}
	c.last = at
	c.n++
	s.runs = append(s.runs, run{from: from, to: to})
}

// runsOf yields the runs of a chain.
func (s *Sum) runsOf(c *chain) iter.Seq[run] {
	return func(yield func(run) bool) {
		for at, n := c.first, c.n; n > 0 && yield(s.runs[at]); n-- {
			at = s.runs[at].next
		}
	}
}

// maxSorted is how many runs are sorted at most when a sum is written: there is fuel for that in
// the worst of orders.
const maxSorted = 1 << 13

// sortRuns sorts the runs of chains that are not in order.
func (s *Sum) sortRuns() {
	left := int32(maxSorted)
	for i := range s.chains {
		if c := &s.chains[i]; c.unsorted && c.n <= left {
			left -= c.n
			s.sortChain(c)
		}
	}
}

// sortChain sorts the runs of a chain and joins those that touch. Runs that overlap are kept, so
// that who reads them sees it.
func (s *Sum) sortChain(c *chain) {
	s.sorted = s.sorted[:0]
	for r := range s.runsOf(c) {
		s.sorted = append(s.sorted, r)
	}
	for _, step := range [...]int{1750, 701, 301, 132, 57, 23, 10, 4, 1} {
		sortEvery(s.sorted, step)
	}
	c.n, c.unsorted, c.last = 0, false, c.first
	for _, r := range s.sorted {
		last := &s.runs[c.last]
		switch {
		case c.n > 0 && last.to+1 == r.from:
			last.to = r.to
			continue
		case c.n > 0:
			c.unsorted = c.unsorted || r.from <= last.to
			c.last = last.next
		}
		s.runs[c.last].from, s.runs[c.last].to = r.from, r.to
		c.n++
	}
}

// sortEvery is a step of Shell's sort, as Ciura chose them.
//
//go:noinline
func sortEvery(r []run, step int) {
	for i := step; i < len(r); i++ {
		x, at := r[i], i
		for ; at >= step && r[at-step].from > x.from; at -= step {
			r[at] = r[at-step]
		}
		r[at] = x
	}
}

// How runs are written: sorted ones by the gaps between them, others by signed steps, a bitmap with
// a bit for each number. Who reads them sorts them, as not all are sorted here.
const (
	runsSorted   = 0
	runsBitmap   = 1
	runsUnsorted = 2
)

// appendRuns appends the runs of a chain: as a bitmap where these are many and near to each other.
func (s *Sum) appendRuns(dst []byte, c *chain) []byte {
	span := uint64(s.runs[c.last].to) - uint64(s.runs[c.first].from) + 1
	if !c.unsorted && c.n > 16 && span/8 < uint64(c.n) {
		return s.appendBitmap(dst, c, span)
	}
	form := byte(runsSorted)
	if c.unsorted {
		form = runsUnsorted
	}
	dst = binary.AppendUvarint(append(dst, form), uint64(c.n))
	next := int64(0)
	for r := range s.runsOf(c) {
		step := int64(r.from) - next
		if c.unsorted {
			dst = binary.AppendVarint(dst, step)
		} else {
			dst = binary.AppendUvarint(dst, uint64(step))
		}
		dst = binary.AppendUvarint(dst, uint64(r.to-r.from))
		next = int64(r.to) + 1
	}
	return dst
}

func (s *Sum) appendBitmap(dst []byte, c *chain, span uint64) []byte {
	first := s.runs[c.first].from
	dst = binary.AppendUvarint(append(dst, runsBitmap), uint64(first))
	dst = binary.AppendUvarint(dst, span)
	at := len(dst)
	dst = append(dst, make([]byte, (span+7)/8)...)
	for r := range s.runsOf(c) {
		for k := uint64(r.from - first); k <= uint64(r.to-first); k++ {
			dst[at+int(k/8)] |= 1 << (k % 8)
		}
	}
	return dst
}

// saved reads what a sum was saved as. After an error it reads zeros.
type saved struct {
	rest []byte
	bad  bool
}

func (in *saved) take(n uint64) []byte {
	if n > uint64(len(in.rest)) {
		in.bad = true
	}
	if in.bad {
		return nil
	}
	out := in.rest[:n]
	in.rest = in.rest[n:]
	return out
}

func (in *saved) u32() uint32 {
	if b := in.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (in *saved) u64() uint64 {
	if b := in.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (in *saved) uvarint() uint64 {
	v, n := binary.Uvarint(in.rest)
	if n <= 0 {
		in.bad = true
	}
	if in.bad {
		return 0
	}
	in.rest = in.rest[n:]
	return v
}

// chain adds a saved chain of a series.
//
//go:noinline
func (in *saved) chain(s *Sum, series seriesID) {
	id := chainID{series, in.u64(), in.u32()}
	if !in.bad {
		in.runs(s, s.chain(&id))
	}
}

// runs adds saved runs to a chain. What is allocated is bounded by the bytes that are there.
func (in *saved) runs(s *Sum, chain int) {
	form := in.take(1)
	switch {
	case in.bad:
	case form[0] == runsBitmap:
		in.bitmap(s, chain)
	case form[0] == runsSorted || form[0] == runsUnsorted:
		next := uint64(0)
		n := in.uvarint()
		in.bad = in.bad || n == 0
		for ; n > 0 && !in.bad; n-- {
			step := in.uvarint()
			if form[0] == runsUnsorted {
				step = step>>1 ^ -(step & 1)
			}
			from := next + step
			to := from + in.uvarint()
			if in.bad = in.bad || from == 0 || from > to || to > 1<<32-1; !in.bad {
				s.addRun(chain, uint32(from), uint32(to))
			}
			next = to + 1
		}
	default:
		in.bad = true
	}
}

func (in *saved) bitmap(s *Sum, chain int) {
	first, n := in.uvarint(), in.uvarint()
	if first == 0 || first > 1<<32-1 || n == 0 || n > 1<<32-first {
		in.bad = true
	}
	if in.bad {
		return
	}
	for i, b := range in.take((n + 7) / 8) {
		for k := range uint64(8) {
			if at := uint64(8*i) + k; b>>k&1 != 0 && at < n {
				s.addRun(chain, uint32(first+at), uint32(first+at))
			}
		}
	}
	in.bad = in.bad || s.chains[chain].n == 0
}
