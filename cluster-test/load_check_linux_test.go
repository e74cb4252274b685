package cluster_test

import (
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestErasuresAreHeld plants what an erase must never leave or take.
func TestErasuresAreHeld(t *testing.T) {
	all := erasure{before: true, erased: true, after: true}
	unknown := erasure{before: true}
	f := func(r erasure, before, after int, want string) {
		t.Helper()
		e := &erasures{rounds: []erasure{r}}
		got := strings.Join(e.hold("node", []int{before}, []int{after}), "\n")
		if (got != "") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%+v, %d and %d: found %q, want %q", r, before, after, got, want)
		}
	}
	f(all, 0, eraserRows, "")
	f(all, 1, eraserRows, "erased readings of round 1 are there")
	f(all, 0, eraserRows-1, "put after an erase")
	f(all, 0, eraserRows+1, "put after an erase")
	f(unknown, eraserRows, 0, "") // the erase may have come to nothing
	f(unknown, 3, 0, "")          // or to some groups only
	f(unknown, eraserRows+1, 0, "doubled")
}

// TestFeedReaderFinds plants feeds that go back or bring what they have closed.
func TestFeedReaderFinds(t *testing.T) {
	f := func(want string, closed []int64, acqs ...int64) {
		t.Helper()
		r := &feedReader{tally: newTally("feed")}
		for i, acq := range acqs {
			n := rowName{1, uint64(i + 1), 0}
			k := n.key()
			k.AcqNs = acq
			var rows record.Batch
			rows.AppendStamped(k, n.payload())
			r.take(client.ChangeBatch{Rows: &rows, ClosedNs: closed[i]})
		}
		got := strings.Join(r.tally.wrong, "\n")
		if (got != "") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("acqs %v, closed %v: found %q, want %q", acqs, closed, got, want)
		}
	}
	f("", []int64{6, 8}, 5, 7)
	f("", []int64{5, 6}, 5, 5) // two groups gave out one acq
	f("brings acq 4", []int64{6, 8}, 5, 4)
	f("brings acq 5", []int64{6, 8}, 5, 5)
	f("went back", []int64{6, 5}, 5, 7)
}
