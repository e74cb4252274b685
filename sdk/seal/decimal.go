package seal

import (
	"fmt"
	"math"
	"math/big"
	"strings"
)

// Parse reads a decimal number as units of a field. It fails for one with more digits than the
// field keeps, as rounding would not be noticed.
func (f *Field) Parse(text string) (units int64, err error) {
	r, ok := new(big.Rat).SetString(text)
	if !ok || strings.ContainsAny(text, "/_xXpPbBoO") || len(text) > 64 {
		return 0, fmt.Errorf("field %q: %.64q is not a decimal number", f.Name, text)
	}
	r.Mul(r, new(big.Rat).SetInt(power10(f.Digits)))
	if !r.IsInt() {
		return 0, fmt.Errorf("field %q: %s has more than %d digits after the point; round it, or "+
			"raise digits in the schema", f.Name, text, f.Digits)
	}
	if !r.Num().IsInt64() || r.Num().Int64() == math.MinInt64 {
		return 0, fmt.Errorf("field %q: %s is beyond what a field can hold", f.Name, text)
	}
	return r.Num().Int64(), nil
}

// Round returns the units next to a number. It fails for NaN, infinity and what is beyond 2^63.
func (f *Field) Round(v float64) (units int64, err error) {
	scaled := math.RoundToEven(v * math.Pow10(int(f.Digits)))
	if !(math.Abs(scaled) < 1<<63) {
		return 0, fmt.Errorf("field %q: %v is not a number that a field can hold", f.Name, v)
	}
	return int64(scaled), nil
}

// Format writes units as a decimal number with all digits that the field keeps.
func (f *Field) Format(units int64) string { return formatUnits(big.NewInt(units), f.Digits) }

func formatUnits(units *big.Int, digits uint8) string {
	text := new(big.Int).Abs(units).String()
	if n := int(digits); n > 0 {
		if len(text) <= n {
			text = strings.Repeat("0", n+1-len(text)) + text
		}
		text = text[:len(text)-n] + "." + text[len(text)-n:]
	}
	if units.Sign() < 0 {
		return "-" + text
	}
	return text
}

func power10(n uint8) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}
