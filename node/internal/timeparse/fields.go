package timeparse

import (
	"errors"
	"strings"
	"time"
)

// fields gathers what the verbs of a strftime format read.
type fields struct {
	year, month, day     int
	hour, minute, second int
	nanosecond           int
	dayOfYear            int
	offsetSeconds        int
	epochSeconds         int64
	hasEpoch             bool
	afternoon            int8 // -1 AM, +1 PM, 0 a 24-hour clock
	twelveHour           bool
}

// take reads one verb and returns what is left.
func (f *fields) take(verb byte, src []byte) ([]byte, bool) {
	switch verb {
	case 'Y':
		return number(src, 4, &f.year)
	case 'y':
		rest, ok := number(src, 2, &f.year)
		if f.year += 2000; f.year >= 2069 {
			f.year -= 100 // POSIX: 69..99 are the last century
		}
		return rest, ok
	case 'm':
		return number(src, 2, &f.month)
	case 'd', 'e':
		if verb == 'e' && len(src) > 0 && src[0] == ' ' {
			src = src[1:]
		}
		return number(src, 2, &f.day)
	case 'H':
		return number(src, 2, &f.hour)
	case 'I':
		f.twelveHour = true
		return number(src, 2, &f.hour)
	case 'M':
		return number(src, 2, &f.minute)
	case 'S':
		return number(src, 2, &f.second)
	case 'j':
		rest, ok := number(src, 3, &f.dayOfYear)
		return rest, ok && f.dayOfYear > 0
	}
	return f.takeWord(verb, src)
}

func (f *fields) takeWord(verb byte, src []byte) ([]byte, bool) {
	switch verb {
	case 'f':
		return f.takeFraction(src)
	case 'p':
		return f.takeHalfDay(src)
	case 'b', 'B':
		return f.takeMonth(src, verb == 'B')
	case 'z':
		return f.takeOffset(src)
	default: // 's'
		f.hasEpoch = true
		n, digits := int64(0), 0
		for ; digits < len(src) && digits < 11 && isDigit(src[digits]); digits++ {
			n = n*10 + int64(src[digits]-'0')
		}
		f.epochSeconds = n
		return src[digits:], digits > 0
	}
}

func (f *fields) takeFraction(src []byte) ([]byte, bool) {
	digits, scale := 0, 100_000_000
	for ; digits < len(src) && digits < 9 && isDigit(src[digits]); digits++ {
		f.nanosecond += int(src[digits]-'0') * scale
		scale /= 10
	}
	return src[digits:], digits > 0
}

func (f *fields) takeHalfDay(src []byte) ([]byte, bool) {
	if len(src) < 2 {
		return src, false
	}
	switch strings.ToUpper(string(src[:2])) {
	case "AM":
		f.afternoon = -1
	case "PM":
		f.afternoon = 1
	default:
		return src, false
	}
	return src[2:], true
}

func (f *fields) takeMonth(src []byte, whole bool) ([]byte, bool) {
	for m := time.January; m <= time.December; m++ {
		name := m.String()
		if !whole {
			name = name[:3]
		}
		if len(src) >= len(name) && strings.EqualFold(string(src[:len(name)]), name) {
			f.month = int(m)
			return src[len(name):], true
		}
	}
	return src, false
}

// takeOffset reads Z, +hhmm or +hh:mm.
func (f *fields) takeOffset(src []byte) ([]byte, bool) {
	if len(src) > 0 && src[0] == 'Z' {
		return src[1:], true
	}
	if len(src) < 5 || (src[0] != '+' && src[0] != '-') {
		return src, false
	}
	hours, minutes := 0, 0
	rest, ok := number(src[1:], 2, &hours)
	if ok && len(rest) > 0 && rest[0] == ':' {
		rest = rest[1:]
	}
	before := len(rest)
	rest, ok2 := number(rest, 2, &minutes)
	if !ok || !ok2 || before-len(rest) != 2 || hours > 23 || minutes > 59 {
		return src, false
	}
	f.offsetSeconds = hours*3600 + minutes*60
	if src[0] == '-' {
		f.offsetSeconds = -f.offsetSeconds
	}
	return rest, true
}

// number reads up to width digits.
func number(src []byte, width int, value *int) ([]byte, bool) {
	n, digits := 0, 0
	for ; digits < len(src) && digits < width && isDigit(src[digits]); digits++ {
		n = n*10 + int(src[digits]-'0')
	}
	*value = n
	return src[digits:], digits > 0
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

var (
	errNoSuchDay  = errors.New("there is no such day")
	errNoSuchHour = errors.New("there is no such time of day")
)

// unixNs checks the fields and puts them together, less the offset if one was read.
func (f *fields) unixNs() (int64, error) {
	if f.hasEpoch {
		t := time.Unix(f.epochSeconds, int64(f.nanosecond))
		return unixNs(t)
	}
	if f.twelveHour {
		if f.hour < 1 || f.hour > 12 || f.afternoon == 0 {
			return 0, errNoSuchHour
		}
		f.hour %= 12
		if f.afternoon > 0 {
			f.hour += 12
		}
	}
	// 24:00:00 is the end of a day in ISO 8601 and in meter files; a leap second is not a moment
	// that int64 ns can name.
	endOfDay := f.hour == 24 && f.minute == 0 && f.second == 0 && f.nanosecond == 0
	if (f.hour > 23 && !endOfDay) || f.minute > 59 || f.second > 59 {
		return 0, errNoSuchHour
	}
	if f.year < minYear || f.year > maxYear {
		return 0, errOutOfRange
	}
	days, err := f.days()
	if err != nil {
		return 0, err
	}
	seconds := days*86400 + int64(f.hour*3600+f.minute*60+f.second-f.offsetSeconds)
	return seconds*1e9 + int64(f.nanosecond), nil
}

// days counts the days from 1970-01-01, checking that the day exists.
func (f *fields) days() (int64, error) {
	if f.dayOfYear > 0 {
		leap := f.year%4 == 0 && (f.year%100 != 0 || f.year%400 == 0)
		if f.dayOfYear > 366 || (f.dayOfYear == 366 && !leap) {
			return 0, errNoSuchDay
		}
		return civilDays(f.year, 1, 1) + int64(f.dayOfYear-1), nil
	}
	if f.month == 0 {
		f.month = 1
	}
	if f.month > 12 || f.day < 1 || f.day > monthDays(f.year, f.month) {
		return 0, errNoSuchDay
	}
	return civilDays(f.year, f.month, f.day), nil
}

func monthDays(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// civilDays counts days from 1970-01-01 in the proleptic Gregorian calendar, in years that begin
// in March so that the leap day comes last.
func civilDays(year, month, day int) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	era := int64(year) // positive in every year that is accepted
	dayOfYear := int64((153*(month-3)+2)/5 + day - 1)
	return era*365 + era/4 - era/100 + era/400 + dayOfYear - 719_468
}
