package segment

import (
	"encoding/binary"
	"unsafe"
)

// Layout of a column in frames, FORMAT.md section 4.
const (
	// frameRows is how many values have a width and a least value of their own: an odd one makes
	// its frame wide, and no other. A frame of them takes whole words at any width.
	frameRows  = 128
	maxFrames  = maxBlockRows / frameRows
	frameBytes = frameRows / 8 // for each bit of its width
	// framedMark comes before the header of a column in frames, in the place of a width.
	framedMark = 0x7f
)

// frameTable says where the frames of a column of an open block lie. It holds copies, so that what
// was checked stays as it is.
type frameTable struct {
	directory      []byte // ends u16, then least values; runs on beyond them
	count          int
	lastStart, end uint16 // of the last frame, in widths added up

	isLoaded bool                  // what follows
	starts   [maxFrames + 1]uint16 // the widths of the frames before, added up
	least    [maxFrames]uint64     // smallest packed value
}

// framesOf returns how many frames that number of rows has.
func framesOf(rows int) int { return (rows + frameRows - 1) / frameRows }

// parseFrames reads what a column in frames has before them, and finds where it ends.
func (p *frontParser) parseFrames(c *column) {
	n := framesOf(p.rows)
	at := p.at
	if p.take(uint64(2*n) + (uint64(n)*uint64(c.width)+7)/8); p.bad || c.width == 0 {
		p.bad = true
		return
	}
	t := p.nextTable()
	t.directory, t.count, t.lastStart, t.isLoaded = p.data[at:], n, 0, false
	if t.end = binary.LittleEndian.Uint16(t.directory[2*n-2:]); n > 1 {
		t.lastStart = binary.LittleEndian.Uint16(t.directory[2*n-4:])
	}
	if t.lastStart > t.end || !isWidth(t.end-t.lastStart) {
		p.bad = true
		return
	}
	rows, width := uint64(p.rows-(n-1)*frameRows), uint64(t.end-t.lastStart)
	at = p.at
	p.take(frameBytes*uint64(t.lastStart) + (rows*width+7)/8)
	c.body, c.table = p.data[at:], t
}

func isWidth(w uint16) bool { return w <= maxPackedWidth || w == 64 }

// nextTable returns memory for a table of frames.
func (p *frontParser) nextTable() *frameTable {
	b := p.block
	if p.tables == len(b.frameTables) {
		b.frameTables = append(b.frameTables, new(frameTable))
	}
	p.tables++
	return b.frameTables[p.tables-1]
}

// frames returns the table of a column in frames. What damaged bytes say is bent until all frames
// lie in the column.
func (c *column) frames() *frameTable {
	t := c.table
	if t.isLoaded {
		return t
	}
	t.isLoaded = true
	start := uint16(0)
	for i := 1; i < t.count; i++ {
		end := binary.LittleEndian.Uint16(t.directory[2*i-2:])
		start = min(max(end, start), t.lastStart)
		t.starts[i] = start
	}
	t.starts[t.count] = t.end
	least := column{forCoding: forCoding{gcd: 1, width: c.width}, maxPacked: c.maxPacked,
		body: t.directory[2*t.count:]}
	v := least.vectors()
	w := wordWriter{out: unsafe.Pointer(&t.least), stride: wordBytes}
	least.writeRun(&v, 0, t.count, &w)
	return t
}

// checkFrames looks at what loading them bends.
func (c *column) checkFrames() bool {
	t := c.table
	if t == nil {
		return true
	}
	start := uint16(0)
	for i := range t.count {
		end := binary.LittleEndian.Uint16(t.directory[2*i:])
		if end < start || !isWidth(end-start) {
			return false
		}
		start = end
	}
	return true
}

// frame returns a frame as a column of its own rows, whose base has its least value added.
func (c *column) frame(t *frameTable, i int) column {
	of := column{forCoding: c.forCoding, kind: c.kind, exponent: c.exponent, dict: c.dict}
	of.become(c, t, i)
	return of
}

// become makes another frame of the same column of a frame.
func (c *column) become(whole *column, t *frameTable, i int) {
	c.base = whole.base + whole.gcd*t.least[i]
	c.width = t.width(i)
	c.maxPacked = c.mask()
	c.body = whole.body[frameBytes*int(t.starts[i]):]
}

// width returns the width of a frame; of a damaged one, a width that it has space for.
func (t *frameTable) width(i int) uint8 {
	w := t.starts[i+1] - t.starts[i]
	if w > maxPackedWidth && w != 64 {
		return maxPackedWidth
	}
	return uint8(w)
}

// number returns packed value i of a column that may have frames.
func (c *column) number(i int) uint64 {
	if c.table == nil {
		return c.packed(i)
	}
	r := frameReader{column: c}
	r.move(uint32(i))
	return r.number(uint32(i))
}

// frameReader reads values of a column in frames one by one.
type frameReader struct {
	*column
	first, rows uint32 // of the frame
	bits        uint
	packedMask  uint64
	least       uint64
	packedFrom  unsafe.Pointer
}

// move goes to the frame of a row. It does not need the whole table.
func (r *frameReader) move(row uint32) {
	t, f := r.table, int(row/frameRows)
	r.first, r.rows = row-row%frameRows, frameRows
	start, end := t.starts[f], t.starts[f+1]
	if t.isLoaded {
		r.least = t.least[f]
	} else {
		start, end = 0, t.end
		if f > 0 {
			start = min(binary.LittleEndian.Uint16(t.directory[2*f-2:]), t.lastStart)
		}
		if f < t.count-1 {
			end = min(binary.LittleEndian.Uint16(t.directory[2*f:]), t.lastStart)
		}
		least := t.directory[2*t.count:]
		r.least = loadBits(unsafe.Pointer(unsafe.SliceData(least)), uint(f)*uint(r.width)) &
			r.maxPacked
	}
	r.bits = uint(max(end, start) - start)
	if r.bits > maxPackedWidth && r.bits != 64 {
		r.bits = maxPackedWidth
	}
	r.packedMask = 1<<r.bits - 1
	r.packedFrom = unsafe.Add(r.bodyStart(), frameBytes*int(start))
}

