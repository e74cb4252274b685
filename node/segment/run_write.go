package segment

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// minRunRows is how many rows runs have at least on average, in a block that is one sub-run:
	// with fewer, runs are slower to read than rows. In others it is minSubRunRows.
	minRunRows    = 4
	minSubRunRows = 8
	// runSaving: runs are worth it where they save more than one byte of these of the keys.
	runSaving = 16
	// stepSamples is how many steps between rows are looked at for the usual one.
	stepSamples = 63
	// ownSlopeBits is about what a run with a slope of its own takes more.
	ownSlopeBits = 24
	// runHeaderBits is what runs take whatever they are: their number, and five more headers.
	runHeaderBits = 8 * (2 + 5*9)
)

// runsOf is a division of a block into runs, and the lines of these.
type runsOf struct {
	starts []uint64
	lines  [2]runLines // of cap and rank
	bits   int         // about what it takes
}

// runLines are the lines of runs, and what is left of each row.
type runLines struct{ bases, slopes, rest []uint64 }

// runEncoder divides blocks into runs. It keeps its memory.
type runEncoder struct {
	whole, cut runsOf // without and with cuts where steps are unusual
	steps      []int64
	leastRows  int   // that runs have on average
	unit       int64 // that all caps of the block are apart, or a multiple of it
	usual      [2]int64
	spare      []uint64
}

// keysOf is the keys of the rows of a block, in order.
type keysOf struct {
	cid, moid      []int32
	mid, cap, rank []int64
}

func (r *rowsOf) keysOf() keysOf {
	from, to := r.start, r.start+uint32(len(r.order))
	k := r.keys
	return keysOf{cid: k.CID[from:to], moid: k.MOID[from:to], mid: k.MID[from:to],
		cap: k.CapNs[from:to], rank: k.AcqNs[from:to]}
}

// follows reports whether a row may be in the run of the one before.
func (k *keysOf) follows(i int) bool {
	return k.mid[i] == k.mid[i-1] && k.cap[i] >= k.cap[i-1] && k.moid[i] == k.moid[i-1] &&
		k.cid[i] == k.cid[i-1]
}

// descends reports whether a sub-run starts at a row: its series is not above that of the one
// before, or its cap is below.
func (k *keysOf) descends(i int) bool {
	return cmp.Or(cmp.Compare(k.cid[i], k.cid[i-1]), cmp.Compare(k.moid[i], k.moid[i-1]),
		cmp.Compare(k.mid[i], k.mid[i-1]), cmp.Compare(k.cap[i], k.cap[i-1])) < 0
}

func (k *keysOf) of(d record.Dim) []int64 {
	if d == record.Cap {
		return k.cap
	}
	return k.rank
}

// appendRuns appends the keys of a block as runs, if they are smaller so.
func (e *encoder) appendRuns(r rowsOf, h *blockHeader) bool {
	e.hasRuns = false
	k := r.keysOf()
	x := &e.runs
	if !x.divide(&k) {
		return false
	}
	best := &x.whole
	if len(x.cut.starts) > 0 && x.cut.bits < best.bits {
		best = &x.cut
	}
	if best.bits+best.bits/runSaving >= x.plainBits(&k) {
		return false
	}
	h.flags |= blockHasRuns
	e.hasRuns = true
	n := len(best.starts)
	e.columnHeaders = binary.LittleEndian.AppendUint16(e.columnHeaders, uint16(n))
	e.values = append(e.values[:0], best.starts...)
	e.appendKey(e.values)
	for d := record.CID; d <= record.MOID; d++ {
		e.values = slices.Grow(e.values[:0], n)[:n]
		for i, at := range best.starts {
			switch d {
			case record.CID:
				e.values[i] = uint64(k.cid[at])
			case record.MID:
				e.values[i] = uint64(k.mid[at])
			default:
				e.values[i] = uint64(k.moid[at])
			}
		}
		if d == record.MID && e.appendMIDs() {
			h.flags |= blockHasDictionary
		} else {
			e.appendKey(e.values)
		}
	}
	for i := range best.lines {
		e.appendKey(best.lines[i].bases)
		e.appendKey(best.lines[i].slopes)
	}
	for i := range best.lines {
		rest := best.lines[i].rest
		f := rebaseUnsigned(rest)
		e.appendFramable(&f, rest)
	}
	return true
}

