package excerpt

import (
	"strings"
	"testing"
)

func TestDidYouMean(t *testing.T) {
	names := []string{"count", "delta", "distinct", "downsample", "quantiles", "stats",
		"stats-text", "top-k"}
	f := func(text, want string) {
		t.Helper()
		if got := DidYouMean(text, names); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	f("stat", "; did you mean stats or stats-text?")
	f("tsats", "; did you mean stats?")
	f("quantile", "; did you mean quantiles?")
	f("Count", "; did you mean count?")
	f("topk", "; did you mean top-k?")
	f("d", "; did you mean delta or distinct or downsample?")
	f("histogram", "")
	f("", "")
	f(strings.Repeat("x", 1<<20), "")
}

func TestNearest(t *testing.T) {
	names := []string{"time", "kwh", "meters", "Meter"}
	got := strings.Join(Nearest("meter", names), " ")
	if got != "Meter meters time kwh" || names[0] != "time" {
		t.Errorf("%s, %s", got, names)
	}
	long := strings.Repeat("x", 1<<20)
	if got := Nearest(long, []string{"a", long}); got[0] != long {
		t.Error("a long name is not near to itself")
	}
}
