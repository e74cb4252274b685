package store

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestAFeedAwaitsTheHorizon: a feed is woken when the horizon of a replica has passed an acq,
// though nothing has come to its box, and by nothing else that does not.
func TestAFeedAwaitsTheHorizon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, err := Open(t.Context(), Options{Dir: t.TempDir(), Group: testGroup})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		index := uint64(0)
		closeAt := func(ns int64) {
			t.Helper()
			index++
			_, err := s.Apply(t.Context(), []Command{{index, ns, commands.AppendHorizon(nil)}})
			if err != nil {
				t.Fatal(err)
			}
		}
		feed, err := s.Feed(record.Box{record.CID: {record.At(7)}}, false, math.MinInt64)
		if err != nil {
			t.Fatal(err)
		}
		defer feed.Close()
		wakes := func(want bool, what string) {
			t.Helper()
			began := time.Now()
			if err := feed.Wait(t.Context(), time.Hour); err != nil {
				t.Fatal(err)
			}
			if woken := time.Since(began) < time.Minute; woken != want {
				t.Errorf("%s: woken is %v", what, woken)
			}
		}
		closeAt(1000)
		wakes(false, "nothing is awaited")
		feed.Await(2000)
		closeAt(2000) // below which all is closed
		wakes(false, "2000 is not passed")
		closeAt(2001)
		wakes(true, "2000 is passed")
		closeAt(3000)
		wakes(false, "nothing more is awaited")
		feed.Await(2500)
		wakes(true, "2500 was passed before")
		feed.Await(5000)
		feed.Await(4000)
		closeAt(4500)
		wakes(true, "4000 is passed")
	})
}
