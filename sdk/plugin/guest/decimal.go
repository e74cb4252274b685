package guest

import (
	"math"
	"math/bits"
)

// Bounds of decimal text: what can be read without a library, exact to the last bit.
const (
	maxChars    = 31 // of digits and the point
	maxDigits   = 19
	maxPower    = 27
	maxExponent = 1000 // as written; more cannot come down to maxPower
	maxExact    = 22   // powers of ten that float64 holds exactly
)

// The loops below have functions of their own: on WebAssembly each turn pays for the whole function
// that it stands in.

// digits reads those of src from i on: their end, their value modulo 2^64, and how many there are
// after zeros at the start, of which there are none once some were seen.
func digits(src []byte, i int, value uint64, seen int) (end int, v uint64, kept int) {
	for ; i < len(src) && src[i]-'0' < 10; i++ {
		value = value*10 + uint64(src[i]-'0')
		if seen > 0 || src[i] != '0' {
			seen++
		}
	}
	return i, value, seen
}

func sign(src []byte, i int) int {
	if i < len(src) && (src[i] == '-' || src[i] == '+') {
		i++
	}
	return i
}

// decimal reads the number that src begins with: a sign, digits with or without a point, and an
// exponent. It ends where src does, or before what cannot be meant as a part of it.
func decimal(src []byte) (x float64, ok bool) {
	start := sign(src, 0)
	end, value, kept := digits(src, start, 0, 0)
	last, power := end, 0 // the point itself may lie beyond the last digit
	if end < len(src) && src[end] == '.' {
		point := end + 1
		end, value, kept = digits(src, point, value, kept)
		if power = point - end; power < 0 {
			last = end
		}
	}
	if last == start || last-start > maxChars || kept > maxDigits || power < -maxPower {
		return 0, false
	}
	if end < len(src) && src[end]|32 == 'e' {
		e := 0
		if e, end = exponent(src, end+1); end < 0 {
			return 0, false
		}
		power += e
	}
	if end < len(src) && partOfNumber(src[end]) ||
		value > 0 && (power < -maxPower || power > maxPower) {
		return 0, false
	}
	if value == 0 {
		power = 0
	}
	switch {
	case value >= 1<<53 || power < -maxExact || power > maxExact:
		x = inexact(value, power)
	case power < 0: // both are exact, and so this is rounded once
		x = float64(value) / powerOf[float64](10, -power)
	default:
		x = float64(value) * powerOf[float64](10, power)
	}
	if src[0] == '-' {
		x = -x
	}
	return x, true
}

// powerOf returns ten, or five, to the power of n, as a product that is exact.
func powerOf[T uint64 | float64](base T, n int) T {
	x := T(1)
	for range n {
		x *= base
	}
	return x
}

// inexact returns value times ten to a power, rounded once: what is cut off is kept as one bit, far
// below the last of float64. strconv costs too much fuel for each row.
func inexact(value uint64, power int) float64 {
	five := powerOf[uint64](5, max(power, -power))
	z, y := bits.LeadingZeros64(value), bits.LeadingZeros64(five)
	value, five = value<<z, five<<y
	if power < 0 {
		quotient, rest := bits.Div64(value>>1, value<<63, five)
		return scaled(quotient, rest, y-z-63+power)
	}
	high, low := bits.Mul64(value, five)
	return scaled(high, low, 64-z-y+power)
}

// scaled returns digits, of which there is a rest, times two to a power that is far from the ends
// of what float64 can hold.
func scaled(digits, rest uint64, power int) float64 {
	if rest != 0 {
		digits |= 1
	}
	return float64(digits) * math.Float64frombits(uint64(1023+power)<<52)
}

// exponent reads one and returns its end, or -1 if there is none.
func exponent(src []byte, i int) (e, end int) {
	from := sign(src, i)
	end, value, _ := digits(src, from, 0, 0)
	if end == from {
		return 0, -1
	}
	if e = int(min(value, maxExponent)); end-from > maxDigits {
		e = maxExponent
	}
	if src[from-1] == '-' {
		e = -e
	}
	return e, end
}

func partOfNumber(c byte) bool {
	return c|32 >= 'a' && c|32 <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '_'
}
