package guest

import (
	"math"
	"strconv"
)

// Bounds of decimal text: what can be read without a library, exact to the last bit.
const (
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
		if value > 0 {
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
	found, power := end > start, 0
	if end < len(src) && src[end] == '.' {
		point := end + 1
		end, value, kept = digits(src, point, value, kept)
		power = point - end
		found = found || end > point
	}
	if !found || kept > maxDigits {
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
	if value < 1<<53 && power >= -maxExact && power <= 0 {
		// Both are exact, and so this is rounded once; strconv costs too much fuel for each row.
		if x = float64(value) / powerOfTen(-power); src[0] == '-' {
			x = math.Copysign(x, -1)
		}
		return x, true
	}
	return parse(src[:end])
}

func parse(src []byte) (x float64, ok bool) {
	x, err := strconv.ParseFloat(string(src), 64)
	return x, err == nil
}

func powerOfTen(n int) float64 {
	ten := 1.0
	for range n {
		ten *= 10
	}
	return ten
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
