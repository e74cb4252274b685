package segment

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// Kinds of columns, FORMAT.md section 4.
const (
	columnFOR  = 0 // base + gcd * packed
	columnDict = 1 // packed numbers an entry of the dictionary that precedes the packed values
	columnDec  = 2 // float64 of (base + packed) / 10^exponent
)

// columnHeaderBytes is kind u8, width u8, exponent u8, zero u8, body offset u32, base u64,
// gcd (FOR) or count (dictionary) u64.
const columnHeaderBytes = 24

// maxPackedWidth is the widest value that one unaligned load of 8 bytes always holds whole.
const maxPackedWidth = 56

// column is an encoded column of n values. body starts at the packed values and runs on to the
// end of the mapping, so that a load at the last value stays inside.
type column struct {
	kind, width, exponent uint8
	base, gcd             uint64
	body                  []byte
	dict                  []byte
}

func (c *column) mask() uint64 {
	if c.width == 64 {
		return math.MaxUint64
	}
	return 1<<c.width - 1
}

// packed returns packed value i.
func (c *column) packed(i int) uint64 {
	if c.width == 64 {
		return binary.LittleEndian.Uint64(c.body[8*i:])
	}
	at := uint(i) * uint(c.width)
	return binary.LittleEndian.Uint64(c.body[at>>3:]) >> (at & 7) & c.mask()
}

// value returns value i as the 64 bits that were encoded.
func (c *column) value(i int) uint64 {
	p := c.packed(i)
	switch c.kind {
	case columnDict:
		return binary.LittleEndian.Uint64(c.dict[8*p:])
	case columnDec:
		return decimal(int64(c.base+p), c.exponent)
	default:
		return c.base + c.gcd*p
	}
}

var powersOf10 = [...]float64{1, 10, 100, 1000, 10000}

// maxExponent is the most decimals that are tried.
const maxExponent = uint8(len(powersOf10) - 1)

func decimal(n int64, exponent uint8) uint64 {
	return math.Float64bits(float64(n) / powersOf10[exponent])
}

// toDecimal returns n with decimal(n, exponent) == word.
func toDecimal(word uint64, exponent uint8) (n int64, ok bool) {
	scaled := math.Float64frombits(word) * powersOf10[exponent]
	if !(math.Abs(scaled) < 1<<52) {
		return 0, false
	}
	n = int64(math.Round(scaled))
	return n, decimal(n, exponent) == word
}

func widthOf(span uint64) uint8 {
	if w := uint8(bits.Len64(span)); w <= maxPackedWidth {
		return w
	}
	return 64
}

func packedSize(n int, width uint8) int { return (n*int(width) + 7) / 8 }

// pack appends values of a width, low bits first.
func pack(dst []byte, values []uint64, width uint8) []byte {
	if width == 0 {
		return dst
	}
	if width == 64 {
		for _, v := range values {
			dst = binary.LittleEndian.AppendUint64(dst, v)
		}
		return dst
	}
	var acc uint64
	var have uint8
	for _, v := range values {
		acc |= v << have
		have += width
		if have >= 64 {
			dst = binary.LittleEndian.AppendUint64(dst, acc)
			have -= 64
			acc = v >> (width - have)
			if have == 0 {
				acc = 0
			}
		}
	}
	for ; have > 0; have -= min(have, 8) {
		dst = append(dst, byte(acc))
		acc >>= 8
	}
	return dst
}

// encoder holds the memory that encoding one block hands to the next.
type encoder struct {
	values  []uint64 // the column being encoded
	scratch []uint64
	best    []uint64
	dict    []uint64
	slots   [1024]uint16 // dictionary hash: 1 + entry
	chunk   []byte
	shuffle []byte
	lz      []byte
}

