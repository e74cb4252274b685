package timeparse

import (
	"strings"
	"testing"
	"time"
)

// TestParseDated reads numbers that are likely to have another unit than ns.
func TestParseDated(t *testing.T) {
	now := time.Unix(1_800_000_000, 0).UTC()
	f := func(text, want string) {
		t.Helper()
		span, err := ParseDated(text, now)
		if err == nil && Format(span.FromNs) == want {
			return
		}
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, %v; want %s", text, span, err, want)
		}
	}
	f("1700000000", "1970-01-01T00:00:01.700Z; if it is in seconds write 2023-11-14T22:13:20Z")
	f("1700000000000", "if it is in milliseconds write 2023-11-14T22:13:20Z")
	f("1700000000000000", "if it is in microseconds write 2023-11-14T22:13:20Z")
	f("1700000000000000000", "2023-11-14T22:13:20Z")
	f("1970-01-01T00:00:01.7Z", "1970-01-01T00:00:01.700Z")
	f("5", "1970-01-01T00:00:00.000000005Z")
	f("-1700000000", "1969-12-31T23:59:58.300Z")
	f("2024-05-01", "2024-05-01T00:00:00Z")
}
