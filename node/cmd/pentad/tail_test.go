package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
)

// A cursor that a node cannot keep now is kept later: tail ends when it cannot be kept for long, or
// is refused.
func TestTailCommitsLater(t *testing.T) {
	status, kind := 0, ""
	server := httptest.NewServer(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			if status == 0 {
				_, _ = w.Write([]byte(`{}`)) // a client may be gone
				return
			}
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"code":"` + kind + `","detail":"no"}`))
		}))
	defer server.Close()
	db, err := client.Dial(t.Context(), strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	tail := &tailing{db: db, cursor: "mirror", committed: 1, closedNs: 2}
	answers := func(code int, of string) { status, kind = code, of }

	answers(http.StatusServiceUnavailable, "unavailable")
	if err := tail.commitSoon(t.Context()); err != nil || tail.committed != 1 {
		t.Errorf("unavailable: %v, committed %d", err, tail.committed)
	}
	tail.failing = time.Now().Add(-commitWithin)
	if err := tail.commitSoon(t.Context()); err == nil {
		t.Error("unavailable for long: no error")
	}
	answers(0, "")
	if err := tail.commitSoon(t.Context()); err != nil || tail.committed != 2 {
		t.Errorf("available: %v, committed %d", err, tail.committed)
	}
	if !tail.failing.IsZero() {
		t.Error("still counts as failing")
	}
	answers(http.StatusBadRequest, "bad-request")
	tail.closedNs = 3
	if err := tail.commitSoon(t.Context()); err == nil || !strings.Contains(err.Error(), "mirror") {
		t.Errorf("refused: %v, want an error that names the cursor", err)
	}
}
