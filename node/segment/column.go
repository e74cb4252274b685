package segment

import (
	"encoding/binary"
	"math"
)

// Kinds of columns, FORMAT.md section 4.
const (
	columnFOR   = 0 // base + gcd * packed; of key columns all but mid, which may be columnDict
	columnDict  = 1 // packed numbers an entry of the dictionary that precedes the packed values
	columnDec   = 2 // bits of float64(base + gcd * packed) / 10^exponent
	columnClock = 3 // of caps of an open block, see clock_column.go
	columnLines = 4 // of devices of an open block, see device_lines.go
)

const (
	// maxPackedWidth is the widest value that one load of 8 bytes holds at any bit; wider ones
	// take 64 bits.
	maxPackedWidth = 56
	// gcdBit in the width of a column header says that a gcd follows the base.
	gcdBit = 0x80
	// loadBytes is what a load at the last bit of a column may read beyond it.
	loadBytes = 8
)

const _ = uint(paddingBytes - loadBytes) // the padding is long enough

// forCoding is the frame of reference (FOR) of a column: value = base + gcd * packed, modulo 2^64.
type forCoding struct {
	base, gcd uint64
	width     uint8
}

// bytes returns the size of n packed values.
func (f *forCoding) bytes(n int) int { return (n*int(f.width) + 7) / 8 }

func (f *forCoding) mask() uint64 {
	if f.width == 64 {
		return math.MaxUint64
	}
	return 1<<f.width - 1
}

// column is an encoded column of an open block. body starts at the packed values and runs on
// beyond them by at least loadBytes, so that any value can be loaded whole.
type column struct {
	forCoding
	kind, exponent uint8
	low            uint8  // of a clock: bits of a packed value below its tick
	period         uint64 // of a clock
	maxPacked      uint64 // width one bits: the greatest packed value, and the mask of one
	body           []byte
	dict           []byte
	lines          []byte      // of columnLines
	table          *frameTable // nil for no frames
}

// packed returns packed value i of a column without frames.
func (c *column) packed(i int) uint64 {
	at := uint(i) * uint(c.width)
	p := binary.LittleEndian.Uint64(c.body[at>>3:]) >> (at & 7) & c.maxPacked
	if c.kind == columnLines {
		return (p + c.onLine(i)) & greatestOnLine
	}
	return p
}

// value returns value i as the 64 bits that were encoded.
func (c *column) value(i int) uint64 { return c.valueOf(c.number(i)) }

// valueOf returns the 64 bits that a packed value is of.
func (c *column) valueOf(p uint64) uint64 {
	switch c.kind {
	case columnDict:
		return c.word(c.base + p)
	case columnDec:
		return fromDecimal(int64(c.base+c.gcd*p), powersOf10[c.exponent])
	case columnClock:
		return c.onClock(p)
	default:
		return c.base + c.gcd*p
	}
}

// word returns an entry of the dictionary; for a number beyond it, which only bytes that were
// damaged since they were verified hold, the last one.
func (c *column) word(number uint64) uint64 {
	return binary.LittleEndian.Uint64(c.dict[8*min(number, uint64(len(c.dict)/8-1)):])
}

// entry returns an entry of the dictionary of a key column.
func (c *column) entry(number uint64) int64 {
	return int64(binary.LittleEndian.Uint64(c.dict[8*number:]))
}

var powersOf10 = [...]float64{1, 10, 100, 1000, 10000}

func fromDecimal(n int64, power float64) uint64 { return math.Float64bits(float64(n) / power) }

// appendFOR appends a column header.
func appendFOR(dst []byte, f *forCoding) []byte {
	if f.gcd > 1 {
		dst = append(dst, f.width|gcdBit)
		dst = binary.LittleEndian.AppendUint64(dst, f.base)
		return binary.LittleEndian.AppendUint64(dst, f.gcd)
	}
	return binary.LittleEndian.AppendUint64(append(dst, f.width), f.base)
}

// parseFOR reads a column header.
func (c *column) parseFOR(src []byte) (rest []byte, ok bool) {
	if len(src) < 9 {
		return nil, false
	}
	c.width, c.base, c.gcd = src[0]&^gcdBit, binary.LittleEndian.Uint64(src[1:]), 1
	rest = src[9:]
	if src[0]&gcdBit != 0 {
		if len(rest) < 8 {
			return nil, false
		}
		c.gcd, rest = binary.LittleEndian.Uint64(rest), rest[8:]
	}
	c.maxPacked = c.mask()
	return rest, c.gcd != 0 && (c.width <= maxPackedWidth || c.width == 64)
}
