package victoriametrics

import (
	"testing"

	"github.com/pentad-db/pentad/bench/peers/peertest"
)

func TestAnswers(t *testing.T) {
	for _, kind := range Kinds() {
		t.Run(kind.Name, func(t *testing.T) { peertest.Run(t, kind, peertest.Options{}) })
	}
}

// TestTooLong counts the digits of numbers.
func TestTooLong(t *testing.T) {
	f := func(number string, want bool) {
		t.Helper()
		if got := tooLong([]byte(number)); got != want {
			t.Errorf("%s: %v", number, got)
		}
	}
	f("-99", false)
	f("123456789012", false)
	f("1234567890123", true)
	f("-0.000123456789012", false)
	f("1234567.890123", true)
	f("1230000000000000", false)
}
