// Package rounds is how a test asks how often it repeats what it tries, and leaves itself out of
// make race.
//
// It owns the questions whether tests run for long, and whether the race detector watches: make
// test-long sets PENTAD_LONG, and what make test samples is then tried as often as it pays, or at
// every place there is. It knows nothing of what is tested, nor of the clock: how long a model goes
// on is said by a variable of its own. Only tests import it; it has no types and starts no
// goroutines.
package rounds

import (
	"os"
	"testing"
)

// Long reports whether tests run for as long as they pay.
func Long() bool { return os.Getenv("PENTAD_LONG") != "" && !testing.Short() }

// Of returns how often to repeat something: in make test-long, in make test, and with -short.
func Of(long, usual, short int) int {
	switch {
	case testing.Short():
		return short
	case Long():
		return long
	}
	return usual
}

// NotUnderRace leaves a test out of make race, which is the short form with the race detector: the
// test takes long there and starts no goroutine that others do not, or counts what the detector
// changes. make test runs it.
func NotUnderRace(t testing.TB, why string) {
	t.Helper()
	if Race && testing.Short() {
		t.Skipf("not under the race detector: %s", why)
	}
}
