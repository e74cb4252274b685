package where

import (
	"cmp"
	"errors"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/sdk/expr"
)

// Range is the numbers from Low to High, both included, of one of two orders: that of the values of
// a type, in which -0 is right below 0 and NaNs are at both ends, or that of their bits.
type Range struct{ Low, High uint64 }

// isInfinite reports whether a word is infinite: inf, -inf, or as other programs write it, e.g. Inf
// and +Infinity.
func isInfinite(text string) bool {
	if text != "" && (text[0] == '+' || text[0] == '-') {
		text = text[1:]
	}
	return strings.EqualFold(text, "inf") || strings.EqualFold(text, "infinity")
}

// isNumber reports whether a word is a decimal number or infinite.
func isNumber(text string) bool {
	switch {
	case isInfinite(text):
		return true
	case strings.TrimLeft(text, "+-") == "":
		return false
	}
	for _, c := range []byte(text) {
		if !(c >= '0' && c <= '9') && !strings.ContainsRune("+-.eE", rune(c)) {
			return false
		}
	}
	_, err := strconv.ParseFloat(text, 64)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

// maxExponent bounds the exponent of what is compared with integers: it is computed exactly.
const maxExponent = 400

// exact returns the value of a number; nil if it is infinite or its exponent is too large.
func exact(text string) *big.Rat {
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		if e, err := strconv.Atoi(text[at+1:]); err != nil || e > maxExponent || e < -maxExponent {
			return nil
		}
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil
	}
	return r
}

// compareNumbers orders two numbers.
func compareNumbers(a, b string) int {
	x, y := exact(a), exact(b)
	if x != nil && y != nil {
		return x.Cmp(y)
	}
	f, _ := strconv.ParseFloat(a, 64)
	g, _ := strconv.ParseFloat(b, 64)
	switch {
	case f < g:
		return -1
	case f > g:
		return 1
	}
	return 0
}

// kind is a type of numbers: how many bits, and which of them come first in the order of values.
type kind struct {
	bits  uint
	float bool
	sign  bool
}

func (k kind) size() uint32 { return uint32(k.bits / 8) }

// greatest returns the greatest bits of the type.
func (k kind) greatest() uint64 { return math.MaxUint64 >> (64 - k.bits) }

// Order turns the bits of a value into its place in the order of values.
func (k kind) order(bits uint64) uint64 {
	top := uint64(1) << (k.bits - 1)
	switch {
	case k.float && bits&top != 0:
		return ^bits & k.greatest()
	case k.float || k.sign:
		return bits ^ top
	}
	return bits
}

// bitsOf is the inverse of order.
func (k kind) bitsOf(place uint64) uint64 {
	top := uint64(1) << (k.bits - 1)
	switch {
	case k.float && place&top == 0:
		return ^place & k.greatest()
	case k.float || k.sign:
		return place ^ top
	}
	return place
}

// ofFloat returns the places of a number in a type of floats: of zero those of -0 and 0. What is
// beyond the type has none: low is then above high, and between them are no values.
func (k kind) ofFloat(text string) (low, high uint64) {
	bits := func(f float64) uint64 {
		if k.bits == 32 {
			return uint64(math.Float32bits(float32(f)))
		}
		return math.Float64bits(f)
	}
	f, _ := strconv.ParseFloat(text, int(k.bits)) // infinite where it is too large
	if f == 0 {
		return k.order(bits(math.Copysign(0, -1))), k.order(bits(0))
	}
	low = k.order(bits(f))
	switch beyond := math.IsInf(f, 0) && !isInfinite(text); {
	case beyond && f > 0:
		return low, low - 1
	case beyond:
		return low + 1, low
	}
	return low, low
}

// compare returns the places of the values that stand in a relation to a number, which is rounded
// to a type of floats. It is not ok for what is compared with an integer and cannot be.
func (k kind) compare(op expr.Op, text string) (set []Range, ok bool) {
	if !k.float {
		return k.compareInteger(op, text)
	}
	low, high := k.ofFloat(text)
	least, _ := k.ofFloat("-inf")
	_, most := k.ofFloat("inf")
	switch op {
	case expr.Less:
		return span(least, low, -1), true
	case expr.LessOrEqual:
		return span(least, high, 0), true
	case expr.Greater:
		return span(high+1, most, 0), true // above every number there are NaNs
	case expr.GreaterOrEqual:
		return span(low, most, 0), true
	}
	return span(low, high, 0), true
}

