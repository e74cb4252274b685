package segment

import (
	"encoding/binary"
	"unsafe"
)

// The loops of this file look at every row of a block. What they may touch was checked when the
// block was opened, a column with loadBytes behind it and its rows: they check no bounds again,
// which makes them a third faster.

// loadBits returns the 64 bits that start at a bit of a column.
func loadBits(body unsafe.Pointer, bit uint) uint64 {
	return binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(body, bit>>3))[:]) >> (bit & 7)
}

// bodyStart returns where the packed values start.
func (c *column) bodyStart() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(c.body)) }

// at returns a pointer to element i of a slice that starts at p.
func at[T any](p *T, i int) *T {
	return (*T)(unsafe.Add(unsafe.Pointer(p), uintptr(i)*unsafe.Sizeof(*p)))
}

// pairWidth is the widest value of which one load holds two at any bit.
const pairWidth = 28

// filterSpan writes the matching ones of the len(out) positions from lo on, and returns how many.
func (c *column) filterSpan(m match, lo int, out []uint32) (k int) {
	if c.width == 0 {
		return c.filterConstant(m, lo, out)
	}
	if c.table != nil {
		return c.filterFrames(m, lo, out)
	}
	if c.kind == columnLines {
		return c.filterLines(m, lo, out)
	}
	if rest := min(-lo&7, len(out)); rest > 0 {
		k = c.filterRows(m, lo, rest, out)
		lo, out = lo+rest, out[k:][:len(out)-rest]
	}
	n, done := c.filterVector(m, lo, out)
	return k + n + c.filterRows(m, lo+done, len(out)-done, out[n:])
}

// filterRows is filterSpan for rows one by one. Writing always and stepping on a condition keeps
// branches, which no one can predict, out. Four rows at a time take two loads, and two thirds of
// the time.
func (c *column) filterRows(m match, lo, rows int, out []uint32) (k int) {
	width, mask, body := uint(c.width), c.maxPacked, c.bodyStart()
	low, span := m.low, m.span
	first, pos, end := unsafe.SliceData(out), lo, lo+rows
	bit := uint(lo) * width
	for ; width == 64 && pos+4 <= end; pos += 4 { // words, of which whole ones are read
		words := (*[32]byte)(unsafe.Add(body, bit>>3))
		bit += 4 * width
		*at(first, k) = uint32(pos)
		if binary.LittleEndian.Uint64(words[:])-low <= span {
			k++
		}
		*at(first, k) = uint32(pos + 1)
		if binary.LittleEndian.Uint64(words[8:])-low <= span {
			k++
		}
		*at(first, k) = uint32(pos + 2)
		if binary.LittleEndian.Uint64(words[16:])-low <= span {
			k++
		}
		*at(first, k) = uint32(pos + 3)
		if binary.LittleEndian.Uint64(words[24:])-low <= span {
			k++
		}
	}
	for ; width <= pairWidth && pos+4 <= end; pos += 4 {
		v, w := loadBits(body, bit), loadBits(body, bit+2*width)
		bit += 4 * width
		*at(first, k) = uint32(pos)
		if v&mask-low <= span {
			k++
		}
		*at(first, k) = uint32(pos + 1)
		if v>>(width&63)&mask-low <= span {
			k++
		}
		*at(first, k) = uint32(pos + 2)
		if w&mask-low <= span {
			k++
		}
		*at(first, k) = uint32(pos + 3)
		if w>>(width&63)&mask-low <= span {
			k++
		}
	}
	for ; pos < end; pos++ {
		v := loadBits(body, bit) & mask
		bit += width
		*at(first, k) = uint32(pos)
		if v-low <= span {
			k++
		}
	}
	return k
}

// filterConstant is filterSpan where all values are 0.
func (c *column) filterConstant(m match, lo int, out []uint32) int {
	if 0-m.low > m.span {
		return 0
	}
	for i := range out {
		out[i] = uint32(lo + i)
	}
	return len(out)
}

// filter keeps the matching ones of sel, in place, and returns how many.
func (c *column) filter(m match, sel []uint32) (k int) {
	if c.table != nil {
		return c.filterFramesSelected(m, sel)
	}
	if c.kind == columnLines {
		return c.filterLinesSelected(m, sel)
	}
	width, mask, body := uint(c.width), c.maxPacked, c.bodyStart()
	low, span := m.low, m.span
	first := unsafe.SliceData(sel)
	for _, i := range sel {
		v := loadBits(body, uint(i)*width) & mask
		*at(first, k) = i
		if v-low <= span {
			k++
		}
	}
	return k
}

// maxEntryWidth is the width of numbers of the largest dictionary; one load holds four of them.
const maxEntryWidth = 14

// filterEntries keeps those of sel whose packed value has a 1 in keep, which has all of the width,
// and returns how many.
func (c *column) filterEntries(keep []byte, sel []uint32) (k int) {
	if c.table != nil {
		for _, i := range sel {
			sel[k] = i
			k += int(keep[c.number(int(i))&c.maxPacked])
		}
		return k
	}
	width, mask, body := uint(c.width), c.maxPacked, c.bodyStart()
	first, table := unsafe.SliceData(sel), unsafe.SliceData(keep[:mask+1])
	step := func(pos uint32, packed uint64) {
		*at(first, k) = pos
		k += int(*at(table, int(packed&mask)))
	}
	if !isSpan(sel) {
		for _, i := range sel {
			step(i, loadBits(body, uint(i)*width))
		}
		return k
	}
	pos, end := sel[0], sel[0]+uint32(len(sel))
	bit := uint(pos) * width
	for ; pos+4 <= end; pos += 4 {
		v := loadBits(body, bit)
		bit += 4 * width
		step(pos, v)
		step(pos+1, v>>(width&63))
		step(pos+2, v>>(2*width&63))
		step(pos+3, v>>(3*width&63))
	}
	for ; pos < end; pos++ {
		step(pos, loadBits(body, bit))
		bit += width
	}
	return k
}

// gatherSelected writes the values of a key column of 32 bits at the positions of sel.
func gatherSelected(c *column, sel []uint32, out []int32) {
	base, gcd, width, mask, body := c.base, c.gcd, uint(c.width), c.maxPacked, c.bodyStart()
	first := unsafe.SliceData(out[:len(sel)])
	for k, i := range sel {
		*at(first, k) = int32(base + gcd*(loadBits(body, uint(i)*width)&mask))
	}
}

// gatherSpans writes the values of a key column of 32 bits at the positions of spans.
func gatherSpans(c *column, spans []Span, out []int32) {
	base, gcd, width, mask, body := c.base, c.gcd, uint(c.width), c.maxPacked, c.bodyStart()
	for _, s := range spans {
		bit, run := uint(s.Lo)*width, out[:s.Hi-s.Lo]
		for k := range run {
			run[k] = int32(base + gcd*(loadBits(body, bit)&mask))
			bit += width
		}
		out = out[len(run):]
	}
}
