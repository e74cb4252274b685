package segment

import (
	"slices"
	"sort"

	"github.com/pentad-db/pentad/sdk/record"
)

// filterRuns is FilterSpan for a block with runs.
func (b *Block) filterRuns(d record.Dim, set record.RangeSet, lo, hi int, sel []uint32) []uint32 {
	if lo >= hi {
		return sel
	}
	if len(set) == 0 {
		return appendSpan(sel, lo, hi)
	}
	switch {
	case d == record.Cap && b.hasCapSpans(set):
		b.spans = b.filterCapRange(set[0], lo, hi, b.spans[:0])
		for _, s := range b.spans {
			sel = appendSpan(sel, int(s.Lo), int(s.Hi))
		}
		return sel
	case d < record.Cap:
		var all bool
		if b.matches, all = b.keys[d].translate(set, b.matches[:0]); all {
			return appendSpan(sel, lo, hi)
		}
	}
	run, until := b.beginRuns(d, lo, hi)
	for ; run < until && lo < hi; run++ {
		end := min(int(b.runStart(run+1)), hi)
		if lo >= end {
			continue
		}
		switch {
		case d == record.Cap:
			sel = b.filterCaps(set, run, lo, end, sel)
		case d == record.Acq:
			sel = b.filterRanks(set, run, lo, end, sel)
		case matchesAny(b.matches, b.keys[d].packed(run)):
			sel = appendSpan(sel, lo, end)
		}
		lo = end
	}
	return sel
}

// beginRuns returns which runs the rows [lo, hi) are in, and unpacks what is needed of them where
// they are many.
func (b *Block) beginRuns(d record.Dim, lo, hi int) (first, end int) {
	first, end = b.runsOf(lo, hi)
	b.loadFor(end - first)
	if d >= record.Cap {
		b.runLine(d, end-first)
	}
	return first, end
}

// appendSpan appends the positions [lo, hi).
func appendSpan(sel []uint32, lo, hi int) []uint32 {
	if lo >= hi {
		return sel
	}
	at := len(sel)
	sel = slices.Grow(sel, hi-lo)[:at+hi-lo]
	if out := sel[at:]; len(out) < fewRows {
		for k := range out {
			out[k] = uint32(lo + k)
		}
	} else {
		writePositions(out, lo)
	}
	return sel
}

// filterRanks appends those of the rows [lo, hi) of a run whose ranks lie in a set.
func (b *Block) filterRanks(set record.RangeSet, run, lo, hi int, sel []uint32) []uint32 {
	l, c := &b.runs.lines[1], &b.keys[record.Acq]
	start := int(b.runStart(run))
	base, slope := l.of(run)
	if len(set) > 1 || slope <= 0 {
		return b.testRanks(set, run, lo, hi, sel)
	}
	in := set[0]
	least := base + slope*int64(lo-start) + int64(c.base)
	most := least + slope*int64(hi-1-lo) + int64(c.gcd*c.maxPacked)
	switch {
	case in.From <= least && most < in.To:
		return appendSpan(sel, lo, hi)
	case most < in.From || in.To <= least:
		return sel
	}
	mayStart, starts := lineAround(base, slope, start, lo, hi, c, in.From)
	mayEnd, ends := lineAround(base, slope, start, lo, hi, c, in.To)
	if mayEnd <= starts {
		return b.testRanks(set, run, mayStart, ends, sel)
	}
	sel = b.testRanks(set, run, mayStart, starts, sel)
	sel = appendSpan(sel, starts, mayEnd)
	return b.testRanks(set, run, mayEnd, ends, sel)
}

// fewRanks is up to how many rows looking at each is faster than decoding them together.
const fewRanks = 16

// testRanks is filterRanks that looks at each row.
func (b *Block) testRanks(set record.RangeSet, run, lo, hi int, sel []uint32) []uint32 {
	l, c := &b.runs.lines[1], &b.keys[record.Acq]
	base, slope := l.of(run)
	start := int(b.runStart(run))
	if hi-lo <= fewRanks {
		for ; lo < hi; lo++ {
			if set.Contains(base + slope*int64(lo-start) + int64(c.value(lo))) {
				sel = append(sel, uint32(lo))
			}
		}
		return sel
	}
	var ranks [decodeRows]int64
	for lo < hi {
		n := min(hi-lo, decodeRows)
		w := wordWriterOf(ranks[:])
		span := [1]Span{{uint32(lo), uint32(lo + n)}}
		c.write(&positions{spans: span[:], n: n}, &w)
		writeLine(ranks[:n], base+slope*int64(lo-start), slope, true)
		for k, rank := range ranks[:n] {
			if set.Contains(rank) {
				sel = append(sel, uint32(lo+k))
			}
		}
		lo += n
	}
	return sel
}

