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
	writePositions(sel[at:], lo)
	return sel
}

// capIn returns the cap of a row of a run.
func (b *Block) capIn(run, row int) int64 {
	base, slope := b.runs.lines[0].of(run)
	return base + slope*int64(row-int(b.runStart(run))) + int64(b.keys[record.Cap].value(row))
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
	base, slope := l.of(run)
	start := int(b.runStart(run))
	from, to := lineAround(base, slope, start, lo, hi, c, capNs)
	return searchLine(base, slope, start, from, to, c, capNs)
}

// searchLine returns the first of the rows [lo, hi) of a run, whose values ascend, that is at least
// v, or hi.
func searchLine(base, slope int64, start, lo, hi int, rest *column, v int64) int {
	for lo < hi {
		mid := lo
		if hi-lo > 2 {
			mid = int(uint(lo+hi) >> 1)
		}
		if base+slope*int64(mid-start)+int64(rest.value(mid)) >= v {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// maxLine and maxSlope bound lines that stay within int64, with up to maxRest added to each row.
const (
	maxLine  = 1 << 62
	maxRest  = 1 << 60
	maxSlope = 1 << 47 // 39 hours
)

const _ = uint(math.MaxInt64 - maxLine - maxRest - maxSlope*maxBlockRows)

// staysIn reports whether all values that can be packed lie between low and high.
func (c *column) staysIn(low, high int64) bool {
	base := int64(c.base)
	return low <= base && base <= high && c.maxPacked <= (uint64(high)-uint64(base))/c.gcd
}

// ascends reports whether each line ascends and stays within int64, and with it what is left. Then
// the first and last row of a run say where its values lie, without a look at what is left.
func (l *line) ascends(rest *column) bool {
	return l.base.staysIn(-maxLine, maxLine) && l.slope.staysIn(0, maxSlope) &&
		rest.staysIn(0, maxRest)
}

// filterCapRange is filterCaps for one range and the rows [lo, hi) of whatever runs, where lines
// ascend. It appends spans.
func (b *Block) filterCapRange(r record.Range, lo, hi int, spans []Span) []Span {
	run, until := b.beginRuns(record.Cap, lo, hi)
	l, c := &b.runs.lines[0], &b.keys[record.Cap]
	if steps, ok := l.together(c); ok {
		return b.filterTogether(r, steps, run, lo, hi, spans)
	}
	least, most := int64(c.base), int64(c.base+c.gcd*c.maxPacked)
	if c.width == 0 {
		most = least
	}
	for ; run < until && lo < hi; run++ {
		start, end := int(b.runStart(run)), min(int(b.runStart(run+1)), hi)
		if lo >= end {
			continue
		}
		base, slope := l.of(run)
		first := base + slope*int64(lo-start)
		last := base + slope*int64(end-1-start)
		from, to := lo, end
		lo = end
		if last+most < r.From || first+least >= r.To {
			continue
		}
		if first+least < r.From {
			near, sure := lineAround(base, slope, start, from, to, c, r.From)
			from = searchLine(base, slope, start, near, sure, c, r.From)
		}
		if last+most >= r.To {
			near, sure := lineAround(base, slope, start, from, to, c, r.To)
			to = searchLine(base, slope, start, near, sure, c, r.To)
		}
		spans = joinSpan(spans, from, to)
	}
	return spans
}

// joinSpan appends the positions [from, to), which are not below those of the last span.
func joinSpan(spans []Span, from, to int) []Span {
	n := len(spans)
	switch {
	case from >= to:
	case n > 0 && int(spans[n-1].Hi) == from:
		spans[n-1].Hi = uint32(to)
	default:
		spans = append(spans, Span{uint32(from), uint32(to)})
	}
	return spans
}

// together reports whether the values of all runs ascend in the same steps, and how many of these
// one of the packed bases has. There are no rests then.
func (l *line) together(rest *column) (steps uint64, ok bool) {
	slope := l.slope.base
	if rest.width != 0 || l.slope.width != 0 || slope == 0 || int64(slope) < 0 {
		return 0, false
	}
	if l.base.width == 0 {
		return 0, true
	}
	return l.base.gcd / slope, l.base.gcd%slope == 0
}

// filterTogether is filterCapRange, from a run on, where lines are together: the rows of a run that
// lie in a range are those of the first run, but for the steps that it is behind.
func (b *Block) filterTogether(
	r record.Range, steps uint64, run, lo, hi int, spans []Span,
) []Span {
	from, to := b.stepsIn(r, steps)
	if from == to {
		return spans
	}
	behind := &b.runs.lines[0].base
	start := int(b.runStart(run))
	for ; lo < hi; run++ {
		end := int(b.runStart(run + 1))
		first := start - int(steps*behind.packed(run))
		spans = joinSpan(spans, max(first+from, lo), min(first+to, end, hi))
		lo, start = max(lo, end), end
	}
	return spans
}

// countTogether returns how many rows filterTogether finds.
func (b *Block) countTogether(r record.Range, steps uint64, lo, hi int) (rows int) {
	from, to := b.stepsIn(r, steps)
	if from == to {
		return 0
	}
	b.loadStarts()
	run, until := b.runsOf(lo, hi)
	starts, behind := b.runs.starts[run:until+1], &b.runs.lines[0].base
	width, body, most := uint(behind.width), behind.bodyStart(), behind.maxPacked
	bit := uint(run) * width
	for k, next := range starts[1:] {
		start, end := int(starts[k]), int(next)
		first := start - int(steps*(loadBits(body, bit)&most))
		bit += width
		rows += max(0, min(first+to, end, hi)-max(first+from, start, lo))
	}
	return rows
}

// stepsIn returns which rows of the run with the least base are in a range, where lines are
// together, if it has as many as can be.
func (b *Block) stepsIn(r record.Range, steps uint64) (from, to int) {
	l := &b.runs.lines[0]
	first := int64(l.base.base + b.keys[record.Cap].base)
	most := int(min(steps*l.base.maxPacked, math.MaxInt32)) + maxBlockRows
	slope := l.slope.base
	return stepAt(first, slope, r.From, most), stepAt(first, slope, r.To, most)
}

// stepAt returns the first step from base on whose value is at least v, at most that many.
func stepAt(base int64, slope uint64, v int64, most int) int {
	if v <= base {
		return 0
	}
	return int(min((uint64(v)-uint64(base)-1)/slope+1, uint64(most)))
}

// CountSpan returns how many positions FilterSpan would append.
func (b *Block) CountSpan(d record.Dim, set record.RangeSet, lo, hi int) (rows int) {
	if d == record.Cap && b.hasCapSpans(set) && lo < hi {
		if steps, ok := b.runs.lines[0].together(&b.keys[record.Cap]); ok {
			return b.countTogether(set[0], steps, lo, hi)
		}
		b.spans = b.filterCapRange(set[0], lo, hi, b.spans[:0])
		for _, s := range b.spans {
			rows += int(s.Hi - s.Lo)
		}
		return rows
	}
	b.sel = b.FilterSpan(d, set, lo, hi, b.sel[:0])
	return len(b.sel)
}

// hasCapSpans reports whether filterCapRange finds the caps of a set.
func (b *Block) hasCapSpans(set record.RangeSet) bool {
	return b.runs.count > 0 && len(set) == 1 && b.runs.lines[0].ascends(&b.keys[record.Cap])
}

// lineAround returns within which of the rows [lo, hi) of a run, which starts at a row, lies the
// first of those that are at least v: below from, all rows are less, and from to on they are not.
// rest is what is left of them. Where lines do not ascend, it may lie anywhere.
func lineAround(base, slope int64, start, lo, hi int, rest *column, v int64) (from, to int) {
	base += int64(rest.base)
	most := rest.gcd * rest.maxPacked
	if slope <= 0 || most/rest.gcd != rest.maxPacked || most > 1<<62 {
		return lo, hi
	}
	to = lineAt(base, slope, start, lo, hi, v)
	if most == 0 {
		return to, to
	}
	if base > math.MaxInt64-int64(most) {
		return lo, to
	}
	return lineAt(base+int64(most), slope, start, lo, to, v), to
}

// lineAt returns the first of the rows [lo, hi) of a run at which its line is at least v, or hi.
func lineAt(base, slope int64, start, lo, hi int, v int64) int {
	if v <= base {
		return lo
	}
	steps := (uint64(v)-uint64(base)-1)/uint64(slope) + 1
	return min(max(lo, start+int(min(steps, uint64(hi-start)))), hi)
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
// ok, and appends nothing, where that takes a look at each row.
func (b *Block) AppendDevices(lo, hi int, dst []DeviceSpan) (spans []DeviceSpan, ok bool) {
	if b.runs.count == 0 || lo >= hi {
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