// span returns the range from low to high, or with less to the one before that.
func span(low, high uint64, less int) []Range {
	if less != 0 {
		if high == 0 {
			return nil
		}
		high--
	}
	if low > high {
		return nil
	}
	return []Range{{low, high}}
}

// compareInteger is compare for types of integers.
func (k kind) compareInteger(op expr.Op, text string) (set []Range, ok bool) {
	least, most := new(big.Int), new(big.Int).SetUint64(k.greatest())
	if k.sign {
		least.SetInt64(-1 << (k.bits - 1))
		most.Add(most, least)
	}
	low, high := new(big.Int).Set(least), new(big.Int).Set(most)
	v := exact(text)
	switch {
	case v == nil && isInfinite(text):
		below, less := text[0] == '-', op == expr.Less || op == expr.LessOrEqual
		if op == expr.In || below == less {
			return nil, true
		}
		return []Range{{0, k.greatest()}}, true
	case v == nil:
		return nil, false
	}
	one := big.NewInt(1)
	floor, rest := new(big.Int).DivMod(v.Num(), v.Denom(), new(big.Int))
	ceil := new(big.Int).Set(floor)
	if rest.Sign() != 0 {
		ceil.Add(ceil, one)
	}
	switch op {
	case expr.Less:
		high.Sub(ceil, one)
	case expr.LessOrEqual:
		high = floor
	case expr.Greater:
		low.Add(floor, one)
	case expr.GreaterOrEqual:
		low = ceil
	default:
		low, high = ceil, floor
	}
	if low.Cmp(least) < 0 {
		low = least
	}
	if high.Cmp(most) > 0 {
		high = most
	}
	if low.Cmp(high) > 0 {
		return nil, true
	}
	first, last := new(big.Int).Sub(low, least), new(big.Int).Sub(high, least)
	return []Range{{first.Uint64(), last.Uint64()}}, true
}

// bitRanges returns the bits of the values of ranges in the order of values, sorted and merged.
func (k kind) bitRanges(set []Range) []Range {
	var out []Range
	half := uint64(1) << (k.bits - 1)
	for _, r := range set {
		if !k.sign && !k.float {
			out = append(out, r)
			continue
		}
		if r.Low < half { // the negative ones
			a, b := k.bitsOf(r.Low), k.bitsOf(min(r.High, half-1))
			out = append(out, Range{min(a, b), max(a, b)})
		}
		if r.High >= half {
			out = append(out, Range{k.bitsOf(max(r.Low, half)), k.bitsOf(r.High)})
		}
	}
	return merge(out)
}

// merge sorts ranges and joins those that overlap or touch.
func merge(set []Range) []Range {
	slices.SortFunc(set, func(a, b Range) int { return cmp.Compare(a.Low, b.Low) })
	var out []Range
	for _, r := range set {
		if n := len(out); n > 0 && (r.Low <= out[n-1].High || r.Low-1 == out[n-1].High) {
			out[n-1].High = max(out[n-1].High, r.High)
			continue
		}
		out = append(out, r)
	}
	return out
}

// intersect returns what is in both of two merged sets.
func intersect(a, b []Range) []Range {
	var out []Range
	for i, k := 0, 0; i < len(a) && k < len(b); {
		low, high := max(a[i].Low, b[k].Low), min(a[i].High, b[k].High)
		if low <= high {
			out = append(out, Range{low, high})
		}
		if a[i].High < b[k].High {
			i++
		} else {
			k++
		}
	}
	return out
}

// complement returns what is not in a merged set.
func (k kind) complement(set []Range) []Range {
	var out []Range
	next := uint64(0)
	for _, r := range set {
		if r.Low > next {
			out = append(out, Range{next, r.Low - 1})
		}
		if r.High == k.greatest() {
			return out
		}
		next = r.High + 1
	}
	return append(out, Range{next, k.greatest()})
}
