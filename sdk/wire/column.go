package wire

import (
	"encoding/binary"
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
	values []uint64
}

// append appends a column of signed values in whichever codec is smaller: codec u8, width u8,
// base u64, with codecDelta the least step u64, then the packed values.
func (c *columns) append(dst []byte, values []uint64) []byte {
	lo, hi := int64(values[0]), int64(values[0])
	stepLo, stepHi := int64(0), int64(0)
	for i, v := range values {
		lo, hi = min(lo, int64(v)), max(hi, int64(v))
		if i > 0 {
			step := int64(v - values[i-1])
			if i == 1 {
				stepLo, stepHi = step, step
			}
			stepLo, stepHi = min(stepLo, step), max(stepHi, step)
		}
	}
	width := widthOf(uint64(hi) - uint64(lo))
	stepWidth := widthOf(uint64(stepHi) - uint64(stepLo))
	if packedBytes(len(values)-1, stepWidth)+8 < packedBytes(len(values), width) {
		dst = append(dst, codecDelta, byte(stepWidth))
		dst = binary.LittleEndian.AppendUint64(dst, values[0])
		dst = binary.LittleEndian.AppendUint64(dst, uint64(stepLo))
		return packDeltas(dst, values, uint64(stepLo), stepWidth)
	}
	dst = append(dst, codecFOR, byte(width))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(lo))
	return pack(dst, values, uint64(lo), width)
}

// pack appends values less base, low bits first.
func pack(dst []byte, values []uint64, base uint64, width uint) []byte {
	if width == 0 {
		return dst
	}
	var acc uint64
	var have uint
	for _, v := range values {
		v -= base
		acc |= v << have
		if have+width >= 64 {
			dst = binary.LittleEndian.AppendUint64(dst, acc)
			acc = v >> (64 - have)
			have += width - 64
		} else {
			have += width
		}
	}
	return packTail(dst, acc, have)
}

func packTail(dst []byte, acc uint64, have uint) []byte {
	for ; have > 0; have -= min(have, 8) {
		dst = append(dst, byte(acc))
		acc >>= 8
	}
	return dst
}

func packDeltas(dst []byte, values []uint64, least uint64, width uint) []byte {
	if width == 0 {
		return dst
	}
	var acc uint64
	var have uint
	before := values[0]
	for _, value := range values[1:] {
		v := value - before - least
		before = value
		acc |= v << have
		if have+width >= 64 {
			dst = binary.LittleEndian.AppendUint64(dst, acc)
			acc = v >> (64 - have)
			have += width - 64
		} else {
			have += width
		}
	}
	return packTail(dst, acc, have)
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
	c.values = slices.Grow(c.values[:0], n) // n is at most MaxRows
	if codec == codecFOR {
		c.unpack(body, packed, width, base)
		return nil
	}
	c.values = append(c.values, base)
	c.unpack(body, packed, width, least)
	for i := 1; i < n; i++ {
		c.values[i] += c.values[i-1]
	}
	return nil
}

// unpack appends n packed values, each plus base.
func (c *columns) unpack(body []byte, n int, width uint, base uint64) {
	if width == 0 {
		for range n {
			c.values = append(c.values, base)
		}
		return
	}
	if width == 64 {
		for i := range n {
			c.values = append(c.values, base+binary.LittleEndian.Uint64(body[8*i:]))
		}
		return
	}
	mask, at, i := uint64(1)<<width-1, uint(0), 0
	for ; i < n && int(at>>3)+8 <= len(body); i++ {
		c.values = append(c.values, base+(binary.LittleEndian.Uint64(body[at>>3:])>>(at&7)&mask))
		at += width
	}
	var tail [16]byte
	for ; i < n; i++ {
		clear(tail[:])
		copy(tail[:8], body[at>>3:])
		c.values = append(c.values, base+(binary.LittleEndian.Uint64(tail[:])>>(at&7)&mask))
		at += width
	}
}
