// Package calendar divides time into calendar windows: days, weeks, months and years of a time
// zone, and hours and minutes within its days.
//
// Windows are adjacent and cover all of time. A day begins at the first moment at which the local
// clock shows its date or a later one. Within a day, windows of n minutes or hours begin when the
// clock reaches a multiple of n since midnight, also at a clock change, and when a clock change
// skips from one multiple to another. So an hour that the clock shows twice is two windows of an
// hour, and every day has four windows of 6 hours.
//
// It knows nothing of rows and groups, and starts no goroutines. Its main types are [Calendar], the
// rule, and [Table], a cache of windows.
package calendar

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // zones must not depend on what is installed
	"unicode"

	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	daySeconds    = 24 * 60 * 60
	secondNs      = int64(time.Second)
	lastSecond    = math.MaxInt64 / secondNs
	firstSecond   = math.MinInt64 / secondNs
	monthsOfYear  = 12
	minuteSeconds = 60
	hourSeconds   = 60 * 60
	// mondayDay is the Monday of the week of 1970-01-01, in days since then.
	mondayDay = -3
)

// Calendar is the windows of one length in one zone. It is safe for concurrent use.
type Calendar struct {
	unit record.WindowUnit
	n    int64
	loc  *time.Location
}

// New returns the calendar of a window that is valid and not the zero value.
func New(w record.Window) (*Calendar, error) {
	loc, err := Zone(w.Zone)
	if err != nil {
		return nil, err
	}
	return &Calendar{unit: w.Unit, n: int64(w.N), loc: loc}, nil
}

// ForWindow returns the calendar of a window that is valid, nil for the zero value.
func ForWindow(w record.Window) (*Calendar, error) {
	if w == (record.Window{}) {
		return nil, nil
	}
	return New(w)
}

// Zone returns a zone by its IANA name, by UTC or by a fixed offset. The error is a
// [*record.InvalidError].
func Zone(name string) (*time.Location, error) {
	loc, err := timeparse.Location(name)
	if err != nil {
		return nil, &record.InvalidError{Part: "window", Reason: record.OutOfRange, Row: -1,
			Detail: err.Error()}
	}
	return loc, nil
}

// Window returns the window [fromNs, toNs) that holds ns. The first and the last of all are cut
// where int64 ends.
func (c *Calendar) Window(ns int64) (fromNs, toNs int64) {
	w := walker{Calendar: c}
	return w.window(ns)
}

// ParseEvery reads the length of a window, and its zone as [timeparse.ZoneName] does. The error
// does not quote the text, whose name the caller knows.
func ParseEvery(text, zone string) (record.Window, error) {
	digits := strings.TrimRightFunc(text, unicode.IsLetter)
	n, err := strconv.ParseUint(digits, 10, 32)
	units := map[string]record.WindowUnit{"m": record.WindowMinute, "min": record.WindowMinute,
		"h": record.WindowHour, "d": record.WindowDay, "w": record.WindowWeek,
		"mo": record.WindowMonth, "y": record.WindowYear}
	unit, ok := units[text[len(digits):]]
	switch {
	case err == nil && text[len(digits):] == "M":
		return record.Window{}, fmt.Errorf("unknown unit; %dmo is %s, %[1]dm %[3]s", n,
			counted(n, "month"), counted(n, "minute"))
	case err == nil && !ok && digits != text:
		return record.Window{}, errors.New("unknown unit; write 15m for minutes, then 1h, 1d, " +
			"1w, 1mo for a month and 1y")
	case err != nil || !ok:
		return record.Window{}, errors.New("not a length of windows; write e.g. 15m, 1h, 1d, 1w, " +
			"1mo or 1y")
	}
	w := record.Window{Unit: unit, N: uint32(n), Zone: timeparse.ZoneName(zone)}
	var invalid *record.InvalidError
	if err := w.Validate(); errors.As(err, &invalid) {
		return record.Window{}, errors.New(invalid.Detail)
	}
	return w, nil
}

// counted is a month, or 3 months.
func counted(n uint64, what string) string {
	if n == 1 {
		return "a " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// offsetPeriod is a period with one offset from UTC, between two changes of the clock, in seconds
// since 1970.
type offsetPeriod struct{ from, to, offset int64 }

func (c *Calendar) offsetPeriodAt(second int64) offsetPeriod {
	t := time.Unix(second, 0).In(c.loc)
	_, offset := t.Zone()
	from, to := t.ZoneBounds()
	s := offsetPeriod{math.MinInt64 / 4, math.MaxInt64 / 4, int64(offset)}
	if !from.IsZero() {
		s.from = from.Unix()
	}
	if !to.IsZero() {
		s.to = to.Unix()
	}
	if s.to <= second { // time gives a year 365 days where a rule goes on for ever
		s.to = time.Date(t.UTC().Year()+1, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	}
	return s
}

// step returns the length in seconds of windows of minutes and hours, else 0.
func (c *Calendar) step() int64 {
	switch c.unit {
	case record.WindowMinute:
		return c.n * minuteSeconds
	case record.WindowHour:
		return c.n * hourSeconds
	}
	return 0
}

// span returns about how long a window is, in seconds.
func (c *Calendar) span() int64 {
	days := map[record.WindowUnit]int64{record.WindowDay: 1, record.WindowWeek: 7,
		record.WindowMonth: 30, record.WindowYear: 365}
	return max(c.step(), days[c.unit]*c.n*daySeconds)
}

// firstDay returns the first day of the window that holds a day, and the first of the next, in days
// since 1970-01-01.
func (c *Calendar) firstDay(day int64) (first, next int64) {
	switch c.unit {
	case record.WindowDay:
		first = day - mod(day, c.n)
		return first, first + c.n
	case record.WindowWeek:
		first = day - mod(day-mondayDay, 7*c.n)
		return first, first + 7*c.n
	case record.WindowMonth, record.WindowYear:
		months := c.n
		if c.unit == record.WindowYear {
			months *= monthsOfYear
		}
		year, month, _ := time.Unix(day*daySeconds, 0).UTC().Date()
		at := int64(year)*monthsOfYear + int64(month) - 1
		at -= mod(at, months)
		return firstOfMonth(at), firstOfMonth(at + months)
	}
	return day, day + 1
}

// firstOfMonth returns the first day of a month, counted from January of the year 0.
func firstOfMonth(month int64) int64 {
	year := int((month - mod(month, monthsOfYear)) / monthsOfYear)
	first := time.Date(year, time.Month(1+mod(month, monthsOfYear)), 1, 0, 0, 0, 0, time.UTC)
	return first.Unix() / daySeconds // midnights divide without rest
}

// mod is the rest of a division that rounds down.
func mod(a, b int64) int64 {
	r := a % b
	if r < 0 {
		r += b
	}
	return r
}

func floor(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// toNs turns seconds into nanoseconds, no further than int64 goes.
func toNs(second int64) int64 {
	switch {
	case second < firstSecond:
		return math.MinInt64
	case second > lastSecond:
		return math.MaxInt64
	}
	return second * secondNs
}

// Format writes a moment as people read it in the zone: RFC 3339 with its offset.
func (c *Calendar) Format(ns int64) string {
	return time.Unix(0, ns).In(c.loc).Format(time.RFC3339Nano)
}

// Hours returns how long a window is.
func Hours(fromNs, toNs int64) float64 {
	const hourNs = float64(time.Hour)
	return float64(uint64(toNs-fromNs)) / hourNs
}
