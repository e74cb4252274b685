package wire

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// Codecs of a column, PROTOCOL.md section 3.
const (
	codecFOR   = 0 // base + packed
	codecDelta = 1 // previous + (least step + packed)
)

// maxWidth is the widest packed value; wider ones take 8 bytes.
const maxWidth = 56

func widthOf(span uint64) uint {
	if w := uint(bits.Len64(span)); w <= maxWidth {
		return w
	}
	return 64
}

func packedBytes(n int, width uint) int { return (n*int(width) + 7) / 8 }

// columns holds the memory that coding one column hands to the next.
type columns struct {
	values []uint64 // of a column that is read
	steps  []uint64 // of a column that is written
}

// spans are the least values of a column and of its steps, and the widths of what lies above.
type spans struct {
	least, leastStep uint64
	width, stepWidth uint
}

// measure returns the spans of a column of at least one value.
func measure(values []uint64) spans {
	before := values[0]
	lo, hi := int64(before), int64(before)
	if len(values) == 1 {
		return spans{least: before}
	}
	stepLo, stepHi := int64(math.MaxInt64), int64(math.MinInt64)
	for _, v := range values[1:] {
		step := int64(v - before)
		before = v
		lo, hi = min(lo, int64(v)), max(hi, int64(v))
		stepLo, stepHi = min(stepLo, step), max(stepHi, step)
	}
	return spans{uint64(lo), uint64(stepLo), widthOf(uint64(hi) - uint64(lo)),
		widthOf(uint64(stepHi) - uint64(stepLo))}
}

// append appends a column of signed values in whichever codec is smaller: codec u8, width u8,
// base u64, with codecDelta the least step u64, then the packed values.
func (c *columns) append(dst []byte, values []uint64) []byte {
	s := measure(values)
	if packedBytes(len(values)-1, s.stepWidth)+8 < packedBytes(len(values), s.width) {
		dst = append(dst, codecDelta, byte(s.stepWidth))
		dst = binary.LittleEndian.AppendUint64(dst, values[0])
		dst = binary.LittleEndian.AppendUint64(dst, s.leastStep)
		c.steps = slices.Grow(c.steps[:0], len(values)-1)[:len(values)-1]
		for i, v := range values[1:] {
			c.steps[i] = v - values[i]
		}
		return pack(dst, c.steps, s.leastStep, s.stepWidth)
	}
	dst = append(dst, codecFOR, byte(s.width))
	dst = binary.LittleEndian.AppendUint64(dst, s.least)
	return pack(dst, values, s.least, s.width)
}

// pack appends values less base, low bits first.
func pack(dst []byte, values []uint64, base uint64, width uint) []byte {
	if width == 0 {
		return dst
	}
	size := packedBytes(len(values), width)
	dst = slices.Grow(dst, size+8) // 8: the last word is written whole, and cut
	out, at := dst[len(dst):len(dst)+size+8], 0
	var acc uint64
	var have uint
	for _, v := range values {
		v -= base
		acc |= v << have
		have += width
		if have >= 64 {
			binary.LittleEndian.PutUint64(out[at:], acc)
			at += 8
			have -= 64
			acc = v >> (width - have)
		}
	}
	binary.LittleEndian.PutUint64(out[at:], acc)
	return dst[:len(dst)+size]
}

// parse reads a column of n values into c.values.
func (c *columns) parse(d *decoder, n int) error {
	codec, width := d.u8(), uint(d.u8())
	base, packed := d.u64(), n
	least := uint64(0)
	if codec == codecDelta {
		least = d.u64()
		packed--
	}
	if codec > codecDelta || width > maxWidth && width != 64 {
		return badFrame("column of codec %d and width %d", codec, width)
	}
	body := d.take(uint64(packedBytes(packed, width)))
	if d.short {
		return badFrame("column of %d values ends early", n)
	}
	c.values = slices.Grow(c.values[:0], n)[:n] // n is at most MaxRows
	if codec == codecFOR {
		unpack(c.values, body, width, base)
		return nil
	}
	c.values[0] = base
	steps := c.values[1:]
	unpack(steps, body, width, least)
	for i, step := range steps {
		base += step
		steps[i] = base
	}
	return nil
}

// unpack fills out with packed values, each plus base.
func unpack(out []uint64, body []byte, width uint, base uint64) {
	if width == 0 {
		for i := range out {
			out[i] = base
		}
		return
	}
	if width == 64 {
		for i := range out {
			out[i] = base + binary.LittleEndian.Uint64(body[8*i:])
		}
		return
	}
	mask, at, i := uint64(1)<<width-1, uint(0), 0
	for ; i < len(out) && int(at>>3)+8 <= len(body); i++ {
		out[i] = base + binary.LittleEndian.Uint64(body[at>>3:])>>(at&7)&mask
		at += width
	}
	var tail [8]byte
	for ; i < len(out); i++ {
		clear(tail[:])
		copy(tail[:], body[at>>3:])
		out[i] = base + binary.LittleEndian.Uint64(tail[:])>>(at&7)&mask
		at += width
	}
}
