package node

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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
				n.plugins.adHoc)
		}
	}
}

// lentIdle reports whether no query uses a module that it brought, and that all of these are kept.
func lentIdle(n *Node) bool {
	n.plugins.mu.Lock()
	defer n.plugins.mu.Unlock()
	return lentIdleLocked(n)
}

func lentIdleLocked(n *Node) bool {
	t := &n.plugins.adHoc
	return t.bytes == t.idleBytes && len(t.idle) == len(t.modules)
}

// The modules that no query uses stay as long as there is room: the one that was used last stays
// longest, and all go for one that needs the room.
func TestAdHocCached(t *testing.T) {
	n := openTest(t, Options{})
	ask := func(tag string) {
		t.Helper()
		v, err := n.plugins.useAdHoc(t.Context(), "mine", variant(t, "count", tag))
		if err != nil {
			t.Fatal(err)
		}
		n.plugins.release(v)
	}
	for i := range maxIdle + 1 {
		ask(fmt.Sprint(i))
		ask("0")
	}
	s, kept := n.adHocHost.Stats(), &n.plugins.adHoc
	if s.Compiles != maxIdle+1 || s.Modules != maxIdle || !lentIdle(n) {
		t.Errorf("%+v, %d are kept", s, len(kept.idle))
	}
	ask("1") // went for the last one
	if again := n.adHocHost.Stats(); again.Compiles != s.Compiles+1 {
		t.Errorf("%d were compiled, then %d", s.Compiles, again.Compiles)
	}
	n.plugins.mu.Lock()
	defer n.plugins.mu.Unlock()
	if kept.reserve(maxAdHocBytes + 1) {
		t.Error("there is room for more than the most")
	}
	if !kept.reserve(maxAdHocBytes) || len(kept.idle) != 0 || n.adHocHost.Stats().Modules != 0 {
		t.Errorf("%d are kept beside one that needs all the room", len(kept.idle))
	}
	kept.bytes = 0
	n.plugins.mu.Unlock()
	const large = 200 << 10
	for i := range maxIdleBytes/large + 3 {
		padding := make([]byte, large) // a section that nothing reads, without a name
		padding[1] = byte(i)
		size := []byte{0, 0x80 | large&0x7f, 0x80 | large>>7&0x7f, large >> 14}
		v, err := n.plugins.useAdHoc(t.Context(), "mine", slices.Concat(standardModule(t, "count"),
			size, padding))
		if err != nil {
			t.Fatal(err)
		}
		n.plugins.release(v)
	}
	n.plugins.mu.Lock()
	if !lentIdleLocked(n) || kept.idleBytes > maxIdleBytes ||
		kept.idleBytes < maxIdleBytes-2*large {
		t.Errorf("%d are kept, of %d bytes", len(kept.idle), kept.idleBytes)
	}
}

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
				t.Fatalf("changes use %+v", n.plugins.adHoc)
			}
		}
		for _, err := range c.PastChanges(t.Context(), q, math.MaxInt64-1) {
			if err == nil || !lentIdle(n) {
				t.Errorf("changes that cannot begin: %v, %+v", err, n.plugins.adHoc)
			}
		}
	}
}
