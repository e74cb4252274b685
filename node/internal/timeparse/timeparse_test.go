package timeparse

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 500, time.UTC)
	f := func(text string, from, to string) {
		t.Helper()
		got, err := Parse(text, now)
		if err != nil {
			t.Errorf("Parse(%q): %v", text, err)
			return
		}
		a, b := mustNs(t, from), mustNs(t, to)
		if got.FromNs != a || got.ToNs != b {
			t.Errorf("Parse(%q) = %s..%s, want %s..%s", text, Format(got.FromNs),
				Format(got.ToNs), from, to)
		}
	}
	point := func(text, at string) { t.Helper(); f(text, at, Format(mustNs(t, at)+1)) }

	point("2026-11-21T09:45:00Z", "2026-11-21T09:45:00Z")
	point("2026-11-21T09:45Z", "2026-11-21T09:45:00Z")
	point("2026-11-21T09:45:00.123456789+02:00", "2026-11-21T07:45:00.123456789Z")
	point("2026-11-21 09:45:00.5Z", "2026-11-21T09:45:00.500Z")
	point("2026-11-21T09:45", "2026-11-21T09:45:00Z")
	point("2026-11-21 09:45:01", "2026-11-21T09:45:01Z")
	f("2026-11-21", "2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z")
	f("2024-02", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z")
	point("0", "1970-01-01T00:00:00Z")
	point("-1", "1969-12-31T23:59:59.999999999Z")
	point("1795254302117000001", "2026-11-21T09:45:02.117000001Z")
	point("now", "2026-11-21T10:00:00.000000500Z")
	point("now-24h", "2026-11-20T10:00:00.000000500Z")
	point("now-7d", "2026-11-14T10:00:00.000000500Z")
	point("now+1h30m", "2026-11-21T11:30:00.000000500Z")
	point("now-1.5d", "2026-11-19T22:00:00.000000500Z")
	point("now-2w", "2026-11-07T10:00:00.000000500Z")
}

func TestParseRefuses(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if _, err := Parse(text, time.Unix(0, 0)); err == nil || !strings.Contains(err.Error(),
			want) {
			t.Errorf("Parse(%q): error %v, want one with %q", text, err, want)
		}
	}
	f("", "is not a time; use")
	f("soon", "is not a time; use")
	f("yesterday", `"yesterday" is not a time; write its date, e.g. 2026-11-21, or now-1d for `)
	f("2026-13-01", `"2026-13-01" is not a time; there is no month 13`)
	f("2026-13", "there is no month 13")
	f("2026-02-30", `"2026-02-30" is not a time; 2026-02 has 28 days`)
	f("2026-02-30T10:00:00Z", "2026-02 has 28 days")
	f("2026-2-3", "two digits, e.g. 2026-01-05")
	f("21.11.2026", "write year, month and day, e.g. 2026-11-21")
	f("11/21/2026 10:00", "write year, month and day")
	f("2026-11-20 9", "write hours and minutes, e.g. 2026-11-20 09:00")
	f("now-1mo", "months and years differ in length; use days, e.g. now-30d")
	f("now-", "is not a duration")
	f("now-5", "is not a duration")
	f("now--5s", "is not a duration")
	f("now-NaNd", "is not a duration")
	f("nowish", "is not a time")
	f("1500-01-01", "outside the years")
	f("9999-01-01T00:00:00Z", "outside the years")
	f("99999999999999999999", "outside the years")
	f("9223372036854775807", "no end")
	f(strings.Repeat("9", 100), "is not a time")
}

