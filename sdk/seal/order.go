package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"math/bits"
)

// Order tags are those of Chenette, Lewi, Weis and Wu, with digits of two bits: digit j of a tag is
// bit j of the value plus a pseudorandom number that follows from the bits before it, modulo 4. Two
// tags have equal digits up to the first bit in which their values differ, and there they differ by
// 1 in the direction of the values.

// levels is for how many bits one call of the cipher gives the numbers.
const levels = 6

// orderCipher makes the tags of a field. One goroutine uses it.
type orderCipher struct {
	block   cipher.Block
	in, out [aes.BlockSize]byte // here, because what goes through an interface would be allocated
}

func newOrderCipher(key *Key) *orderCipher {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic("BUG: " + err.Error()) // only for other sizes of keys
	}
	return &orderCipher{block: block}
}

// digits returns two bits for each of the n highest bits of x, the first of them highest.
func (o *orderCipher) digits(x uint64, n int) (hi, lo uint64) {
	for j := 0; j < n; j += levels {
		o.in[0] = byte(j)
		binary.BigEndian.PutUint64(o.in[8:], x>>(64-j)) // 0 for j = 0
		o.block.Encrypt(o.out[:], o.in[:])
		// The node of the tree of the bits behind the first j: 1 for none, then 2 and 3, ...
		node, some := uint64(1), uint64(0)
		count := min(levels, n-j)
		for bit := 63 - j; bit > 63-j-count; bit-- {
			pad := uint64(o.out[node/4%aes.BlockSize] >> (2 * (node % 4)))
			b := x >> bit & 1
			some = some<<2 | (pad+b)&3
			node = node<<1 | b
		}
		hi, lo = hi<<(2*count)|lo>>(64-2*count), lo<<(2*count)|some
	}
	return hi, lo
}

// tag32 appends the tag of a number of 32 bits: 8 bytes.
func (o *orderCipher) tag32(dst []byte, x uint32) []byte {
	_, digits := o.digits(uint64(x)<<32, 32)
	return binary.BigEndian.AppendUint64(dst, digits)
}

// tag64 appends the tag of a number of 64 bits: 16 bytes.
func (o *orderCipher) tag64(dst []byte, x uint64) []byte {
	hi, lo := o.digits(x, 64)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, hi), lo)
}

// tag appends the tag of a value of a field, of as many bytes as its section has.
func (o *orderCipher) tag(dst []byte, f *Field, width int, v int64) []byte {
	switch {
	case f.Order.Width > 0:
		return o.tag32(dst, f.Order.bucket(v))
	case width == 8:
		return o.tag32(dst, uint32(int32(v))^1<<31)
	}
	return o.tag64(dst, uint64(v)^1<<63)
}

// CompareOrder compares two order tags of one field and scope, of 8 or 16 bytes: -1 if the value of
// the first is the smaller one, 0 if they are equal, 1 if it is greater. It needs no key. The order
// of the bytes of tags says nothing.
func CompareOrder(a, b []byte) int {
	for ; len(a) >= 8 && len(b) >= 8; a, b = a[8:], b[8:] {
		x, y := binary.BigEndian.Uint64(a), binary.BigEndian.Uint64(b)
		if x == y {
			continue
		}
		shift := 62 - bits.LeadingZeros64(x^y)&^1
		if (x>>shift-y>>shift)&3 == 1 {
			return 1
		}
		return -1
	}
	return 0
}
