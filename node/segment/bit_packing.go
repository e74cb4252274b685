package segment

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// widthOf returns the width that holds 0 to span.
func widthOf(span uint64) uint8 {
	if w := uint8(bits.Len64(span)); w <= maxPackedWidth {
		return w
	}
	return 64
}

// appendPacked appends values at a width, low bits first.
func appendPacked(dst []byte, values []uint64, width uint8) []byte {
	if width == 0 {
		return dst
	}
	at, size := len(dst), (len(values)*int(width)+7)/8
	// Whole words are stored; the last one may be partly beyond the column.
	dst = slices.Grow(dst, size+8)
	out := dst[at : at+size+8]
	k, acc, have := 0, uint64(0), uint8(0)
	for _, v := range values {
		acc |= v << have
		have += width
		if have >= 64 {
			binary.LittleEndian.PutUint64(out[k:], acc)
			k += 8
			have -= 64
			acc = v >> (width - have)
		}
	}
	binary.LittleEndian.PutUint64(out[k:], acc)
	return dst[:at+size]
}

// rebase finds the FOR coding of key values, whose smallest as signed numbers is lo and greatest
// hi, and replaces values by packed values.
func rebase(values []uint64, lo, hi int64) forCoding {
	f := forCoding{base: uint64(lo), gcd: 1}
	span := uint64(hi) - uint64(lo)
	if span == 0 {
		return f
	}
	for i, v := range values {
		values[i] = v - f.base
	}
	f.width = widthOf(span)
	g := commonDivisor(values)
	// A gcd takes 8 bytes of header.
	if w := widthOf(span / g); int(f.width-w)*len(values) > 64 {
		f.gcd, f.width = g, w
		inverse, shift := inverseOf(g)
		for i, v := range values {
			values[i] = bits.RotateLeft64(v*inverse, -shift)
		}
	}
	return f
}

// inverseOf returns numbers with which every multiple v of d is divided by it without a division:
// v/d is v*inverse rotated right by shift. For any other v that is more than MaxUint64/d.
func inverseOf(d uint64) (inverse uint64, shift int) {
	shift = bits.TrailingZeros64(d)
	odd := d >> shift
	inverse = odd // right to 3 bits; each step doubles them
	for range 5 {
		inverse *= 2 - odd*inverse
	}
	return inverse, shift
}

// commonDivisor returns the greatest common divisor of values that are not all 0.
func commonDivisor(values []uint64) uint64 {
	g, inverse, shift, most := uint64(0), uint64(1), 0, uint64(0) // divides 0 only
	for _, v := range values {
		if bits.RotateLeft64(v*inverse, -shift) <= most {
			continue
		}
		for v != 0 {
			g, v = v, g%v
		}
		if g == 1 {
			return 1
		}
		inverse, shift = inverseOf(g)
		most = ^uint64(0) / g
	}
	return g
}