func TestLayout(t *testing.T) {
	f := func(format, text, want string) {
		t.Helper()
		l, err := Compile(format)
		if err != nil {
			t.Errorf("Compile(%q): %v", format, err)
			return
		}
		ns, err := l.Parse([]byte(text))
		if err != nil {
			t.Errorf("%q.Parse(%q): %v", format, text, err)
		} else if Format(ns) != want {
			t.Errorf("%q.Parse(%q) = %s, want %s", format, text, Format(ns), want)
		}
	}
	f("%d.%m.%Y %H", "01.02.2024 7", "2024-02-01T07:00:00Z")
	f("%d/%m/%Y %H:%M:%S", "30/10/2016 02:08:53", "2016-10-30T02:08:53Z")
	f("Name  /  Date: %Y_%m_%d %H:%M", "Name  /  Date: 2015_10_22 0:00", "2015-10-22T00:00:00Z")
	f("%Y %m %d %H", "2013 3 1 0", "2013-03-01T00:00:00Z")
	f("%Y%m%d%H%M%S%f", "20130301010203007", "2013-03-01T01:02:03.007Z")
	f("%F %T.%f", "2013-03-01 01:02:03.000000009", "2013-03-01T01:02:03.000000009Z")
	f("%F 24:00", "2013-02-28 24:00", "2013-02-28T00:00:00Z") // literal digits, not a verb
	f("%F %R", "2013-02-28 24:00", "2013-03-01T00:00:00Z")
	f("%Y-%j", "2024-366", "2024-12-31T00:00:00Z")
	f("%d %b %y %I:%M %p", "5 mar 99 12:30 AM", "1999-03-05T00:30:00Z")
	f("%d %B %Y %I:%M %p", "5 March 2001 11:30 pm", "2001-03-05T23:30:00Z")
	f("%e.%m.%Y", " 5.03.2001", "2001-03-05T00:00:00Z")
	f("%FT%T%z", "2001-03-05T01:00:00+0200", "2001-03-04T23:00:00Z")
	f("%FT%T%z", "2001-03-05T01:00:00-02:30", "2001-03-05T03:30:00Z")
	f("%FT%T%z", "2001-03-05T01:00:00Z", "2001-03-05T01:00:00Z")
	f("%s.%f", "12.5", "1970-01-01T00:00:12.500Z")
	f("%m/%d/%Y %%", "03/05/2001 %", "2001-03-05T00:00:00Z")
	f("02.01.2006 15:04", "05.03.2001 11:12", "2001-03-05T11:12:00Z")
	f("2006-01-02T15:04:05Z07:00", "2001-03-05T11:12:00+01:00", "2001-03-05T10:12:00Z")
	f("unix", "12", "1970-01-01T00:00:12Z")
	f("unix_ms", "-12", "1969-12-31T23:59:59.988Z")
	f("unix_us", "12", "1970-01-01T00:00:00.000012Z")
	f("unix_ns", "12", "1970-01-01T00:00:00.000000012Z")
	f("", "2026-11-21 00:00:00+01:00", "2026-11-20T23:00:00Z")
	f("rfc3339", "1000000000", "1970-01-01T00:00:01Z")
}

func TestLayoutRefuses(t *testing.T) {
	compile := func(format, want string) {
		t.Helper()
		if _, err := Compile(format); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Compile(%q): error %v, want one with %q", format, err, want)
		}
	}
	compile("%H:%M", "needs a year")
	compile("%Y-%m", "needs a year (%Y) and a day")
	compile("%Y-%q", "verb %q is unknown")
	compile("%Y%", "bare %")
	compile("yyyy-mm-dd", "has no year")
	compile("2006-01-02 15:04 MST", "abbreviations")

	parse := func(format, text, want string) {
		t.Helper()
		l, err := Compile(format)
		if err != nil {
			t.Fatal(err)
		}
		if ns, err := l.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q.Parse(%q) = %d, error %v, want one with %q", format, text, ns, err, want)
		}
	}
	parse("%d.%m.%Y", "30.02.2024", "no such day")
	parse("%d.%m.%Y", "29.02.1900", "no such day")
	parse("%d.%m.%Y", "00.01.2024", "no such day")
	parse("%d.%m.%Y %H", "01.01.2024 25", "no such time of day")
	parse("%F %T", "2016-12-31 23:59:60", "no such time of day")
	parse("%Y-%j", "2023-366", "no such day")
	parse("%d.%m.%Y", "01.01.2024 ", "is not of the form")
	parse("%d.%m.%Y", "01-01-2024", "is not of the form")
	parse("%d.%m.%Y", "01.01.0024", "outside the years")
	parse("%I %F", "13 2024-01-01", "no such time of day")
	parse("unix", "9223372036854775807", "outside the years")
	parse("unix", "1.5", "is not of the form")
	parse("", "2026-11-21T00:00:00", "declare its format and zone")
	parse("02.01.2006", "1.1.2024x", "is not of the form")
}

