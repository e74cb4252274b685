// Package timeparse reads moments: those that people type on a command line ([Parse]) and those
// that stand in files under a declared format ([Layout]) and zone ([Zone]).
//
// It never guesses: a text that could mean two moments is either an error or resolved by a rule
// that its caller names. It knows nothing of records, columns or flags, and starts no goroutines.
package timeparse

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Span is what a text stands for, half-open: a day of UTC is 24 hours, a moment is 1 ns.
type Span struct{ FromNs, ToNs int64 }

// maxTextBytes bounds a typed time; the longest form that is understood has 45 bytes.
const maxTextBytes = 64

// Forms is the sentence that help and errors use for what Parse understands.
const Forms = "RFC 3339 (2026-11-21T09:45:00Z), a date (2026-11-21), a month (2026-11), " +
	"now, now-24h (ns us ms s m h d w), or whole ns since 1970"

var errOutOfRange = errors.New("is outside the years 1678 to 2261 that int64 ns can hold")

// Parse reads one of the forms of [Forms]. A time without an offset is UTC.
func Parse(text string, now time.Time) (Span, error) { return ParseIn(text, now.UTC()) }

// ParseIn is Parse where a time without an offset is of the zone of now. A day has the hours that
// it has there; a time that clocks there passed over or showed twice is an error.
func ParseIn(text string, now time.Time) (Span, error) {
	if text == "" || len(text) > maxTextBytes {
		return Span{}, unknownForm(text)
	}
	if rest, ok := strings.CutPrefix(text, "now"); ok {
		return parseRelative(text, rest, now)
	}
	if at := len("2006-01-02"); len(text) > at && text[at] == 'T' {
		return parseMoment(text, now.Location()) // at once, as most times of a put are such
	}
	if ns, err := strconv.ParseInt(text, 10, 64); err == nil {
		return moment(ns)
	} else if errors.Is(err, strconv.ErrRange) {
		return Span{}, fmt.Errorf("time %q %w", text, errOutOfRange)
	}
	if date, err := time.Parse("2006-01-02", text); err == nil {
		return spanIn(text, date, date.AddDate(0, 0, 1), now.Location())
	}
	if date, err := time.Parse("2006-01", text); err == nil {
		return spanIn(text, date, date.AddDate(0, 1, 0), now.Location())
	}
	return parseMoment(text, now.Location())
}

func parseMoment(text string, loc *time.Location) (Span, error) {
	normal := strings.Replace(text, " ", "T", 1)
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04Z07:00"} {
		if t, err := time.Parse(layout, normal); err == nil {
			ns, err := unixNs(t)
			if err != nil {
				return Span{}, fmt.Errorf("time %q %w", text, err)
			}
			return moment(ns)
		}
	}
	for _, layout := range []string{"2006-01-02T15:04:05.999999999", "2006-01-02T15:04"} {
		if t, err := time.Parse(layout, normal); err == nil {
			return momentIn(text, t, loc)
		}
	}
	return Span{}, unknownForm(text)
}

func parseRelative(text, rest string, now time.Time) (Span, error) {
	base, err := unixNs(now)
	if err != nil {
		return Span{}, fmt.Errorf("clock of this machine: %w", err)
	}
	if rest == "" {
		return moment(base)
	}
	if rest[0] != '-' && rest[0] != '+' {
		return Span{}, unknownForm(text)
	}
	distance, err := Duration(rest[1:])
	if err != nil {
		return Span{}, fmt.Errorf("time %q: %w", text, err)
	}
	step := int64(distance)
	if rest[0] == '-' {
		step = -step
	}
	if (step > 0 && base > math.MaxInt64-step) || (step < 0 && base < math.MinInt64-step) {
		return Span{}, fmt.Errorf("time %q %w", text, errOutOfRange)
	}
	return moment(base + step)
}

// Duration reads a length of time of at least 0: what time.ParseDuration reads, and whole or
// broken days (d) and weeks (w), which are exactly 24 and 168 hours.
func Duration(text string) (time.Duration, error) {
	bad := func() (time.Duration, error) {
		return 0, fmt.Errorf("%q is not a duration; use 90s, 15m, 24h, 7d or 1h30m", text)
	}
	if text == "" || len(text) > maxTextBytes || text[0] == '-' || text[0] == '+' {
		return bad()
	}
	unit := time.Duration(0)
	switch text[len(text)-1] {
	case 'd':
		unit = 24 * time.Hour
	case 'w':
		unit = 7 * 24 * time.Hour
	default:
		if text == "0" {
			return bad() // a bare number has no unit, 0 included
		}
		d, err := time.ParseDuration(text)
		if err != nil {
			return bad()
		}
		return d, nil
	}
	n, err := strconv.ParseFloat(text[:len(text)-1], 64)
	if err != nil || !(n >= 0 && n*float64(unit) < math.MaxInt64) {
		return bad()
	}
	return time.Duration(n * float64(unit)), nil
}

func moment(ns int64) (Span, error) {
	if ns == math.MaxInt64 {
		return Span{}, fmt.Errorf("time %d means \"no end\"; leave the end of the range out", ns)
	}
	return Span{ns, ns + 1}, nil
}

func span(text string, from, to time.Time) (Span, error) {
	fromNs, err := unixNs(from)
	if err != nil {
		return Span{}, fmt.Errorf("time %q %w", text, err)
	}
	toNs, err := unixNs(to)
	if err != nil {
		return Span{}, fmt.Errorf("time %q %w", text, err)
	}
	return Span{fromNs, toNs}, nil
}

func unixNs(t time.Time) (int64, error) {
	if year := t.UTC().Year(); year < minYear || year > maxYear {
		return 0, errOutOfRange
	}
	return t.UnixNano(), nil
}

func unknownForm(text string) error {
	if len(text) > maxTextBytes {
		text = text[:maxTextBytes] + "..."
	}
	return fmt.Errorf("%q is not a time; use %s", text, Forms)
}

// Format writes a moment as RFC 3339 in UTC with 0, 3, 6 or 9 digits of a second: the fewest that
// lose nothing.
func Format(ns int64) string { return string(Append(nil, ns)) }

// Append appends what [Format] returns.
func Append(dst []byte, ns int64) []byte {
	t := time.Unix(0, ns).UTC()
	dst = t.AppendFormat(dst, "2006-01-02T15:04:05")
	fraction := t.Nanosecond()
	switch {
	case fraction == 0:
	case fraction%1_000_000 == 0:
		dst = t.AppendFormat(dst, ".000")
	case fraction%1_000 == 0:
		dst = t.AppendFormat(dst, ".000000")
	default:
		dst = t.AppendFormat(dst, ".000000000")
	}
	return append(dst, 'Z')
}
