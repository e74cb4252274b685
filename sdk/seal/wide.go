package seal

import (
	"encoding/binary"
	"math/big"
	"math/bits"
)

// wide is a two's complement number of 128 bits, added modulo 2^128. Lanes of 32 and of 64 bits are
// kept in it, too.
type wide struct{ lo, hi uint64 }

func wideOf(v int64) wide { return wide{uint64(v), uint64(v >> 63)} }

func (a wide) plus(b wide) wide {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	hi, _ := bits.Add64(a.hi, b.hi, carry)
	return wide{lo, hi}
}

func (a wide) minus(b wide) wide {
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	hi, _ := bits.Sub64(a.hi, b.hi, borrow)
	return wide{lo, hi}
}

// times returns the product of two numbers of 64 bits.
func times(a, b int64) wide {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if a < 0 {
		hi -= uint64(b)
	}
	if b < 0 {
		hi -= uint64(a)
	}
	return wide{lo, hi}
}

// loadLane reads a lane of 4, 8 or 16 bytes.
func loadLane(b []byte, width int) wide {
	switch width {
	case 4:
		return wide{lo: uint64(binary.LittleEndian.Uint32(b))}
	case 8:
		return wide{lo: binary.LittleEndian.Uint64(b)}
	}
	return wide{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}
}

// storeLane writes a number modulo 2^(8 width).
func storeLane(b []byte, width int, v wide) {
	switch width {
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(v.lo))
	case 8:
		binary.LittleEndian.PutUint64(b, v.lo)
	default:
		binary.LittleEndian.PutUint64(b, v.lo)
		binary.LittleEndian.PutUint64(b[8:], v.hi)
	}
}

// signed reads the lowest bits of v, as many as a lane has, as a two's complement number.
func (a wide) signed(width int) wide {
	switch width {
	case 4:
		return wideOf(int64(int32(a.lo)))
	case 8:
		return wideOf(int64(a.lo))
	}
	return a
}

// fits64 reports whether the number is one of 64 bits.
func (a wide) fits64() bool { return a == wideOf(int64(a.lo)) }

func (a wide) big() *big.Int {
	v := new(big.Int).SetUint64(a.hi)
	v.Lsh(v, 64).Add(v, new(big.Int).SetUint64(a.lo))
	if a.hi>>63 != 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), 128))
	}
	return v
}
