package store

import (
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestEraseOfCorrectionsShowsWhatTheyHid counts segments by the sums that they keep, until an erase
// of some of what superseded their rows, in another segment, makes the sums void.
func TestEraseOfCorrectionsShowsWhatTheyHid(t *testing.T) {
	var nowNs atomic.Int64 // blocks are verified after each put, as sums are of verified ones
	s := openTest(t, Options{idleAfter: time.Hour,
		blockNow: func() time.Time { return time.Unix(1e9, nowNs.Load()) }})
	const readings, corrected = 4000, 40
	put := func(from, every int) (lastAcqNs int64) {
		t.Helper()
		rows := &record.Batch{}
		for i := from; i < readings; i += every {
			rows.Append(loadedKey(i%7, i/7), []byte("12345678"))
		}
		res := mustPut(t, s, rows, WriterSeq{})
		mustSeal(t, s)
		nowNs.Add(int64(segment.VerifyAfter))
		return res.LastAcqNs
	}
	count := func() {
		t.Helper()
		for range 3 {
			n, _, err := s.Count(t.Context(), &record.Query{View: record.ViewLatest})
			if err != nil || n != readings {
				t.Fatalf("%d readings, %v; want %d", n, err, readings)
			}
		}
	}
	put(0, 1)
	lastNs := put(0, readings/corrected)
	count()
	put(1, readings/corrected)
	count()
	if n := keptSums(s); n != 2*corrected {
		t.Fatalf("the sums have %d superseded rows, want %d", n, 2*corrected)
	}
	box := record.Box{record.Acq: {{From: lastNs + 1, To: math.MaxInt64}}}
	if _, err := s.Erase(t.Context(), box); err != nil {
		t.Fatal(err)
	}
	count()
}
