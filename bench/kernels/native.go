package kernels

import (
	"encoding/binary"
	"math"
	"math/bits"
)

func float(b []byte) float64 { return math.Float64frombits(number(b)) }

func number(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

func put(b []byte, x uint64) { binary.LittleEndian.PutUint64(b, x) }

// sum has four sums, because an addition has to wait for the one before it.
func sum(data, out []byte) { put(out, math.Float64bits(float(out)+Sum(data))) }

// Sum adds up float64.
func Sum(data []byte) float64 {
	var a, b, c, d float64
	for len(data) >= 32 {
		a += float(data)
		b += float(data[8:])
		c += float(data[16:])
		d += float(data[24:])
		data = data[32:]
	}
	for ; len(data) >= 8; data = data[8:] {
		a += float(data)
	}
	return a + b + (c + d)
}

// SumStrided adds up the float64 that payloads of 16 bytes start with.
func SumStrided(data []byte) float64 {
	var a, b, c, d float64
	for len(data) >= 64 {
		a += float(data)
		b += float(data[16:])
		c += float(data[32:])
		d += float(data[48:])
		data = data[64:]
	}
	for ; len(data) >= 16; data = data[16:] {
		a += float(data)
	}
	return a + b + (c + d)
}

func modular(data, out []byte) {
	var a, b, c, d uint64
	for len(data) >= 32 {
		a += number(data)
		b += number(data[8:])
		c += number(data[16:])
		d += number(data[24:])
		data = data[32:]
	}
	for ; len(data) >= 8; data = data[8:] {
		a += number(data)
	}
	put(out, number(out)+a+b+c+d)
}

// keepAbove has no branch per record: the compiler turns bit into an instruction that sets one.
func keepAbove(data, out []byte) {
	for ; len(data) >= 64 && len(out) > 0; data, out = data[64:], out[1:] {
		low := bit(float(data) > threshold) | bit(float(data[8:]) > threshold)<<1 |
			bit(float(data[16:]) > threshold)<<2 | bit(float(data[24:]) > threshold)<<3
		high := bit(float(data[32:]) > threshold) | bit(float(data[40:]) > threshold)<<1 |
			bit(float(data[48:]) > threshold)<<2 | bit(float(data[56:]) > threshold)<<3
		out[0] = low | high<<4
	}
	for i := 0; 8*i < len(data); i++ {
		out[0] |= bit(float(data[8*i:]) > threshold) << (i & 7)
	}
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func histogram(data, out []byte) {
	var count [buckets]uint32
	for ; len(data) >= 8; data = data[8:] {
		// What is below wraps around and counts as above: the numbers here are inside.
		k := min(uint64(int64((float(data)-lowest)*scale)), buckets-1)
		count[k]++
	}
	for k, n := range count {
		put(out[8*k:], number(out[8*k:])+uint64(n))
	}
}

func hyperLogLog(data, out []byte) {
	ranks := (*[registers]uint8)(out)
	for ; len(data) >= 8; data = data[8:] {
		x := number(data)
		x = (x ^ x>>33) * 0xff51afd7ed558ccd
		x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
		x ^= x >> 33
		r := &ranks[x>>52]
		if rank := uint8(bits.LeadingZeros64(x<<12|1<<11) + 1); rank > *r {
			*r = rank
		}
	}
}