// TestLayoutAgainstTime compares days with package time over all years that are accepted.
func TestLayoutAgainstTime(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	l, err := Compile("%Y-%m-%d %H:%M:%S")
	if err != nil {
		t.Fatal(err)
	}
	for range 20_000 {
		want := time.Date(minYear+random.IntN(maxYear-minYear+1), 1, 1+random.IntN(365),
			random.IntN(24), random.IntN(60), random.IntN(60), 0, time.UTC)
		ns, err := l.Parse([]byte(want.Format("2006-01-02 15:04:05")))
		if err != nil || ns != want.UnixNano() {
			t.Fatalf("seed %d: %s: got %s, error %v", seed, want, Format(ns), err)
		}
	}
}

// TestZoneAgainstBruteForce lists every quarter of an hour that existed, by the wall clock that
// it showed, and asks for every wall clock of the same years.
func TestZoneAgainstBruteForce(t *testing.T) {
	f := func(name string, fromYear, toYear, wantGaps, wantFolds int) {
		t.Helper()
		zone, err := LoadZone(name)
		if err != nil {
			t.Fatal(err)
		}
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		const step = 15 * time.Minute
		shown := map[int64][]int64{}
		from := time.Date(fromYear, 1, 1, 0, 0, 0, 0, time.UTC)
		to := time.Date(toYear, 1, 1, 0, 0, 0, 0, time.UTC)
		for at := from.Add(-48 * time.Hour); at.Before(to.Add(48 * time.Hour)); at = at.Add(step) {
			_, offset := at.In(loc).Zone()
			wall := at.UnixNano() + int64(offset)*1e9
			shown[wall] = append(shown[wall], at.UnixNano())
		}
		gaps, folds := 0, 0
		for wall := from.UnixNano(); wall < to.UnixNano(); wall += int64(step) {
			first, second, count := zone.Moments(wall)
			want := shown[wall]
			if count != len(want) || (count > 0 && first != want[0]) ||
				(count > 1 && second != want[1]) {
				t.Fatalf("%s: %s: %d moments %d %d, want %v", name, Format(wall), count, first,
					second, want)
			}
			switch count {
			case 0:
				gaps++
			case 2:
				folds++
			}
		}
		if gaps != wantGaps || folds != wantFolds {
			t.Errorf("%s: %d gaps and %d folds of 15 min, want %d and %d", name, gaps, folds,
				wantGaps, wantFolds)
		}
	}
	f("Europe/Madrid", 2014, 2020, 6*4, 6*4)
	f("Europe/Berlin", 2014, 2020, 6*4, 6*4)
	f("Europe/London", 2016, 2017, 4, 4)
	f("UTC", 2016, 2017, 0, 0)
	f("Asia/Shanghai", 2013, 2017, 0, 0)
	f("Australia/Lord_Howe", 2016, 2018, 2*2, 2*2) // half an hour
	f("Pacific/Apia", 2011, 2012, 4*24+4, 4)       // a day left out
}

func TestLoadZone(t *testing.T) {
	zone, err := LoadZone("+08:00")
	if err != nil {
		t.Fatal(err)
	}
	first, _, count := zone.Moments(mustNs(t, "2013-03-01T08:00:00Z"))
	if count != 1 || Format(first) != "2013-03-01T00:00:00Z" {
		t.Errorf("+08:00: %d %s", count, Format(first))
	}
	for _, name := range []string{"Local", "Europe/Atlantis", "../etc/passwd"} {
		if _, err := LoadZone(name); err == nil {
			t.Errorf("LoadZone(%q) is no error", name)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"now-1d", "2026-11", "2026-11-21T09:45:00.1Z", "-5",
		"now+9999w"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Parse(text, time.Unix(1_700_000_000, 0))
		if err != nil {
			return
		}
		if got.FromNs >= got.ToNs {
			t.Fatalf("Parse(%q) = %v", text, got)
		}
		again, err := Parse(Format(got.FromNs), time.Time{})
		if year := time.Unix(0, got.FromNs).UTC().Year(); year >= minYear && year <= maxYear &&
			(err != nil || again.FromNs != got.FromNs) {
			t.Fatalf("Parse(Format(%d)) = %v, %v", got.FromNs, again, err)
		}
	})
}

func FuzzLayout(f *testing.F) {
	f.Add("%d.%m.%Y %H:%M:%S", "01.02.2024 03:04:05")
	f.Add("%FT%T%z", "2001-03-05T01:00:00-02:30")
	f.Add("02.01.2006 15:04", "05.03.2001 11:12")
	f.Fuzz(func(t *testing.T, format, text string) {
		l, err := Compile(format)
		if err != nil {
			return
		}
		if _, err := l.Parse([]byte(text)); err != nil && !strings.Contains(err.Error(), "time") {
			t.Fatalf("%q.Parse(%q): %v", format, text, err)
		}
	})
}

