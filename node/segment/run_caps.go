package segment

import (
	"math"

	"github.com/pentad-db/pentad/sdk/record"
)

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
		if base+slope*int64(from-start)+least >= r.To { // nor are those behind
			continue
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
	switch {
	case from == to:
		return 0
	case lo == 0 && hi == b.rows:
		return b.countAllTogether(from, to, steps)
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

// countAllTogether is countTogether for all rows and the rows [from, to) of the first run.
func (b *Block) countAllTogether(from, to int, steps uint64) int {
	t := &b.runs
	if !t.loaded[startsLoaded] {
		t.packed = t.start.unpack(t.packed, t.count)
	}
	behind := t.lines[0].base
	behind.base, behind.gcd = 0, steps
	b.keyValues = behind.unpack(b.keyValues, t.count)
	t.packed = append(t.packed, int64(b.rows))
	rows := countSteps(t.packed, b.keyValues, int64(from), int64(to))
	t.packed = t.packed[:t.count]
	return int(min(max(rows, 0), int64(b.rows))) // damaged bytes may say anything
}

// countStepsByRun returns how many rows lie between from and to steps behind the starts of runs,
// each less the steps that it is behind, and in that run. Run k has the rows
// [starts[k], starts[k+1]).
func countStepsByRun(starts, behind []int64, from, to int64) (rows int64) {
	ends := starts[1:]
	starts = starts[:len(ends)]
	for k, steps := range behind[:len(ends)] {
		start, end := starts[k], ends[k]
		rows += max(0, min(start-steps+to, end)-max(start-steps+from, start))
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
