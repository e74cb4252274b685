package main

import (
	"math"
	"strings"
	"testing"
)

// TestSealed runs the whole command on few records: every sum is decrypted and compared, and every
// bar is there.
func TestSealed(t *testing.T) {
	out, figures := command(t, "sealed", "--rows", "20000", "--rounds", "1", "--piece", "100us",
		"--devices", "7")
	const want = 17
	held := 0
	for name, f := range figures {
		if !(f.Value > 0) || math.IsInf(f.Value, 1) {
			t.Errorf("%s is %v", name, f.Value)
		}
		if f.Bar != nil {
			held++
		}
	}
	if held != want || !strings.Contains(out, "bars do not hold") {
		t.Errorf("%d bars, want %d; said:\n%s", held, want, out)
	}
}

func TestSealedRefusesFlags(t *testing.T) {
	for _, flags := range [][]string{{"--rounds", "0"}, {"--devices", "0"},
		{"--rows", "9", "--devices", "10"}} {
		c := root(new(strings.Builder))
		c.SetArgs(append([]string{"sealed", "--out", t.TempDir()}, flags...))
		if err := c.ExecuteContext(t.Context()); err == nil {
			t.Errorf("%q are taken", flags)
		}
	}
}
