package node

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// A module that queries bring is compiled once for all of them, and no query uses it in the end.
func TestAdHocOnce(t *testing.T) {
	n := openTest(t, Options{})
	c := dial(t, n)
	rows := len(fill(t, c, rand.New(rand.NewPCG(1, 1)), 100))
	call, err := parseCallOf(t, n, "threshold", "op=ge,value=-1e9")
	if err != nil {
		t.Fatal(err)
	}
	call.Name, call.Module = "mine", variant(t, "threshold", "lent")
	for round := range 3 {
		found := 0
		_, err = c.Scan(t.Context(), &record.Query{Filters: []record.PluginCall{call, call}},
			func(b *record.Batch) error {
				found += b.Len()
				return nil
			})
		s := n.adHocHost.Stats()
		if err != nil || found != rows || s.Compiles != 1 || s.Modules != 1 || !lentIdle(n) {
			t.Errorf("round %d: %d of %d records, %v, %+v, %+v", round, found, rows, err, s,
				n.plugins.Count())
		}
	}
}

// lentIdle reports whether no query uses a module that it brought.
func lentIdle(n *Node) bool { return n.plugins.Count().AdHocBytes == 0 }

// As well before changes and for them; nothing is left when their connection ends, or of changes
// that cannot begin.
func TestAdHocOnceForFeeds(t *testing.T) {
	n := openTest(t, Options{})
	c := dial(t, n)
	rows := len(fill(t, c, rand.New(rand.NewPCG(1, 1)), 100))
	call, err := parseCallOf(t, n, "threshold", "op=ge,value=-1e9")
	if err != nil {
		t.Fatal(err)
	}
	call.Name, call.Module = "mine", variant(t, "threshold", "lent")
	q := &record.Query{Filters: []record.PluginCall{call, call}}
	for range 2 {
		found := 0
		for b, err := range c.PastChanges(t.Context(), q, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if b.Rows != nil {
				found += b.Rows.Len()
			}
		}
		if s := n.adHocHost.Stats(); found != rows || s.Compiles != 1 {
			t.Errorf("%d of %d records, %+v", found, rows, s)
		}
		late := time.After(time.Minute)
		for !lentIdle(n) { // the client may hear of the end first
			select {
			case <-time.After(time.Millisecond):
			case <-late:
				t.Fatalf("changes use %+v", n.plugins.Count())
			}
		}
		for _, err := range c.PastChanges(t.Context(), q, math.MaxInt64-1) {
			if err == nil || !lentIdle(n) {
				t.Errorf("changes that cannot begin: %v, %+v", err, n.plugins.Count())
			}
		}
	}
}