// keyColumn encodes values whose smallest, as signed numbers, is base.
func (e *encoder) keyColumn(h *column) {
	lo, hi := int64(e.values[0]), int64(e.values[0])
	for _, v := range e.values {
		lo, hi = min(lo, int64(v)), max(hi, int64(v))
	}
	h.kind, h.base, h.gcd = columnFOR, uint64(lo), 1
	span := uint64(hi) - uint64(lo)
	e.best = e.best[:0]
	for _, v := range e.values {
		e.best = append(e.best, v-h.base)
	}
	if span > math.MaxUint8 {
		if g := gcdOf(e.best); g > 1 {
			h.gcd, span = g, span/g
			for i := range e.best {
				e.best[i] /= g
			}
		}
	}
	h.width = widthOf(span)
}

func gcdOf(values []uint64) uint64 {
	g := uint64(0)
	for _, v := range values {
		if g != 0 && v%g == 0 {
			continue
		}
		for v != 0 {
			g, v = v, g%v
		}
		if g == 1 {
			return 1
		}
	}
	return g
}

// wordColumn encodes 64-bit words of payloads in whatever of its three forms is smallest, and
// returns its size.
func (e *encoder) wordColumn(h *column) int {
	n := len(e.values)
	lo, hi := e.values[0], e.values[0]
	for _, v := range e.values {
		lo, hi = min(lo, v), max(hi, v)
	}
	*h = column{kind: columnFOR, base: lo, gcd: 1, width: widthOf(hi - lo)}
	size := packedSize(n, h.width)
	e.best = e.best[:0]
	for _, v := range e.values {
		e.best = append(e.best, v-lo)
	}
	if size == 0 {
		return 0
	}
	var dec column
	if e.decimals(&dec) {
		if s := packedSize(n, dec.width); s < size {
			*h, size = dec, s
			e.best, e.scratch = e.scratch, e.best
		}
	}
	var dict column
	if e.dictionary(&dict, size) {
		if s := packedSize(n, dict.width) + 8*len(e.dict); s < size {
			*h, size = dict, s
			e.best, e.scratch = e.scratch, e.best
		}
	}
	return size
}

// decimals tries to write the words as decimals of at most maxExponent places, into scratch.
func (e *encoder) decimals(h *column) bool {
	exponent := uint8(0)
	e.scratch = e.scratch[:0]
	lo, hi := int64(math.MaxInt64), int64(math.MinInt64)
	for i := 0; i < len(e.values); {
		n, ok := toDecimal(e.values[i], exponent)
		if !ok {
			if exponent == maxExponent {
				return false
			}
			exponent++
			i, lo, hi = 0, math.MaxInt64, math.MinInt64
			e.scratch = e.scratch[:0]
			continue
		}
		lo, hi = min(lo, n), max(hi, n)
		e.scratch = append(e.scratch, uint64(n))
		i++
	}
	for i := range e.scratch {
		e.scratch[i] -= uint64(lo)
	}
	*h = column{kind: columnDec, exponent: exponent, base: uint64(lo), gcd: 1,
		width: widthOf(uint64(hi) - uint64(lo))}
	return true
}

// dictionary tries to number the distinct words, into scratch. It gives up when it cannot come
// below size.
func (e *encoder) dictionary(h *column, size int) bool {
	limit := min(len(e.values)/4, len(e.slots)/2, size/8)
	e.scratch, e.dict = e.scratch[:0], e.dict[:0]
	clear(e.slots[:])
	for _, v := range e.values {
		at := v * 0x9e3779b97f4a7c15 >> 54
		for e.slots[at] != 0 && e.dict[e.slots[at]-1] != v {
			at = (at + 1) & uint64(len(e.slots)-1)
		}
		if e.slots[at] == 0 {
			if len(e.dict) >= limit {
				return false
			}
			e.dict = append(e.dict, v)
			e.slots[at] = uint16(len(e.dict))
		}
		e.scratch = append(e.scratch, uint64(e.slots[at]-1))
	}
	*h = column{kind: columnDict, gcd: uint64(len(e.dict)),
		width: widthOf(uint64(len(e.dict) - 1))}
	return true
}