// number returns the packed value of a row.
func (r *frameReader) number(row uint32) uint64 {
	if row-r.first >= r.rows {
		r.move(row)
	}
	return r.least + loadBits(r.packedFrom, uint(row-r.first)*r.bits)&r.packedMask
}

// writeFramesOneByOne is writeFrames for the rows of spans, or of sel, one by one.
func (c *column) writeFramesOneByOne(sel []uint32, spans []Span, w *wordWriter) {
	r := frameReader{column: c}
	for _, i := range sel {
		w.put(c.valueOf(r.number(i)))
	}
	for _, s := range spans {
		for i := s.Lo; i < s.Hi; i++ {
			w.put(c.valueOf(r.number(i)))
		}
	}
}

// writeFrames is write for a column in frames.
func (c *column) writeFrames(p *positions, w *wordWriter) {
	if p.sel != nil {
		c.writeFramesSelected(p.sel, w)
		return
	}
	if p.n < fewRows*len(p.spans) {
		c.writeFramesOneByOne(nil, p.spans, w)
		return
	}
	t := c.frames()
	v := c.vectors()
	v.loads = p.prefetchQueue
	of := column{forCoding: c.forCoding, kind: c.kind, exponent: c.exponent, dict: c.dict}
	for _, s := range p.spans {
		for lo, hi := int(s.Lo), int(s.Hi); lo < hi; {
			f := lo / frameRows
			from, to := lo%frameRows, min(hi-f*frameRows, frameRows)
			of.become(c, t, f)
			if of.width == 0 {
				w.fill(of.value(0), to-from)
			} else {
				v.rebase(of.base)
				of.writeRun(&v, from, to, w)
			}
			lo += to - from
		}
	}
}

// writeFramesSelected is writeFrames for the positions of sel.
func (c *column) writeFramesSelected(sel []uint32, w *wordWriter) {
	var within [frameRows]uint32
	if len(sel) < fewRows || int(sel[len(sel)-1]-sel[0]) > rareRows*len(sel) {
		c.writeFramesOneByOne(sel, nil, w)
		return
	}
	t := c.frames()
	for len(sel) > 0 {
		f := int(sel[0] / frameRows)
		first, n := uint32(f*frameRows), 0
		for n < len(sel) && n < frameRows && sel[n]-first < frameRows {
			within[n] = sel[n] - first
			n++
		}
		of := c.frame(t, f)
		if of.width == 0 {
			w.fill(of.value(0), n)
		} else {
			of.writeSelected(within[:n], w)
		}
		sel = sel[n:]
	}
}

// filterFrames is filterSpan for a column in frames.
func (c *column) filterFrames(m match, lo int, out []uint32) (k int) {
	t := c.frames()
	rest := out
	for i, hi := lo, lo+len(out); i < hi; {
		f := i / frameRows
		first := f * frameRows
		end := min(hi, first+frameRows)
		if of, in, some := c.matchFrame(t, f, m); some {
			n := of.filterSpan(in, i-first, rest[:end-i])
			for j, at := range rest[:n] {
				rest[j] = at + uint32(first)
			}
			rest = rest[n:]
			k += n
		}
		i = end
	}
	return k
}

// filterFramesSelected is filter for a column in frames.
func (c *column) filterFramesSelected(m match, sel []uint32) (k int) {
	t, out := c.frames(), unsafe.SliceData(sel)
	for rest := sel; len(rest) > 0; {
		f := rest[0] / frameRows
		n, first := 1, f*frameRows
		for n < len(rest) && rest[n]-first < frameRows {
			n++
		}
		if of, in, some := c.matchFrame(t, int(f), m); some {
			width, mask, body := uint(of.width), of.maxPacked, of.bodyStart()
			low, span := in.low, in.span
			for _, i := range rest[:n] {
				v := loadBits(body, uint(i-first)*width) & mask
				*at(out, k) = i
				if v-low <= span {
					k++
				}
			}
		}
		rest = rest[n:]
	}
	return k
}

// matchFrame returns a frame and what a match is in its packed values, if it can have any.
func (c *column) matchFrame(t *frameTable, f int, m match) (of column, in match, some bool) {
	least, high := t.least[f], m.low+m.span
	if high < least {
		return of, in, false
	}
	of = c.frame(t, f)
	if m.low > least {
		in.low = m.low - least
	}
	high = min(high-least, of.maxPacked)
	if in.low > high {
		return of, in, false
	}
	in.span = high - in.low
	return of, in, true
}

// bytesOf returns the size of n packed values, with what frames take before them.
func (c *column) bytesOf(n int) int {
	t := c.table
	if t == nil {
		return c.bytes(n)
	}
	rows, width := n-(t.count-1)*frameRows, int(t.end-t.lastStart)
	return 2*t.count + c.bytes(t.count) + frameBytes*int(t.lastStart) + (rows*width+7)/8
}

// meanWidth returns about how many bits a row has; less where they differ.
func (c *column) meanWidth() int {
	t := c.table
	if t == nil {
		return int(c.width)
	}
	return int(t.lastStart) / t.count
}