// appendMIDs appends devices as a dictionary, if that is smaller.
func (e *encoder) appendMIDs() bool {
	lo, hi := boundsOf(e.values)
	return widthOf(uint64(hi)-uint64(lo)) > minDictionaryWidth && e.appendDictionary()
}

// appendKey appends a column of signed values, which it changes.
func (e *encoder) appendKey(values []uint64) {
	lo, hi := boundsOf(values)
	f := rebase(values, lo, hi)
	e.columnHeaders = appendFOR(e.columnHeaders, &f)
	e.columnData = appendPacked(e.columnData, values, f.width)
}

func boundsOf(values []uint64) (lo, hi int64) {
	lo, hi = int64(values[0]), int64(values[0])
	for _, v := range values {
		lo, hi = min(lo, int64(v)), max(hi, int64(v))
	}
	return lo, hi
}

// rebaseUnsigned is rebase for values from 0 on.
func rebaseUnsigned(values []uint64) forCoding {
	top := slices.Max(values)
	if top == 0 {
		return forCoding{gcd: 1}
	}
	f := forCoding{gcd: 1, width: widthOf(top)}
	g := commonDivisor(values)
	if w := widthOf(top / g); int(f.width-w)*len(values) > 64 {
		f.gcd, f.width = g, w
		inverse, shift := inverseOf(g)
		for i, v := range values {
			values[i] = bits.RotateLeft64(v*inverse, -shift)
		}
	}
	return f
}

// divide divides a block into runs, in one or two ways. It gives up where they are too short.
func (x *runEncoder) divide(k *keysOf) bool {
	n := len(k.mid)
	x.whole.starts, x.cut.starts = append(x.whole.starts[:0], 0), x.cut.starts[:0]
	x.leastRows = minRunRows
	for i := 1; i < n; i++ {
		if k.follows(i) {
			continue
		}
		x.whole.starts = append(x.whole.starts, uint64(i))
		if k.descends(i) {
			x.leastRows = minSubRunRows
		}
	}
	if len(x.whole.starts)*x.leastRows > n {
		return false
	}
	x.findUnit(k)
	x.findUsual(k)
	x.cutUnusual(k)
	x.fit(k, &x.whole)
	if len(x.cut.starts) > 0 {
		x.fit(k, &x.cut)
	}
	return true
}

// findUnit finds what all caps are apart, or multiples of it.
func (x *runEncoder) findUnit(k *keysOf) {
	least := slices.Min(k.cap)
	x.spare = slices.Grow(x.spare[:0], len(k.cap))[:len(k.cap)]
	any := false
	for i, c := range k.cap {
		x.spare[i] = uint64(c) - uint64(least)
		any = any || c != least
	}
	x.unit = 1
	if any {
		x.unit = int64(max(1, min(commonDivisor(x.spare), 1<<62)))
	}
}

// findUsual finds the usual steps of caps and ranks between the rows of a series.
func (x *runEncoder) findUsual(k *keysOf) {
	n := len(k.mid)
	for d := record.Cap; d <= record.Acq; d++ {
		values := k.of(d)
		x.steps = x.steps[:0]
		for s := range stepSamples {
			i := 1 + s*(n-1)/stepSamples
			for i < n && !k.follows(i) {
				i++
			}
			if i < n {
				x.steps = append(x.steps, values[i]-values[i-1])
			}
		}
		if x.usual[d-record.Cap] = 0; len(x.steps) > 0 {
			slices.Sort(x.steps)
			x.usual[d-record.Cap] = x.steps[len(x.steps)/2]
		}
	}
}

// cutUnusual divides the runs further, where caps or ranks make an unusual step. There are no such
// runs where that is nowhere, or so often that they are too short.
func (x *runEncoder) cutUnusual(k *keysOf) {
	n := len(k.mid)
	x.cut.starts = x.cut.starts[:0]
	next := 0
	for i := range n {
		if next < len(x.whole.starts) && int(x.whole.starts[next]) == i {
			next++
			x.cut.starts = append(x.cut.starts, uint64(i))
		} else if isUnusual(k.cap[i]-k.cap[i-1], x.usual[0]) ||
			isUnusual(k.rank[i]-k.rank[i-1], x.usual[1]) {
			x.cut.starts = append(x.cut.starts, uint64(i))
		}
	}
	if m := len(x.cut.starts); m == len(x.whole.starts) || m*x.leastRows > n {
		x.cut.starts = x.cut.starts[:0]
	}
}

