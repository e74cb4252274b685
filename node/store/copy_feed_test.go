package store

import (
	"math"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/mirror"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestCopyWakesFeeds: whoever follows a copy hears of a range when it comes.
func TestCopyWakesFeeds(t *testing.T) {
	s := openTest(t, Options{})
	if _, err := s.PutRange(t.Context(), rangeOf("a", 0, 10, 3)); err != nil {
		t.Fatal(err)
	}
	f := feedOf(t, s, record.Box{}, 0)
	readFeed(t, f, 0)
	awaited := func(r *mirror.Range) (rows, events int) {
		t.Helper()
		if _, err := s.PutRange(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := f.Wait(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if time.Since(began) > 30*time.Second {
			t.Error("the range woke nobody")
		}
		got, gotEvents := readFeed(t, f, 0)
		return len(got), len(gotEvents)
	}
	if rows, _ := awaited(rangeOf("a", 10, 20, 13)); rows != 1 {
		t.Errorf("%d rows", rows)
	}
	erase := &mirror.Range{Of: "a", FromNs: 20, ToNs: 30,
		Events: []event.Event{{AcqNs: 25, Kind: event.Erase}}}
	if _, events := awaited(erase); events != 1 {
		t.Errorf("%d events", events)
	}
}

// TestCutOfAllTime: a range of acq may be wider than its numbers are.
func TestCutOfAllTime(t *testing.T) {
	s := openTest(t, Options{})
	for i := range int64(20) {
		mustPut(t, s, batchOf(record.Key{MID: i}), WriterSeq{})
	}
	h, err := s.ExtendHorizon(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cuts, err := s.Cut(t.Context(), math.MinInt64, h, 5)
	if err != nil || len(cuts) != 5 || cuts[len(cuts)-1] != h {
		t.Errorf("%d cuts up to %d, want 5 up to %d: %v", len(cuts), cuts[len(cuts)-1], h, err)
	}
}
