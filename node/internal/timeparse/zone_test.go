package timeparse

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // as in the program
)

func TestLocation(t *testing.T) {
	for _, name := range append(strings.Fields(zoneNames), "UTC", "+05:30", "-11:00") {
		if _, err := Location(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	f := func(name, want string) {
		t.Helper()
		if _, err := Location(name); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	const forms = "; write an IANA name (Europe/Berlin), UTC or an offset (+08:00)"
	f("Europe/Berln", `unknown time zone "Europe/Berln"; did you mean Europe/Berlin?`)
	f("europe/berlin", `unknown time zone "europe/berlin"; did you mean Europe/Berlin?`)
	f("est", `unknown time zone "est"; did you mean EST?`)
	f("new york", `unknown time zone "new york"; did you mean America/New_York?`)
	f("", `unknown time zone ""`+forms)
	f("Mars", `unknown time zone "Mars"`+forms)
	f("../etc/passwd", `unknown time zone "../etc/passwd"`+forms)
	f("PST", `unknown time zone "PST": an abbreviation, used for a part of the year; use `+
		`America/Los_Angeles, whose offset changes, or -08:00 for the whole year`)
	f("jst", `unknown time zone "jst": an abbreviation; use Asia/Tokyo or +09:00`)
	f("IST", `unknown time zone "IST": an abbreviation that several zones share; use `+
		`Asia/Kolkata (+05:30), Europe/Dublin (+01:00) or Asia/Jerusalem (+02:00), or an offset `+
		`for the whole year`)
	f("GMT-8", `unknown time zone "GMT-8"; write the offset alone: -08:00`)
	for _, name := range []string{"EST", "MST", "HST", "CET", "MET", "EET", "WET", "GMT"} {
		if _, err := Location(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An abbreviation is not a name of a zone, and its place has the offset in winter or in summer.
func TestAbbreviations(t *testing.T) {
	for name, places := range abbreviations {
		if _, err := time.LoadLocation(name); err == nil {
			t.Errorf("%s is the name of a zone", name)
		}
		for _, p := range places {
			loc, err := time.LoadLocation(p.zone)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			winter := time.Date(2026, time.January, 1, 0, 0, 0, 0, loc).Format("-07:00")
			summer := time.Date(2026, time.July, 1, 0, 0, 0, 0, loc).Format("-07:00")
			if p.offset != winter && p.offset != summer {
				t.Errorf("%s: %s has %s and %s, not %s", name, p.zone, winter, summer, p.offset)
			}
		}
	}
}

func TestZoneName(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		got := ZoneName(text)
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if _, err := Location(got); got != text && err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	f("-8", "-08:00")
	f("-08", "-08:00")
	f("8", "+08:00")
	f("0", "+00:00")
	f("+5:30", "+05:30")
	f("+0530", "+05:30")
	f("-05:30", "-05:30")
	f("UTC+2", "+02:00")
	f("Z", "UTC")
	f("utc", "UTC")
	for _, text := range []string{"", "UTC", "UTC2", "-", "+", "+19", "+5:3", "+5:60", "5:30",
		"0530", "2026", "+530", "--8", "+-8", "+:30", "Europe/Berlin", "EST", "Etc/GMT+8",
		"+05:30:00"} {
		f(text, text)
	}
}
