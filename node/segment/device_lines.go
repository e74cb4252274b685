package segment

import (
	"encoding/binary"
	"slices"
	"unsafe"
)

// A column of devices has lines where these ascend in few stretches: packed value = the line of 128
// rows + a rest, modulo 2^16. Where a row's bits are does not depend on its line.

const (
	lineRows  = 128
	lineShift = 7     // log2(lineRows)
	lineBytes = 2 + 2 // first u16, ascent over lineRows u16
	lineBits  = 16    // of a packed value

	greatestOnLine = 1<<lineBits - 1
)

const _ = uint(1<<lineShift-lineRows) + uint(lineRows-1<<lineShift)

// linesOf returns how many lines that number of rows has.
func linesOf(rows int) int { return (rows + lineRows - 1) / lineRows }

// lined reads the devices of a block that have lines.
func (p *frontParser) lined(c *column) {
	lines := p.take(uint64(lineBytes * linesOf(p.rows)))
	p.column(c)
	c.kind, c.lines = columnLines, lines
	p.bad = p.bad || c.width == 0 || c.width > lineBits
}

// onLine returns what the line of a row has there.
func (c *column) onLine(row int) uint64 {
	line := binary.LittleEndian.Uint32(c.lines[row>>lineShift*lineBytes:])
	return uint64(line&greatestOnLine + line>>lineBits*uint32(row%lineRows)>>lineShift)
}

// greatest returns the greatest packed value that the column may have.
func (c *column) greatest() uint64 {
	if c.kind == columnLines {
		return greatestOnLine
	}
	return c.maxPacked
}

// writeLines is write for a column with lines.
func (c *column) writeLines(p *positions, to *wordWriter) {
	out := unsafe.Slice((*int64)(unsafe.Add(to.out, to.at)), p.n)
	rests := *c
	rests.kind, rests.base, rests.gcd = columnFOR, 0, 1
	rests.write(p, to)
	if p.sel != nil {
		for k, row := range p.sel {
			out[k] = int64(c.onLines(uint64(out[k]), int(row)))
		}
		return
	}
	for _, s := range p.spans {
		n := int(s.Hi - s.Lo)
		for done := c.addLines(out[:n], int(s.Lo)); done < n; done++ {
			out[done] = int64(c.onLines(uint64(out[done]), int(s.Lo)+done))
		}
		out = out[n:]
	}
}

// onLines returns the value of a row with that rest.
func (c *column) onLines(rest uint64, row int) uint64 {
	return c.base + c.gcd*((rest+c.onLine(row))&greatestOnLine)
}

// filterLines is filterSpan for a column with lines.
func (c *column) filterLines(m match, lo int, out []uint32) (k int) {
	for i := range out {
		out[k] = uint32(lo + i)
		if c.packed(lo+i)-m.low <= m.span {
			k++
		}
	}
	return k
}

// filterLinesSelected is filter for a column with lines.
func (c *column) filterLinesSelected(m match, sel []uint32) (k int) {
	for _, i := range sel {
		sel[k] = i
		if c.packed(int(i))-m.low <= m.span {
			k++
		}
	}
	return k
}

// lineSaving is how many bits a row lines save at least.
const lineSaving = 1

// appendLines writes packed devices with lines, where that is smaller.
func (e *encoder) appendLines(f *forCoding) bool {
	n := len(e.values)
	if !e.subRuns.ascending || f.width <= 1+lineSaving || f.width > lineBits {
		return false
	}
	e.best, e.lines = slices.Grow(e.best[:0], n)[:n], e.lines[:0]
	most := uint64(1)
	for from := 0; from < n; from += lineRows {
		end := min(from+lineRows, n)
		ascent := ascentOf(e.values[from:end])
		first, rest := aboveLine(e.values[from:end], ascent, e.best[from:end])
		most = max(most, rest)
		e.lines = binary.LittleEndian.AppendUint16(e.lines, uint16(first))
		e.lines = binary.LittleEndian.AppendUint16(e.lines, uint16(ascent))
	}
	rests := *f
	rests.width = widthOf(most)
	if len(e.lines)+rests.bytes(n)+lineSaving*n/8 > f.bytes(n) {
		return false
	}
	e.columnHeaders = appendFOR(e.columnHeaders, &rests)
	e.columnData = appendPacked(append(e.columnData, e.lines...), e.best, rests.width)
	return true
}

// ascentOf returns how much a line through values ascends over lineRows: by the difference of the
// means of both halves.
func ascentOf(values []uint64) uint64 {
	half := len(values) / 2
	if half == 0 {
		return 0
	}
	low, high := uint64(0), uint64(0)
	for _, v := range values[:half] {
		low += v
	}
	for _, v := range values[len(values)-half:] {
		high += v
	}
	if high <= low {
		return 0
	}
	apart := uint64(half * (len(values) - half))
	return min(greatestOnLine, ((high-low)<<lineShift+apart/2)/apart)
}

// aboveLine writes into rests how much values are above a line with that ascent, and returns where
// it starts, modulo 2^64, and the greatest rest.
func aboveLine(values []uint64, ascent uint64, rests []uint64) (first, most uint64) {
	least, greatest := int64(0), int64(0)
	for k, v := range values {
		above := int64(v - ascent*uint64(k)>>lineShift - values[0])
		rests[k] = uint64(above)
		least, greatest = min(least, above), max(greatest, above)
	}
	for k := range rests {
		rests[k] -= uint64(least)
	}
	return values[0] + uint64(least), uint64(greatest - least)
}