// filterRunsSelected is Filter for a block with runs.
func (b *Block) filterRunsSelected(d record.Dim, set record.RangeSet, sel []uint32) []uint32 {
	if len(set) == 0 || len(sel) == 0 {
		return sel
	}
	run, k := 0, 0
	if d < record.Cap {
		b.loadFor(min(len(sel), b.runsIn(int(sel[len(sel)-1]-sel[0]))))
		c := &b.keys[d]
		b.matches, _ = c.translate(set, b.matches[:0])
		keep, until := false, uint32(0) // of the run that ends at until
		for _, i := range sel {
			if i >= until {
				run = b.runOf(i, run)
				keep, until = matchesAny(b.matches, c.packed(run)), b.runStart(run+1)
			}
			if sel[k] = i; keep {
				k++
			}
		}
		return sel[:k]
	}
	values := b.values(d, sel)
	for n, i := range sel {
		if sel[k] = i; set.Contains(values[n]) {
			k++
		}
	}
	return sel[:k]
}

// runsOf returns which runs the rows [lo, hi) are in.
func (b *Block) runsOf(lo, hi int) (first, end int) {
	if lo > 0 {
		first = b.runOf(uint32(lo), 0)
	}
	if hi == b.rows {
		return first, b.runs.count
	}
	return first, b.runOf(uint32(hi-1), first) + 1
}

// searchRuns is SearchMIDs for a block with runs.
func (b *Block) searchRuns(lo, hi int, m MIDs) (first, end int) {
	c := &b.keys[record.MID]
	run, until := b.runsOf(lo, hi)
	runs := float64(until - 1 - run)
	from := c.search(run, until, m.low, run+int(m.share*runs))
	to := until
	if m.last != c.maxPacked && from < until {
		to = c.endOf(from, until, m.last)
	}
	if from >= to {
		return hi, hi
	}
	first, end = max(lo, int(b.runStart(from))), min(hi, int(b.runStart(to)))
	return min(first, end), end
}

// searchReadingInRuns is SearchReading for a block with runs.
func (b *Block) searchReadingInRuns(lo, hi int, k record.Key) (first, end int) {
	if lo >= hi {
		return lo, lo
	}
	run, until := b.runsOf(lo, hi)
	for _, d := range sortedBy[:len(sortedBy)-1] {
		c := &b.keys[d]
		v, ok := c.pack(k.Part(d))
		if run == until || !ok {
			return lo, lo
		}
		if c.width > 0 {
			run = c.lowerBound(run, until, v)
			if v < c.maxPacked {
				until = c.endOf(run, until, v)
			}
		}
	}
	if run == until {
		return lo, lo
	}
	lo, hi = max(lo, int(b.runStart(run))), min(hi, int(b.runStart(until)))
	if lo >= hi {
		return lo, lo
	}
	above := func(capNs int64) func(i int) bool {
		return func(i int) bool {
			return b.capIn(b.runOf(uint32(lo+i), run), lo+i) > capNs
		}
	}
	first = lo
	if k.CapNs > record.Cap.Min() {
		first += sort.Search(hi-lo, above(k.CapNs-1))
	}
	return first, lo + sort.Search(hi-lo, above(k.CapNs))
}

// DeviceSpan is the rows [Lo, Hi) of a block, which are of one device.
type DeviceSpan struct {
	MID    int64
	Lo, Hi uint32
}

// AppendDevices appends the devices of the rows [lo, hi), where these are sorted by mid. It is not
// ok, and appends nothing, where that takes a look at each row, or the block has more than most
// runs.
func (b *Block) AppendDevices(
	lo, hi, most int, dst []DeviceSpan,
) (spans []DeviceSpan, ok bool) {
	if b.runs.count == 0 || b.runs.count > most || lo >= hi {
		return dst, false
	}
	t := &b.runs
	run, until := b.runsOf(lo, hi)
	b.loadStarts()
	b.loadMIDs()
	from := len(dst)
	for ; run < until; run++ {
		end := min(t.starts[run+1], uint32(hi))
		if at := max(t.starts[run], uint32(lo)); at >= end {
			continue
		} else if n := len(dst); n > from && dst[n-1].MID == t.mids[run] {
			dst[n-1].Hi = end
		} else {
			dst = append(dst, DeviceSpan{t.mids[run], at, end})
		}
	}
	return dst, true
}
