package segment

import (
	"encoding/binary"
	"sort"
	"unsafe"
)

const (
	// pieceRows is how many rows are decoded at once for the sake of some of them.
	pieceRows = 256
	// rareRows is how many rows are decoded together in the time in which one is by itself.
	rareRows = 4
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

func (w *wordWriter) put(v uint64) {
	binary.LittleEndian.PutUint64((*[8]byte)(unsafe.Add(w.out, w.at))[:], v)
	w.at += w.stride // a pointer must not leave what it points into
}

// write writes the values of a column at the positions, as their 64 bits.
func (c *column) write(p *positions, w *wordWriter) {
	switch {
	case c.width == 0:
		v := c.value(0)
		for range p.n {
			w.put(v)
		}
	case p.sel != nil:
		c.writeSelected(p.sel, w)
	default:
		for _, s := range p.spans {
			c.writeRun(int(s.Lo), int(s.Hi), w)
		}
	}
}

// writeRun writes the values of the rows [lo, hi).
func (c *column) writeRun(lo, hi int, w *wordWriter) {
	lo += c.writeVector(lo, hi-lo, w)
	c.writeRows(lo, hi, w)
}

// writeSelected writes the values at the positions of sel. Where they lie close together, all
// between them are decoded, too, which is faster.
func (c *column) writeSelected(sel []uint32, w *wordWriter) {
	var piece [pieceRows]uint64
	for len(sel) > 0 {
		lo := int(sel[0])
		n := len(sel)
		if int(sel[n-1]) >= lo+pieceRows {
			n = sort.Search(n, func(k int) bool { return int(sel[k]) >= lo+pieceRows })
		}
		hi := int(sel[n-1]) + 1
		if hi-lo > rareRows*n {
			c.writeSome(sel[:n], w)
		} else {
			to := wordWriter{out: unsafe.Pointer(&piece), stride: 8}
			c.writeRun(lo, hi, &to)
			for _, i := range sel[:n] {
				w.put(piece[int(i)-lo])
			}
		}
		sel = sel[n:]
	}
}

// writeRows is writeRun for rows one by one.
func (c *column) writeRows(lo, hi int, w *wordWriter) {
	base, gcd, width, mask, body := c.base, c.gcd, uint(c.width), c.low, c.bodyStart()
	bit := uint(lo) * width
	switch c.kind {
	case columnDec:
		power := powersOf10[c.exponent]
		for range hi - lo {
			w.put(fromDecimal(int64(base+gcd*(loadBits(body, bit)&mask)), power))
			bit += width
		}
	case columnDict:
		for range hi - lo {
			w.put(binary.LittleEndian.Uint64(c.dict[8*(loadBits(body, bit)&mask):]))
			bit += width
		}
	default:
		for range hi - lo {
			w.put(base + gcd*(loadBits(body, bit)&mask))
			bit += width
		}
	}
}

// writeSome is writeSelected for rows one by one.
func (c *column) writeSome(sel []uint32, w *wordWriter) {
	base, gcd, width, mask, body := c.base, c.gcd, uint(c.width), c.low, c.bodyStart()
	switch c.kind {
	case columnDec:
		power := powersOf10[c.exponent]
		for _, i := range sel {
			v := base + gcd*(loadBits(body, uint(i)*width)&mask)
			w.put(fromDecimal(int64(v), power))
		}
	case columnDict:
		for _, i := range sel {
			w.put(binary.LittleEndian.Uint64(c.dict[8*(loadBits(body, uint(i)*width)&mask):]))
		}
	default:
		for _, i := range sel {
			w.put(base + gcd*(loadBits(body, uint(i)*width)&mask))
		}
	}
}
