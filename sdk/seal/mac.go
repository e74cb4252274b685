package seal

import (
	"encoding/binary"
	"math/big"
	"math/bits"
)

// The MAC of a record is a number modulo the prime p = 2^127-1: the sum over its lanes of a secret
// factor times the lane's value, plus row i minus row i-1 of pads of its own. So the sum of the
// MACs of records is the MAC of their sum. A node adds MACs as plain numbers of 192 bits. Modulo a
// power of two such a MAC would be forgeable: half of the modulus, added to a sum and to its MAC,
// would pass for every odd factor.

const (
	macBytes    = 16
	macSumBytes = 24
)

// element is a number modulo p, below p.
type element struct{ lo, hi uint64 }

const topOfElement = 1<<63 - 1 // highest bits of p

// reduce brings a number below 2^128 below p.
func reduce(a wide) element {
	lo, carry := bits.Add64(a.lo, a.hi>>63, 0)
	hi := a.hi&topOfElement + carry
	if hi>>63 != 0 { // 2^127 exactly, or one more
		lo, carry = bits.Add64(lo, 1, 0)
		hi = hi&topOfElement + carry
	}
	if lo == 1<<64-1 && hi == topOfElement {
		return element{}
	}
	return element{lo, hi}
}

func (a element) plus(b element) element {
	return reduce(wide(a).plus(wide(b))) // below 2^128
}

func (a element) minus(b element) element { return a.plus(b.negative()) }

func (a element) negative() element {
	if a == (element{}) {
		return a
	}
	lo, borrow := bits.Sub64(1<<64-1, a.lo, 0)
	hi, _ := bits.Sub64(topOfElement, a.hi, borrow)
	return element{lo, hi}
}

// times multiplies: the product of 254 bits is x 2^127 + y, which is x + y modulo p.
func (a element) times(b element) element {
	h0, l0 := bits.Mul64(a.lo, b.lo)
	h1, l1 := bits.Mul64(a.lo, b.hi)
	h2, l2 := bits.Mul64(a.hi, b.lo)
	h3, l3 := bits.Mul64(a.hi, b.hi)
	w0 := l0
	w1, c1 := bits.Add64(h0, l1, 0)
	w1, c2 := bits.Add64(w1, l2, 0)
	w2, c3 := bits.Add64(h1, h2, c1)
	w2, c4 := bits.Add64(w2, l3, c2)
	w3 := h3 + c3 + c4
	low := reduce(wide{w0, w1 & topOfElement})
	high := reduce(wide{w2<<1 | w1>>63, w3<<1 | w2>>63})
	return low.plus(high)
}

// elementOf is a signed number modulo p.
func elementOf(v wide) element {
	if v.hi>>63 == 0 {
		return reduce(v)
	}
	return reduce(wide{}.minus(v)).negative()
}

// parseElement reads 16 bytes, of which the highest bit is not looked at.
func parseElement(b []byte) element {
	return reduce(wide{binary.LittleEndian.Uint64(b),
		binary.LittleEndian.Uint64(b[8:]) & topOfElement})
}

func (a element) append(dst []byte) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(dst, a.lo), a.hi)
}

// macSum is a sum of MACs as plain numbers.
type macSum [3]uint64

func (s *macSum) add(lo, hi, top uint64) {
	var carry uint64
	s[0], carry = bits.Add64(s[0], lo, 0)
	s[1], carry = bits.Add64(s[1], hi, carry)
	s[2], _ = bits.Add64(s[2], top, carry)
}

// reduce returns the sum modulo p: 2^128 is 2.
func (s *macSum) reduce() element {
	return reduce(wide{s[0], s[1]}).plus(reduce(wide{s[2] << 1, s[2] >> 63}))
}

// bigPrime is p.
func bigPrime() *big.Int {
	return new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 127), big.NewInt(1))
}

// macKey has the secret factors of the lanes of a schema.
type macKey struct{ factors []element }

// newMACKey derives a factor for each lane.
func newMACKey(scope *Key, moid int32, s *Schema) macKey {
	root := derive(scope, labelMAC, be32(uint32(moid)), s.print[:])
	var k macKey
	for _, l := range s.lanes {
		f := derive(&root, labelMAC, be16(s.def.Fields[l.field].ID), []byte{byte(l.kind)},
			be16(uint16(l.bucket)))
		k.factors = append(k.factors, parseElement(f[:macBytes]))
	}
	return k
}

// of returns the MAC of the values of lanes, without pads.
func (k macKey) of(lanes []wide) element {
	var sum element
	for i, v := range lanes {
		sum = sum.plus(k.factors[i].times(elementOf(v)))
	}
	return sum
}
