package timeparse

import (
	"fmt"
	"strings"
	"time"
)

// IsLocal reports whether a text is a time without an offset, which [ParseIn] reads in a zone: a
// date, a month, or a time of day.
func IsLocal(text string) bool {
	normal := strings.Replace(text, " ", "T", 1)
	for _, layout := range []string{"2006-01-02", "2006-01", "2006-01-02T15:04",
		"2006-01-02T15:04:05.999999999"} {
		if _, err := time.Parse(layout, normal); err == nil {
			return true
		}
	}
	return false
}

// midnight returns the first moment at which the clock of a place shows a date, or a later one:
// where the clock is changed at midnight, a day may begin at 01:00, or have two midnights. The date
// is given as its midnight in UTC.
func midnight(date time.Time, loc *time.Location) time.Time {
	for from := date.Add(-time.Duration(maxOffsetNs)).In(loc); ; {
		_, seconds := from.Zone()
		at := date.Add(-time.Duration(seconds) * time.Second)
		if at.Before(from) {
			at = from
		}
		_, end := from.ZoneBounds()
		if end.IsZero() || at.Before(end) {
			return at
		}
		from = end.In(loc)
	}
}

// spanIn returns the time from the beginning of one day in a place to that of another.
func spanIn(text string, first, next time.Time, loc *time.Location) (Span, error) {
	from, to := midnight(first, loc), midnight(next, loc)
	if !from.Before(to) {
		return Span{}, fmt.Errorf("time %q: clocks of %s passed over that day", text, loc)
	}
	return span(text, from, to)
}

// momentIn returns the moment at which the clock of a place shows a time, given as if it were UTC.
func momentIn(text string, wall time.Time, loc *time.Location) (Span, error) {
	ns, err := unixNs(wall)
	if err != nil {
		return Span{}, fmt.Errorf("time %q %w", text, err)
	}
	zone := Zone{name: loc.String(), loc: loc}
	first, _, count := zone.Moments(ns)
	switch count {
	case 1:
		return moment(first)
	case 0:
		return Span{}, fmt.Errorf("time %q does not exist in %s, where clocks are set "+
			"forward; add an offset, e.g. 2026-11-21T09:45:00+01:00", text, loc)
	}
	at := time.Unix(0, first).In(loc)
	return Span{}, fmt.Errorf("time %q occurs twice in %s; add its offset, %s for "+
		"the first", text, loc, at.Format("-07:00"))
}
