package httpserver

import (
	"testing"
)

func TestHasDots(t *testing.T) {
	f := func(path string, want bool) {
		t.Helper()
		if hasDotSegments(path) != want {
			t.Fatalf("%q: want %t", path, want)
		}
	}
	f("/v1/sync", false)
	f("/v1/cursors/a.b", false)
	f("/v1/cursors/..a", false)
	f("/v1/cursors/%252e%252e", false)
	f("/v1/cursors/..", true)
	f("/v1/./sync", true)
	f("/v1/cursors/..%2Fsync", true)
	f("/v1/cursors/%2e.%2fsync", true)
	f("/v1/cursors/%zz/%2E%2E/sync", true)
	f("/v1/cursors/..%5csync", true)
}
