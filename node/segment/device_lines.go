package segment

import (
	"encoding/binary"
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
	if p.sel != nil {
		done := c.decodeLinesAt(out, p.sel)
		for k, row := range p.sel[done:] {
			out[done+k] = int64(c.base + c.gcd*c.packed(int(row)))
		}
	} else if p.n < fewRows*len(p.spans) {
		for _, s := range p.spans {
			for row := s.Lo; row < s.Hi; row++ {
				out[0] = int64(c.base + c.gcd*c.packed(int(row)))
				out = out[1:]
			}
		}
	} else {
		c.writeLineSpans(p, out)
	}
	to.at += uintptr(p.n) * wordBytes
}

// writeLineSpans writes the rests of long spans, and then adds the lines.
func (c *column) writeLineSpans(p *positions, out []int64) {
	rests := *c
	rests.kind, rests.base, rests.gcd = columnFOR, 0, 1
	w := wordWriterOf(out)
	rests.write(p, &w)
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
