package timeparse

import (
	"strings"
	"testing"
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
	f("new york", `unknown time zone "new york"; did you mean America/New_York?`)
	f("", `unknown time zone ""`+forms)
	f("Mars", `unknown time zone "Mars"`+forms)
	f("../etc/passwd", `unknown time zone "../etc/passwd"`+forms)
}
