package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
)

// A backup whose request for a snapshot gets no answer removes the snapshot that the node may have
// made, and says so when it cannot; after an answer that there is none it leaves all as it is.
func TestBackupRemovesAnUnansweredSnapshot(t *testing.T) {
	answer := func(status int, kind string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"code":"` + kind + `","detail":"no"}`)) // a client may be gone
		}
	}
	hangUp := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	removed := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{}`)) }
	f := func(
		name string, create, remove http.HandlerFunc, wantRemoves, wantCode int, wantSaid bool,
	) {
		t.Helper()
		var mu sync.Mutex // a handler that hangs up says nothing that the next would wait for
		var asked []string
		server := httptest.NewServer(http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) {
				request := r.Method + " " + strings.TrimPrefix(r.URL.Path, "/v1/snapshots/")
				if r.Method == http.MethodPost {
					request = r.URL.Query().Get("name")
				}
				mu.Lock()
				asked = append(asked, request)
				mu.Unlock()
				switch r.Method {
				case http.MethodPost:
					create(w, r)
				case http.MethodDelete:
					remove(w, r)
				}
			}))
		defer server.Close()
		var stdout, stderr bytes.Buffer
		a := &app{&cli.App{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr,
			Now: time.Now, Getenv: func(string) string { return "" }}}
		code := a.run(t.Context(), []string{"backup", "--to", t.TempDir(),
			"--addr", strings.TrimPrefix(server.URL, "http://")})
		mu.Lock()
		defer mu.Unlock()
		at := slices.IndexFunc(asked, func(s string) bool {
			return strings.HasPrefix(s, "backup-")
		})
		removes := 0
		for _, request := range asked[max(at, 0):] {
			if request == "DELETE "+asked[at] {
				removes++
			}
		}
		said := strings.Contains(stderr.String(),
			"may remain; remove it with pentad snapshot rm backup-")
		if removes != wantRemoves || code != wantCode || said != wantSaid {
			t.Errorf("%s: exit code %d, requests %q: %s", name, code, asked, &stderr)
		}
	}
	f("no answer", hangUp, removed, 1, cli.ExitUnavailable, false)
	f("no answer, and none was made", hangUp, answer(404, "not-found"), 1, cli.ExitUnavailable,
		false)
	f("no answer, and it stays", hangUp, answer(500, "internal"), 1, cli.ExitUnavailable, true)
	f("refused", answer(500, "internal"), removed, 0, cli.ExitFailed, false)
}