// isUnusual reports whether a step is more than half as large again, or less than half.
func isUnusual(step, usual int64) bool {
	d := uint64(step) - uint64(usual)
	if step < usual {
		d = -d
	}
	half := uint64(usual) / 2
	if usual < 0 {
		half = -uint64(usual) / 2
	}
	return d > half
}

// fit finds the lines of runs, and about what all of it takes.
func (x *runEncoder) fit(k *keysOf, to *runsOf) {
	n, runs := len(k.mid), len(to.starts)
	to.bits = runHeaderBits + runs*bits.Len(uint(n-1))
	to.bits += runs * (spanBits(k.cid) + spanBits(k.mid) + spanBits(k.moid))
	for i := range to.lines {
		l, values, unit := &to.lines[i], k.of(record.Cap+record.Dim(i)), int64(1)
		if i == 0 {
			unit = x.unit
		}
		l.bases = slices.Grow(l.bases[:0], runs)[:runs]
		l.slopes = slices.Grow(l.slopes[:0], runs)[:runs]
		l.rest = slices.Grow(l.rest[:0], n)[:n]
		usual := x.usual[i]
		for r, at := range to.starts {
			end := n
			if r+1 < runs {
				end = int(to.starts[r+1])
			}
			l.bases[r], l.slopes[r] = fitLine(values[at:end], usual, unit, l.rest[at:end])
		}
		to.bits += runs*(spanBits64(l.bases, unit)+spanBits64(l.slopes, unit)) +
			restBits(l.rest, unit)
	}
}

// fitLine finds a line below values, and what is left of each: base + slope*i + rest[i], modulo
// 2^64. The slope is the usual one where that is about as good as one of its own.
func fitLine(values []int64, usual, unit int64, rest []uint64) (base, slope uint64) {
	n := len(values)
	own := usual
	if n > 1 {
		q := (values[n-1] - values[0]) / unit
		own = roundedQuotient(q, int64(n-1)) * unit
	}
	lo, hi := offLine(values, own)
	if own != usual {
		atLo, atHi := offLine(values, usual)
		if int(widthOf(uint64(atHi)-uint64(atLo)))*n <=
			int(widthOf(uint64(hi)-uint64(lo)))*n+ownSlopeBits {
			own, lo = usual, atLo
		}
	}
	first := values[0] + lo
	at := first
	for i, v := range values {
		rest[i] = uint64(v) - uint64(at)
		at += own
	}
	return uint64(first), uint64(own)
}

// offLine returns how far values are below and above a line through the first.
func offLine(values []int64, slope int64) (lo, hi int64) {
	at := values[0]
	for _, v := range values {
		lo, hi = min(lo, v-at), max(hi, v-at)
		at += slope
	}
	return lo, hi
}

func roundedQuotient(a, b int64) int64 {
	if a < 0 {
		return -((-a + b/2) / b)
	}
	return (a + b/2) / b
}

func spanBits[T int32 | int64](values []T) int {
	lo, hi := values[0], values[0]
	for _, v := range values {
		lo, hi = min(lo, v), max(hi, v)
	}
	return bits.Len64(uint64(hi) - uint64(lo))
}

func spanBits64(values []uint64, unit int64) int {
	lo, hi := boundsOf(values)
	return bits.Len64((uint64(hi) - uint64(lo)) / uint64(unit))
}

// restBits returns about what is left takes, in frames.
func restBits(rest []uint64, unit int64) (total int) {
	for from := 0; from < len(rest); from += frameRows {
		some := rest[from:min(from+frameRows, len(rest))]
		lo, hi := some[0], some[0]
		for _, v := range some {
			lo, hi = min(lo, v), max(hi, v)
		}
		total += len(some) * bits.Len64((hi-lo)/uint64(unit))
	}
	return total
}

// plainBits returns about what the keys of rows take.
func (x *runEncoder) plainBits(k *keysOf) int {
	mid := spanBits(k.mid)
	if mid > minDictionaryWidth {
		series := len(x.whole.starts)
		mid = min(mid, bits.Len(uint(series))+64*series/len(k.mid))
	}
	lo, hi := slices.Min(k.cap), slices.Max(k.cap)
	return len(k.mid) * (spanBits(k.cid) + mid + spanBits(k.moid) + spanBits(k.rank) +
		bits.Len64((uint64(hi)-uint64(lo))/uint64(x.unit)))
}
