package timeparse

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/pentad-db/pentad/sdk/excerpt"
)

// Years whose every moment, shifted by any offset from UTC, fits into int64 nanoseconds.
const (
	minYear = 1678
	maxYear = 2261
)

// Layout is a compiled time format. It is immutable.
type Layout struct {
	source   string
	steps    []step // of a strftime format
	golang   string // a layout of package time
	absolute bool   // the format itself names the offset from UTC, or counts from the epoch
	unitNs   int64  // of an epoch count; 0 otherwise
	stated   bool   // RFC 3339 with its offset, or whole ns
}

type step struct {
	verb    byte // of a strftime verb, 0 for text that must be there
	literal byte
}

// Compile reads a format: strftime verbs (%d.%m.%Y %H:%M:%S), a layout of Go's package time
// (02.01.2006 15:04), unix, unix_ms, unix_us, unix_ns, or "" for RFC 3339 with its
// offset and whole ns.
//
// Verbs: %Y %y %m %d %e %H %I %p %M %S %f (fraction) %j (day of year) %b %B (English months)
// %z (offset) %s (epoch seconds) %F %T %R %D %%. A number may have fewer digits than its full
// width when it does not touch the next one.
func Compile(format string) (*Layout, error) {
	l := &Layout{source: format}
	switch format {
	case "", "rfc3339":
		l.stated, l.absolute = true, true
		return l, nil
	case "unix", "unix_s", "unix_ms", "unix_us", "unix_ns":
		units := map[string]int64{"unix": 1e9, "unix_s": 1e9, "unix_ms": 1e6, "unix_us": 1e3,
			"unix_ns": 1}
		l.unitNs, l.absolute = units[format], true
		return l, nil
	}
	if !strings.Contains(format, "%") {
		return l, l.compileGo()
	}
	return l, l.compileVerbs(format)
}

// compileGo accepts layouts that name a year, and either no zone or a numeric one.
func (l *Layout) compileGo() error {
	if !strings.Contains(l.source, "2006") && !strings.Contains(l.source, "06") {
		return fmt.Errorf("time format %q has no year; write verbs (%%Y-%%m-%%d %%H:%%M) or a Go "+
			"layout (2006-01-02 15:04)", l.source)
	}
	if strings.Contains(l.source, "MST") {
		return fmt.Errorf("time format %q reads zone abbreviations, which mean several zones; "+
			"leave them out and declare the zone", l.source)
	}
	l.golang = l.source
	l.absolute = strings.Contains(l.source, "Z07") || strings.Contains(l.source, "-07")
	return nil
}

func (l *Layout) compileVerbs(format string) error {
	shorthand := strings.NewReplacer("%F", "%Y-%m-%d", "%T", "%H:%M:%S", "%R", "%H:%M",
		"%D", "%m/%d/%y", "%%", "%%")
	format = shorthand.Replace(format)
	year, day := false, false
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			l.steps = append(l.steps, step{literal: format[i]})
			continue
		}
		if i++; i == len(format) {
			return fmt.Errorf("time format %q ends in a bare %%; write %%%% for the sign", l.source)
		}
		verb := format[i]
		if verb == '%' {
			l.steps = append(l.steps, step{literal: '%'})
			continue
		}
		if !strings.ContainsRune("YymdeHIpMSfjbBzs", rune(verb)) {
			return fmt.Errorf("time format %q: verb %%%c is unknown; there are %%Y %%y %%m %%d "+
				"%%e %%H %%I %%p %%M %%S %%f %%j %%b %%B %%z %%s %%F %%T %%R %%D", l.source, verb)
		}
		year = year || verb == 'Y' || verb == 'y' || verb == 's'
		day = day || verb == 'd' || verb == 'e' || verb == 'j' || verb == 's'
		l.absolute = l.absolute || verb == 'z' || verb == 's'
		l.steps = append(l.steps, step{verb: verb})
	}
	if !year || !day {
		return fmt.Errorf("time format %q needs a year (%%Y) and a day (%%d or %%j)", l.source)
	}
	return nil
}

// Absolute reports whether the texts of this format are moments by themselves, so that no zone
// is needed.
func (l *Layout) Absolute() bool { return l.absolute }

// String returns the format that was compiled.
func (l *Layout) String() string { return l.source }

// Parse reads a text. Of an absolute layout the result is a moment, otherwise it is the wall
// clock read as if it were UTC, for [Zone.Moments]. It does not keep text.
func (l *Layout) Parse(text []byte) (int64, error) {
	switch {
	case l.stated:
		return parseStated(text)
	case l.unitNs > 0:
		return l.parseEpoch(text)
	case l.golang != "":
		t, err := time.Parse(l.golang, string(text))
		if err != nil {
			return 0, l.mismatch(text)
		}
		ns, err := unixNs(t)
		if err != nil {
			return 0, fmt.Errorf("time %q %w", clip(text), err)
		}
		return ns, nil
	}
	var f fields
	rest := text
	ok := true
	for _, s := range l.steps {
		if s.verb == 0 {
			ok = len(rest) > 0 && rest[0] == s.literal
			if ok {
				rest = rest[1:]
			}
		} else {
			rest, ok = f.take(s.verb, rest)
		}
		if !ok {
			return 0, l.mismatch(text)
		}
	}
	if len(rest) > 0 {
		return 0, l.mismatch(text)
	}
	ns, err := f.unixNs()
	if err != nil {
		return 0, fmt.Errorf("time %q: %w", clip(text), err)
	}
	return ns, nil
}

// ErrNeedsFormat is the way out for a time that does not say itself which moment it is.
var ErrNeedsFormat = errors.New("declare its format and zone")

// parseStated reads only what says itself which moment it is: a file is not a person who can be
// asked, so a time without an offset is an error here.
func parseStated(text []byte) (int64, error) {
	if ns, err := strconv.ParseInt(string(text), 10, 64); err == nil && ns != math.MaxInt64 {
		return ns, nil
	}
	normal := strings.Replace(string(text), " ", "T", 1)
	t, err := time.Parse(time.RFC3339Nano, normal)
	wrong := (*time.ParseError)(nil)
	if errors.As(err, &wrong) && strings.HasSuffix(wrong.Message, "out of range") {
		return 0, fmt.Errorf("time %q%s", clip(text), wrong.Message) // ": month out of range"
	}
	if err != nil {
		return 0, fmt.Errorf("time %q is neither RFC 3339 with an offset nor whole ns; %w",
			clip(text), ErrNeedsFormat)
	}
	ns, err := unixNs(t)
	if err != nil {
		return 0, fmt.Errorf("time %q %w", clip(text), err)
	}
	return ns, nil
}

func (l *Layout) parseEpoch(text []byte) (int64, error) {
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		const maxNs = 1<<63 - 1
		if n > maxNs/l.unitNs || n < -maxNs/l.unitNs {
			return 0, fmt.Errorf("time %q %w", clip(text), errOutOfRange)
		}
		return n * l.unitNs, nil
	}
	return 0, l.mismatch(text)
}

func (l *Layout) mismatch(text []byte) error {
	return fmt.Errorf("time %q is not of the form %q", clip(text), l.source)
}

func clip(text []byte) string { return excerpt.Of(text, maxTextBytes) }
