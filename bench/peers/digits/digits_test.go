package digits

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestPatterns(t *testing.T) {
	f := func(lo, hi int64, want string) {
		t.Helper()
		got := strings.Join(AppendPatterns(nil, lo, hi), "|")
		if want != "" && got != want {
			t.Errorf("%d to %d: %s, want %s", lo, hi, got, want)
		}
		match := regexp.MustCompile("^(?:" + got + ")$")
		for v := lo - 300; v <= hi+300; v++ {
			if s := strconv.FormatInt(v, 10); match.MatchString(s) != (v >= lo && v <= hi) {
				t.Fatalf("%d to %d: %s of %s", lo, hi, got, s)
			}
		}
	}
	f(0, 0, `0`)
	f(0, 9, `[0-9]`)
	f(7, 7, `7`)
	f(0, 10, `[0-9]|10`)
	f(1234, 1399, `123[4-9]|12[4-9]\d|13\d\d`)
	f(4_000_000_000, 4_000_000_999, `4000000\d\d\d`)
	f(4_000_000_117, 4_000_001_002, "")
	f(95, 12_005, "")
	f(-12, 5, `-[1-9]|-1[0-2]|[0-5]`)
	f(-120, -7, "")
	if got := len(AppendPatterns(nil, -1<<63, 1<<63-1)); got > 400 {
		t.Errorf("%d patterns for all numbers", got)
	}
}
