package main

import (
	"strings"
	"testing"
)

func TestScrubFlags(t *testing.T) {
	f := func(every string, megabytes float64, want string) {
		t.Helper()
		s := scrubFlags{every: every, megabytes: megabytes}
		_, err := s.scrub()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s, %g: %v, want %q", every, megabytes, err, want)
		}
	}
	f("7d", 16, "")
	f("1h30m", 0.5, "")
	f("off", 16, "")
	f("0", 16, "use e.g. 7d, 24h or off")
	f("0s", 16, "use e.g. 7d, 24h or off")
	f("week", 16, "use e.g. 7d, 24h or off")
	f("7d", 0, "--scrub-rate 0: not a number")
	f("7d", -1, "--scrub-rate -1: not a number")
}
