package timeparse

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// EpochUnit is the time format that a whole number since 1970 is likely to have, by its digits, ""
// for ns and for other texts, with the name of its unit.
func EpochUnit(text string) (format, name string, unit time.Duration) {
	if strings.Trim(text, "0123456789") != "" {
		return "", "", 0
	}
	switch len(text) {
	case 9, 10:
		return "unix", "seconds", time.Second
	case 12, 13:
		return "unix_ms", "milliseconds", time.Millisecond
	case 15, 16:
		return "unix_us", "microseconds", time.Microsecond
	}
	return "", "", 0
}

// CheckUnit says that a whole number which is read as ns since 1970 is likely to have another unit,
// nil for what has not.
func CheckUnit(text string) error {
	_, name, unit := EpochUnit(text)
	n, err := strconv.ParseInt(text, 10, 64)
	if unit == 0 || err != nil {
		return nil
	}
	return fmt.Errorf("time %s is in ns since 1970, %s; if it is in %s write %s", text, Format(n),
		name, Format(n*int64(unit)))
}

// ParseDated is [ParseIn] of a time of what people describe, which is not in the days after the
// first one of 1970: a number that is likely to have another unit than ns is an error. RFC 3339
// says what is meant.
func ParseDated(text string, now time.Time) (Span, error) {
	if err := CheckUnit(text); err != nil {
		return Span{}, err
	}
	return ParseIn(text, now)
}
