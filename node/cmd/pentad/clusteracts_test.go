package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/internal/freeaddr"
	"github.com/pentad-db/pentad/sdk/api"
)

func TestWhenAMoveIsDone(t *testing.T) {
	f := func(all api.Cluster, until, wantState string, want bool) {
		t.Helper()
		all.Nodes = append(all.Nodes, api.NodeStatus{ID: "other", State: "left"})
		text, state, done := moved(&all, "it", until)
		if state != wantState || done != want {
			t.Errorf("%q: state %q, done %v", text, state, done)
		}
	}
	node := func(state string) (all api.Cluster) {
		all.Nodes = []api.NodeStatus{{ID: "it", State: state}}
		return all
	}
	f(node("draining"), "left", "draining", false)
	f(node("left"), "left", "left", true)
	f(node("up"), "left", "up", false)
	f(api.Cluster{}, "left", "", false) // who is asked does not know it yet
	f(api.Cluster{}, "", "", true)
	f(api.Cluster{Changes: 1}, "", "", false)
	f(api.Cluster{Running: make([]api.ClusterChange, 1)}, "", "", false)
	f(api.Cluster{Blocked: []string{"what is ahead is not known"}}, "", "", false)
}

// TestLeftNodeKnows: a drain that was waited for ends when the node that left says that it is not
// ready.
func TestLeftNodeKnows(t *testing.T) {
	asked := 0
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; r.URL.Path != "/readyz" {
			t.Errorf("%s is asked", r.URL.Path)
		}
		if asked > 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte(`{"status":"ready"}`))
	}))
	defer node.Close()
	all := &api.Cluster{}
	all.Nodes = []api.NodeStatus{{ID: "it", HTTP: strings.TrimPrefix(node.URL, "http://")},
		{ID: "gone", HTTP: freeaddr.New(t)}}
	a := &app{&cli.App{Stderr: io.Discard, Now: time.Now}}
	for _, id := range []string{"gone", "unknown", "it"} {
		if err := a.noticed(t.Context(), all, id, "left"); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	if asked < 4 {
		t.Errorf("it was asked %d times, and ready", asked)
	}
	if err := a.noticed(t.Context(), all, "it", "up"); err != nil || asked != 4 {
		t.Errorf("after an undrain: %v, asked %d times", err, asked)
	}
}

func TestRate(t *testing.T) {
	f := func(text string, want uint64, ok bool) {
		t.Helper()
		var r rateFlag
		if err := r.Set(text); (err == nil) != ok || uint64(r) != want {
			t.Errorf("%q: %d, %v", text, r, err)
		}
	}
	f("64MiB", 64<<20, true)
	f("50MB", 50e6, true)
	f("3 GiB", 3<<30, true)
	f("2KiB", 2048, true)
	f("1000000", 1e6, true)
	f("0", 0, true)
	f("", 0, false)
	f("-1", 0, false)
	f("MB", 0, false)
	f("9223372036854775807GB", 0, false)
}
