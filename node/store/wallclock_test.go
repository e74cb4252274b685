package store

import (
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/store/acqtime"
	"github.com/pentad-db/pentad/sdk/record"
)

// Clocks at the ends of time stamp rows all the same, and strictly rising.
func TestClocksAtTheEnds(t *testing.T) {
	for _, now := range []int64{math.MinInt64, math.MaxInt64} {
		var wall atomic.Int64
		wall.Store(now)
		opt := Options{Dir: t.TempDir(), Now: wall.Load}
		s := openTest(t, opt)
		last := int64(math.MinInt64)
		for i := range int64(3) {
			res := mustPut(t, s, batchOf(record.Key{MID: i}, record.Key{MID: i + 9}), WriterSeq{})
			horizon, err := s.ExtendHorizon(t.Context())
			if err != nil || res.FirstAcqNs <= last || horizon <= res.LastAcqNs ||
				res.LastAcqNs > acqtime.LastNs+1000 {
				t.Fatalf("clock %d: stamps %+v after %d, horizon %d, %v", now, res, last, horizon,
					err)
			}
			last = res.LastAcqNs
		}
		if rows := scanRows(t, s, &record.Query{}); len(rows) != 6 {
			t.Errorf("clock %d: %d rows", now, len(rows))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A store tells that the clock was set back behind its acqs.
func TestAhead(t *testing.T) {
	var wall atomic.Int64
	wall.Store(time.Now().UnixNano())
	s := openTest(t, Options{Now: wall.Load})
	mustPut(t, s, batchOf(record.Key{MID: 1}), WriterSeq{})
	if ahead := s.AheadNs(); ahead != 0 {
		t.Errorf("a clock that is right: %d", ahead)
	}
	wall.Add(-int64(time.Hour))
	before, err := s.ExtendHorizon(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	res := mustPut(t, s, batchOf(record.Key{MID: 2}), WriterSeq{})
	if ahead := time.Duration(s.AheadNs()); res.FirstAcqNs < before || ahead < 59*time.Minute ||
		ahead > 61*time.Minute {
		t.Errorf("set back by an hour: acq %d, horizon before %d, ahead %v", res.FirstAcqNs, before,
			ahead)
	}
}
