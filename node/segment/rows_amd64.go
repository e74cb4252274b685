package segment

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// rowDecoding is how rows of a column are made of packed values; with a period, it has a clock, and
// with an inverse, decimals.
type rowDecoding struct {
	width, base, gcd, mask, packedMask, period, low uint64
	inverse, inverseLack                            float64
}

// gatherRows writes the values at n positions, eight at least.
//
//go:noescape
func gatherRows(sel *uint32, n int, body unsafe.Pointer, r *rowDecoding, out unsafe.Pointer)

// gatheredRows is how many rows are gathered at once for columns that lie apart.
const gatheredRows = 64

// gatherVector writes the values at the positions of sel, and reports whether it has.
func (c *column) gatherVector(sel []uint32, w *wordWriter) bool {
	t := filterTables()
	if t == nil || !t.sixteens || len(sel) < 8 || c.kind == columnDict {
		return false
	}
	r := rowDecoding{width: uint64(c.width), base: c.base, gcd: c.gcd, mask: c.maxPacked,
		packedMask: c.maxPacked}
	switch c.kind {
	case columnDec:
		if !cpu.X86.HasFMA || !c.staysBelow(maxRound) {
			return false
		}
		by := inversesOf10[c.exponent]
		r.inverse, r.inverseLack = by.nearest, by.lack
	case columnClock:
		r.mask, r.period, r.low = c.lowMask(), c.period, uint64(c.low)
	}
	if w.stride == wordBytes {
		gatherRows(&sel[0], len(sel), c.bodyStart(), &r, unsafe.Add(w.out, w.at))
		w.at += uintptr(len(sel)) * wordBytes
		return true
	}
	var values [gatheredRows]uint64
	to := *w
	for len(sel) > 0 {
		n := min(len(sel), gatheredRows)
		if rest := len(sel) - n; 0 < rest && rest < 8 {
			n -= 8
		}
		gatherRows(&sel[0], n, c.bodyStart(), &r, unsafe.Pointer(&values))
		for _, v := range values[:n] {
			to.put(v)
		}
		sel = sel[n:]
	}
	w.at = to.at
	return true
}
