package store

import (
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/store/retention"
)

// A segment's window is of the shortest age that rows in it have yet to reach.
func TestWindowsOfSegments(t *testing.T) {
	a := newAging(t, Options{})
	a.put(1, 2)
	mustSeal(t, a.s)
	seg := a.s.shards[0].State.Load().Sealed[0]
	f := func(want int64) {
		t.Helper()
		a.calm()
		width := int64(0)
		if w := seg.Window.Load(); w != nil {
			width = w.WidthNs
		}
		if width != want {
			t.Errorf("%v, want %v", time.Duration(width), time.Duration(want))
		}
	}
	f(0)
	a.set(retention.Rule{CID: tenant(3), MaxCapAgeNs: 8 * day}) // it has no rows
	f(0)
	a.set(retention.Rule{CID: tenant(2), MaxAcqAgeNs: 80 * day})
	f(10 * day)
	a.set(retention.Rule{CID: tenant(1), MaxCapAgeNs: 40 * day})
	f(5 * day)
	for range 50 {
		a.pass(day)
	}
	sealed := a.s.shards[0].State.Load().Sealed
	if seg = sealed[0]; len(sealed) != 1 || seg.Meta.Rows != 1 {
		t.Fatalf("%+v", seg.Meta)
	}
	f(10 * day)
}
