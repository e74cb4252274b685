package guest

import (
	"math"
	"strconv"
	"strings"
	"testing"
)

// FuzzDecimal holds decimal text against strconv, which reads all of what decimal takes.
func FuzzDecimal(f *testing.F) {
	for _, text := range []string{"0", "-0", "+1.5", ".5", "5.", "1e5", "1E-5", "0e9999", "1.5;2",
		"9007199254740993", "9999999999999999999e-19", "21.500000000000001", "184467440737095516.1",
		"00000000012.5", "1-2", "-", ".", "e5", " 1", "1x", "1.2.3", "1e", "1_0", "0x1f", "nan",
		"12345678901234567890", "18446744073709551616",
		"1e28", "1e-28", "1e99999999999", "--1", "1e5.", "1 "} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		x, ok := decimal([]byte(text))
		want, err := strconv.ParseFloat(text, 64)
		if ok && err == nil && math.Float64bits(x) != math.Float64bits(want) {
			t.Errorf("%q is %v, want %v", text, x, want)
		}
		short := len(text) < 19 && strings.Trim(text, "0123456789.") == ""
		if !ok && err == nil && short {
			t.Errorf("%q is no number, want %v", text, want)
		}
	})
}
