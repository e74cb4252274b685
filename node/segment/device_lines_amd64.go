package segment

import "unsafe"

// lineDecoding is how rests become values.
type lineDecoding struct {
	base, gcd       uint64
	width, restMask uint64
}

// decodeLines adds the lines of n rows from row on to their rests, and makes values of the sums.
//
//go:noescape
func decodeLines(values unsafe.Pointer, row, n int, lines *byte, d *lineDecoding)

// decodeLineRows writes the values of rows, eight at once.
//
//go:noescape
func decodeLineRows(values unsafe.Pointer, rows *uint32, eights int, lines, rests *byte,
	d *lineDecoding)

// addLines makes values of the rests that were written of the rows from row on, and returns of how
// many.
func (c *column) addLines(values []int64, row int) (done int) {
	if t := filterTables(); t == nil || !t.sixteens || len(values) < 8 {
		return 0
	}
	by := lineDecoding{base: c.base, gcd: c.gcd}
	decodeLines(unsafe.Pointer(&values[0]), row, len(values), unsafe.SliceData(c.lines), &by)
	return len(values)
}

// decodeLinesAt writes the values of rows, and returns of how many. It loads 8 bytes of each line,
// which rests follow.
func (c *column) decodeLinesAt(values []int64, rows []uint32) (done int) {
	t, eights := filterTables(), len(rows)/8
	if t == nil || !t.sixteens || eights == 0 {
		return 0
	}
	by := lineDecoding{c.base, c.gcd, uint64(c.width), c.maxPacked}
	decodeLineRows(unsafe.Pointer(&values[0]), &rows[0], eights, unsafe.SliceData(c.lines),
		unsafe.SliceData(c.body), &by)
	return 8 * eights
}
