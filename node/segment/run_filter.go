package segment

import (
	"math"
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
	starts := b.runStarts()
	if d < record.Cap {
		c := &b.keys[d]
		var all bool
		if b.matches, all = c.translate(set, b.matches[:0]); all {
			return appendSpan(sel, lo, hi)
		}
		for run := runOf(starts, uint32(lo), 0); lo < hi; run++ {
			end := min(int(starts[run+1]), hi)
			if lo < end && matchesAny(b.matches, c.packed(run)) {
				sel = appendSpan(sel, lo, end)
			}
			lo = max(lo, end)
		}
		return sel
	}
	b.runLine(d, hi-lo)
	for run := runOf(starts, uint32(lo), 0); lo < hi; run++ {
		if end := min(int(starts[run+1]), hi); lo < end {
			if d == record.Cap {
				sel = b.filterCaps(set, run, lo, end, sel)
			} else {
				sel = b.filterRanks(set, run, lo, end, sel)
			}
			lo = end
		}
	}
	return sel
}

// appendSpan appends the positions [lo, hi).
func appendSpan(sel []uint32, lo, hi int) []uint32 {
	if lo >= hi {
		return sel
	}
	at := len(sel)
	sel = slices.Grow(sel, hi-lo)[:at+hi-lo]
	writePositions(sel[at:], lo)
	return sel
}

// capIn returns the cap of a row of a run.
func (b *Block) capIn(run, row int) int64 {
	base, slope := b.runs.lines[0].of(run)
	return base + slope*int64(row-int(b.runs.starts[run])) + int64(b.keys[record.Cap].value(row))
}

// filterCaps appends those of the rows [lo, hi) of a run, whose caps ascend, that lie in a set.
func (b *Block) filterCaps(set record.RangeSet, run, lo, hi int, sel []uint32) []uint32 {
	first, last := b.capIn(run, lo), b.capIn(run, hi-1)
	if len(set) > manyMatches {
		set = set.Near(first, last)
	}
	for _, r := range set {
		if r.To <= first {
			continue
		}
		if r.From > last {
			break
		}
		from, to := lo, hi
		if r.From > first {
			from = b.capAt(run, lo, hi, r.From)
		}
		if r.To <= last {
			to = b.capAt(run, from, hi, r.To)
		}
		sel = appendSpan(sel, from, to)
	}
	return sel
}

// capAt returns the first of the rows [lo, hi) of a run whose cap is at least that, or hi.
func (b *Block) capAt(run, lo, hi int, capNs int64) int {
	l, c := &b.runs.lines[0], &b.keys[record.Cap]
	from, to := l.around(run, int(b.runs.starts[run]), lo, hi, c, capNs)
	return from + sort.Search(to-from, func(i int) bool { return b.capIn(run, from+i) >= capNs })
}

// around returns within which of the rows [lo, hi) of a run, which starts at a row, lies the first
// of those that are at least v: below from, all rows are less, and from to on they are not. rest is
// what is left of them. Where lines do not ascend, it may lie anywhere.
func (l *line) around(run, start, lo, hi int, rest *column, v int64) (from, to int) {
	base, slope := l.of(run)
	base += int64(rest.base)
	most := rest.gcd * rest.maxPacked
	if slope <= 0 || most/rest.gcd != rest.maxPacked || most > 1<<62 {
		return lo, hi
	}
	first := func(base int64) int { // row of the line at v
		if v <= base {
			return lo
		}
		steps := (uint64(v)-uint64(base)-1)/uint64(slope) + 1
		return max(lo, start+int(min(steps, uint64(hi-start))))
	}
	to = first(base)
	if most == 0 {
		return to, to
	}
	if base > math.MaxInt64-int64(most) {
		return lo, to
	}
	return first(base + int64(most)), to
}

// filterRanks appends those of the rows [lo, hi) of a run whose ranks lie in a set.
func (b *Block) filterRanks(set record.RangeSet, run, lo, hi int, sel []uint32) []uint32 {
	l, c := &b.runs.lines[1], &b.keys[record.Acq]
	start := int(b.runs.starts[run])
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
	mayStart, starts := l.around(run, start, lo, hi, c, in.From)
	mayEnd, ends := l.around(run, start, lo, hi, c, in.To)
	if mayEnd <= starts {
		return b.testRanks(set, run, mayStart, ends, sel)
	}
	sel = b.testRanks(set, run, mayStart, starts, sel)
	sel = appendSpan(sel, starts, mayEnd)
	return b.testRanks(set, run, mayEnd, ends, sel)
}

// testRanks is filterRanks that looks at each row.
func (b *Block) testRanks(set record.RangeSet, run, lo, hi int, sel []uint32) []uint32 {
	l, c := &b.runs.lines[1], &b.keys[record.Acq]
	var ranks [decodeRows]int64
	base, slope := l.of(run)
	for lo < hi {
		n := min(hi-lo, decodeRows)
		w := wordWriterOf(ranks[:])
		span := [1]Span{{uint32(lo), uint32(lo + n)}}
		c.write(&positions{spans: span[:], n: n}, &w)
		at := int64(lo - int(b.runs.starts[run]))
		writeLine(ranks[:n], base+slope*at, slope, true)
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
	starts, run, k := b.runStarts(), 0, 0
	if d < record.Cap {
		c := &b.keys[d]
		b.matches, _ = c.translate(set, b.matches[:0])
		keep, until := false, uint32(0) // of the run that ends at until
		for _, i := range sel {
			if i >= until {
				run = runOf(starts, i, run)
				keep, until = matchesAny(b.matches, c.packed(run)), starts[run+1]
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

// values returns caps or ranks of the rows of sel, valid until the next call.
func (b *Block) values(d record.Dim, sel []uint32) []int64 {
	b.keyValues = slices.Grow(b.keyValues[:0], len(sel))[:len(sel)]
	b.writeRuns(d, &positions{sel: sel, n: len(sel)}, b.keyValues)
	return b.keyValues
}

// searchRuns is SearchMIDs for a block with runs.
func (b *Block) searchRuns(lo, hi int, m MIDs) (first, end int) {
	c, starts := &b.keys[record.MID], b.runStarts()
	run := runOf(starts, uint32(lo), 0)
	until := runOf(starts, uint32(hi-1), run) + 1
	runs := float64(until - 1 - run)
	from := c.search(run, until, m.low, run+int(m.share*runs))
	to := until
	if m.last != c.maxPacked && from < until {
		to = c.endOf(from, until, m.last)
	}
	if from >= to {
		return hi, hi
	}
	return max(lo, int(starts[from])), min(hi, int(starts[to]))
}

// searchReadingInRuns is SearchReading for a block with runs.
func (b *Block) searchReadingInRuns(lo, hi int, k record.Key) (first, end int) {
	if lo >= hi {
		return lo, lo
	}
	starts := b.runStarts()
	run := runOf(starts, uint32(lo), 0)
	until := runOf(starts, uint32(hi-1), run) + 1
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
	lo, hi = max(lo, int(starts[run])), min(hi, int(starts[until]))
	if lo >= hi {
		return lo, lo
	}
	b.runLine(record.Cap, 1)
	above := func(capNs int64) func(i int) bool {
		return func(i int) bool {
			return b.capIn(runOf(starts, uint32(lo+i), run), lo+i) > capNs
		}
	}
	first = lo
	if k.CapNs > record.Cap.Min() {
		first += sort.Search(hi-lo, above(k.CapNs-1))
	}
	return first, lo + sort.Search(hi-lo, above(k.CapNs))
}
