// Package digits says ranges of numbers as regular expressions of their digits, for systems whose
// labels are text.
package digits

import (
	"fmt"
	"strconv"
	"strings"
)

// AppendPatterns appends regular expressions that match the decimal numbers from lo to hi.
func AppendPatterns(dst []string, lo, hi int64) []string {
	if lo < 0 {
		dst = appendDigits(dst, "-", uint64(-min(hi, -1)), uint64(-lo))
	}
	if hi >= 0 {
		dst = appendDigits(dst, "", uint64(max(lo, 0)), uint64(hi))
	}
	return dst
}

// appendDigits covers [lo, hi] with blocks of numbers that share their first digits: 1234 to 1399
// is 123[4-9], 12[4-9]\d and 13\d{2}.
func appendDigits(dst []string, sign string, lo, hi uint64) []string {
	for lo <= hi {
		width, free := uint64(1), 0 // a block of 10^free numbers
		for lo > 0 && free < 18 && lo%(width*10) == 0 && hi-lo >= width*10-1 {
			width, free = width*10, free+1
		}
		first := lo / width % 10
		blocks := min(10-first, (hi-lo+1)/width)
		pattern := sign
		if head := lo / width / 10; head > 0 {
			pattern += strconv.FormatUint(head, 10)
		}
		if blocks == 1 {
			pattern += strconv.FormatUint(first, 10)
		} else {
			pattern += fmt.Sprintf("[%d-%d]", first, first+blocks-1)
		}
		dst = append(dst, pattern+strings.Repeat(`\d`, free))
		lo += blocks * width
	}
	return dst
}
