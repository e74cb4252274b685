package sealed

import (
	"encoding/binary"
	"math/bits"
)

// CompareOrder compares two order tags of one field and scope, of 8 or 16 bytes: -1 if the value of
// the first is the smaller one, 0 if they are equal, 1 if it is greater. The order of the bytes of
// tags says nothing.
//
// Cost: no allocation.
func CompareOrder(a, b []byte) int {
	for ; len(a) >= 8 && len(b) >= 8; a, b = a[8:], b[8:] {
		x, y := binary.BigEndian.Uint64(a), binary.BigEndian.Uint64(b)
		if x == y {
			continue
		}
		// Digits of two bits: where two tags differ first, that of the greater value is one more.
		shift := 62 - bits.LeadingZeros64(x^y)&^1
		if (x>>shift-y>>shift)&3 == 1 {
			return 1
		}
		return -1
	}
	return 0
}
