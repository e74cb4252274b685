package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/node/store/shards"
)

// Neighbours are merged when their newest rows are of one window, the narrowest of theirs.
func TestTogether(t *testing.T) {
	f := func(widths []int64, newest []int64, want string) {
		t.Helper()
		sealed := make([]*shards.Segment, len(widths))
		for i := range sealed {
			sealed[i] = &shards.Segment{Meta: manifest.Segment{LastAcqNs: newest[i]}}
			if widths[i] > 0 {
				sealed[i].Window.Store(&shards.AgeWindow{WidthNs: widths[i],
					NewestNs: newest[i]})
			}
		}
		var got []string
		for part, over := range mergeable(sealed) {
			got = append(got, fmt.Sprint(len(part), over))
		}
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("windows %v of %v: %s, want %s", newest, widths, got, want)
		}
	}
	f(nil, nil, "")
	f([]int64{0, 0, 0}, []int64{1, 100, 1000}, "3 false")
	f([]int64{10, 10, 10, 10, 10}, []int64{1, 5, 9, 10, 31}, "3 true, 1 true, 1 false")
	f([]int64{10, 10, 10}, []int64{-11, -10, -1}, "1 true, 2 false")
	f([]int64{10, 0, 10}, []int64{1, 5, 9}, "3 false")
	f([]int64{0, 0, 10}, []int64{1, 50, 55}, "2 false, 1 false")
	f([]int64{100, 100, 10, 10}, []int64{1, 50, 55, 60}, "2 false, 1 true, 1 false")
	f([]int64{100, 100, 10}, []int64{1, 50, 155}, "2 true, 1 false")
	f([]int64{10, 10, 10, 10}, []int64{1, 31, 2, 32}, "1 true, 1 true, 1 true, 1 false")
}

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
