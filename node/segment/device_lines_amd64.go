package segment

import "unsafe"

// lineDecoding is how rests become values.
type lineDecoding struct{ base, gcd, mask uint64 }

// decodeLines adds the lines of n rows from row on to their rests, and makes values of the sums.
//
//go:noescape
func decodeLines(values unsafe.Pointer, row, n int, lines *byte, d *lineDecoding)

// addLines makes values of the rests that were written of the rows from row on, and returns of how
// many.
func (c *column) addLines(values []int64, row int) (done int) {
	if t := filterTables(); t == nil || !t.sixteens || len(values) < 8 {
		return 0
	}
	_ = c.lines[(row+len(values)-1)>>lineShift*lineBytes+lineBytes-1]
	by := lineDecoding{c.base, c.gcd, greatestOnLine}
	decodeLines(unsafe.Pointer(&values[0]), row, len(values), unsafe.SliceData(c.lines), &by)
	return len(values)
}
