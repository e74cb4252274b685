package segment

import (
	"encoding/binary"
	"sort"
	"unsafe"
)

const (
	// decodeRows is how many rows are decoded at once for the sake of some of them.
	decodeRows = 256
	// rareRows is how many rows are decoded together in the time in which one is by itself, and
	// fewRows how many do not pay for it.
	rareRows = 4
	fewRows  = 16
)

// wordWriter writes 64-bit words, stride bytes apart.
type wordWriter struct {
	out        unsafe.Pointer
	at, stride uintptr
}

// newWordWriter writes words to out, where n of them must fit.
func newWordWriter(out []byte, n, stride int) wordWriter {
	_ = out[(n-1)*stride+7]
	return wordWriter{out: unsafe.Pointer(unsafe.SliceData(out)), stride: uintptr(stride)}
}

// wordWriterOf writes words to a column.
func wordWriterOf(column []int64) wordWriter {
	return wordWriter{out: unsafe.Pointer(unsafe.SliceData(column)), stride: wordBytes}
}

func (w *wordWriter) put(v uint64) {
	binary.LittleEndian.PutUint64((*[8]byte)(unsafe.Add(w.out, w.at))[:], v)
	w.at += w.stride // a pointer must not leave what it points into
}

// fill puts a word n times.
func (w *wordWriter) fill(v uint64, n int) {
	if w.stride == wordBytes {
		writeLine(unsafe.Slice((*int64)(unsafe.Add(w.out, w.at)), n), int64(v), 0, false)
		w.at += uintptr(n) * wordBytes
		return
	}
	to := *w // a copy lives in registers
	for range n {
		to.put(v)
	}
	w.at = to.at
}

// write writes the values of a column at the positions, as their 64 bits.
func (c *column) write(p *positions, w *wordWriter) {
	switch {
	case c.width == 0:
		w.fill(c.value(0), p.n)
	case c.kind == columnClock:
		c.writeClock(p, w)
	case c.kind == columnLines:
		c.writeLines(p, w)
	case c.table != nil:
		c.writeFrames(p, w)
	case p.sel != nil:
		c.writeSelected(p.sel, w)
	case p.n < fewRows*len(p.spans):
		c.writeRows(p.spans, w)
	default:
		v := c.vectors()
		v.loads = p.prefetchQueue
		for _, s := range p.spans {
			c.writeRun(&v, int(s.Lo), int(s.Hi), w)
		}
	}
}

// writeRun writes the values of the rows [lo, hi).
func (c *column) writeRun(v *vectors, lo, hi int, w *wordWriter) {
	if hi-lo >= 8 {
		lo += c.writeVector(v, lo, hi-lo, w)
	}
	if lo < hi {
		c.writeRows([]Span{{uint32(lo), uint32(hi)}}, w)
	}
}

// writeSelected writes the values at the positions of sel. Where they lie close together, all
// between them are decoded, too, which is faster.
func (c *column) writeSelected(sel []uint32, w *wordWriter) {
	for len(sel) > 0 {
		n, end := len(sel), sel[0]+decodeRows
		if sel[n-1] >= end {
			n = sort.Search(n, func(k int) bool { return sel[k] >= end })
		}
		if rows := int(sel[n-1]-sel[0]) + 1; n < fewRows || rows > rareRows*n {
			c.writeSome(sel[:n], w)
		} else {
			c.writeWithin(sel[:n], w)
		}
		sel = sel[n:]
	}
}

// writeWithin writes the values at the positions of sel, which lie within decodeRows.
func (c *column) writeWithin(sel []uint32, w *wordWriter) {
	var values [decodeRows]uint64
	lo := int(sel[0])
	from := wordWriter{out: unsafe.Pointer(&values), stride: 8}
	v := c.vectors()
	c.writeRun(&v, lo, int(sel[len(sel)-1])+1, &from)
	to := *w
	for _, i := range sel {
		to.put(values[int(i)-lo])
	}
	w.at = to.at
}

// writeRows writes the values of the rows of spans one by one.
func (c *column) writeRows(spans []Span, to *wordWriter) {
	w := *to
	base, gcd, width, mask, body := c.base, c.gcd, uint(c.width), c.maxPacked, c.bodyStart()
	switch c.kind {
	case columnDec:
		power := powersOf10[c.exponent]
		for _, s := range spans {
			bit := uint(s.Lo) * width
			for range s.Hi - s.Lo {
				w.put(fromDecimal(int64(base+gcd*(loadBits(body, bit)&mask)), power))
				bit += width
			}
		}
	case columnDict:
		for _, s := range spans {
			bit := uint(s.Lo) * width
			for range s.Hi - s.Lo {
				w.put(c.word(base + loadBits(body, bit)&mask))
				bit += width
			}
		}
	default:
		if width == 64 {
			c.writeWhole(spans, to)
			return
		}
		for _, s := range spans {
			bit := uint(s.Lo) * width
			for range s.Hi - s.Lo {
				w.put(base + gcd*(loadBits(body, bit)&mask))
				bit += width
			}
		}
	}
	to.at = w.at
}

// writeWhole is writeRows for values of 64 bits, e.g. ciphertexts.
func (c *column) writeWhole(spans []Span, to *wordWriter) {
	w := *to
	base, gcd, body := c.base, c.gcd, c.bodyStart()
	for _, s := range spans {
		at := uintptr(s.Lo) * wordBytes
		for range s.Hi - s.Lo {
			w.put(base + gcd*binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(body, at))[:]))
			at += wordBytes
		}
	}
	to.at = w.at
}

// writeSome is writeSelected for rows one by one.
func (c *column) writeSome(sel []uint32, to *wordWriter) {
	w := *to
	base, gcd, width, mask, body := c.base, c.gcd, uint(c.width), c.maxPacked, c.bodyStart()
	switch c.kind {
	case columnDec:
		power := powersOf10[c.exponent]
		for _, i := range sel {
			v := base + gcd*(loadBits(body, uint(i)*width)&mask)
			w.put(fromDecimal(int64(v), power))
		}
	case columnDict:
		for _, i := range sel {
			w.put(c.word(base + loadBits(body, uint(i)*width)&mask))
		}
	default:
		for _, i := range sel {
			w.put(base + gcd*(loadBits(body, uint(i)*width)&mask))
		}
	}
	to.at = w.at
}
