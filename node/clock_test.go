package node

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/store"
)

// What happens to the clock is logged once, and when it is over.
func TestClockIsLogged(t *testing.T) {
	var text bytes.Buffer
	n := &Node{log: slog.New(slog.NewTextHandler(&text, nil))}
	right := store.ClockState{}
	back := store.ClockState{AheadNs: int64(time.Hour)}
	leapt := store.ClockState{LeaptNs: int64(99 * time.Hour), Leaps: 1}
	over := store.ClockState{Leaps: 1}
	f := func(before, now store.ClockState, want string) {
		t.Helper()
		text.Reset()
		n.logClock(before, now)
		if got := text.String(); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%+v, then %+v: %q, want %q", before, now, got, want)
		}
	}
	f(right, right, "")
	f(right, back, "set back")
	f(back, back, "")
	f(back, right, "has passed")
	f(right, leapt, "leapt far ahead")
	f(leapt, leapt, "")
	f(leapt, over, "follow the clock again")
	f(right, over, "leapt far ahead") // and back, between two looks
}

func TestClockIsPublished(t *testing.T) {
	a := &asker{t, openTest(t, Options{})}
	a.expect("GET", "/metrics", "", 200, "pentad_store_clock_behind_seconds 0",
		"pentad_store_clock_leapt_seconds 0", "pentad_store_clock_leaps_total 0",
		"pentad_node_feeds 0")
}