func BenchmarkLayout(b *testing.B) {
	l, err := Compile("%d/%m/%Y %H:%M:%S")
	if err != nil {
		b.Fatal(err)
	}
	zone, err := LoadZone("Europe/Madrid")
	if err != nil {
		b.Fatal(err)
	}
	text := []byte("01/03/2016 00:28:55")
	b.ReportAllocs()
	for b.Loop() {
		wall, err := l.Parse(text)
		if err != nil {
			b.Fatal(err)
		}
		zone.Moments(wall)
	}
}

func mustNs(t *testing.T, text string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.UnixNano()
}

// Clocks may be changed at midnight; days lie side by side all the same.
func TestParseDaysIn(t *testing.T) {
	f := func(zone, text, from string, length time.Duration) {
		t.Helper()
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseIn(text, time.Unix(0, 0).In(loc))
		if err != nil || Format(got.FromNs) != from ||
			time.Duration(got.ToNs-got.FromNs) != length {
			t.Errorf("%s: %s for %s, %v; want %s for %s", text, Format(got.FromNs),
				time.Duration(got.ToNs-got.FromNs), err, from, length)
		}
	}
	f("Atlantic/Azores", "2026-03-28", "2026-03-28T01:00:00Z", 24*time.Hour)
	f("Atlantic/Azores", "2026-03-29", "2026-03-29T01:00:00Z", 23*time.Hour) // from 01:00 on
	f("Atlantic/Azores", "2026-10-25", "2026-10-25T00:00:00Z", 25*time.Hour) // two midnights
	f("America/Santiago", "2026-09-05", "2026-09-05T04:00:00Z", 24*time.Hour)
	f("America/Santiago", "2026-09-06", "2026-09-06T04:00:00Z", 23*time.Hour)
	f("America/Santiago", "2026-04-04", "2026-04-04T03:00:00Z", 25*time.Hour)
	f("Africa/Cairo", "2026-04-24", "2026-04-23T22:00:00Z", 23*time.Hour)
	f("America/Asuncion", "1990-10", "1990-10-01T04:00:00Z", 31*24*time.Hour-time.Hour)
	f("Pacific/Apia", "2011-12", "2011-12-01T10:00:00Z", 30*24*time.Hour)
	apia, err := time.LoadLocation("Pacific/Apia")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseIn("2011-12-30", time.Unix(0, 0).In(apia)); err == nil {
		t.Error("a day that never was")
	}
}

// Without an offset a text means what it says in the zone, where days may have 23 hours.
func TestParseIn(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	f := func(text, from string, length time.Duration) {
		t.Helper()
		got, err := ParseIn(text, time.Unix(0, 0).In(berlin))
		if err != nil || Format(got.FromNs) != from ||
			time.Duration(got.ToNs-got.FromNs) != length {
			t.Errorf("%s: %s for %s, %v; want %s for %s", text, Format(got.FromNs),
				time.Duration(got.ToNs-got.FromNs), err, from, length)
		}
	}
	f("2026-03-29", "2026-03-28T23:00:00Z", 23*time.Hour)
	f("2026-10", "2026-09-30T22:00:00Z", 31*24*time.Hour+time.Hour)
	f("2026-07-01T12:00", "2026-07-01T10:00:00Z", 1)
	f("2026-07-01 12:00:00.5", "2026-07-01T10:00:00.500Z", 1)
	f("2026-07-01T12:00Z", "2026-07-01T12:00:00Z", 1)
	f("2026-07-01T12:00:00+05:00", "2026-07-01T07:00:00Z", 1)
	f("now-1h", "1969-12-31T23:00:00Z", 1)
	f("7", "1970-01-01T00:00:00.000000007Z", 1)
	bad := func(loc *time.Location, text, want string) {
		t.Helper()
		got, err := ParseIn(text, time.Unix(0, 0).In(loc))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	bad(berlin, "2026-03-29T02:30", "does not exist in Europe/Berlin")
	bad(berlin, "2026-10-25T02:30:00", "occurs twice in Europe/Berlin; add its offset, +02:00")
	utc, err := Parse("2026-03-29", time.Unix(0, 0).In(berlin))
	if err != nil || Format(utc.FromNs) != "2026-03-29T00:00:00Z" {
		t.Errorf("Parse takes the zone of now: %v, %v", utc, err)
	}
}
