package store

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/sector"
	"github.com/pentad-db/pentad/sdk/record"
)

// is lost in a crash and the wall clock was set back meanwhile.
func TestHorizonOfALostGroupHolds(t *testing.T) {
	var wall atomic.Int64
	wall.Store(time.Now().UnixNano())
	opt := Options{Dir: t.TempDir(), Now: wall.Load}
	s := openTest(t, opt)
	mustPut(t, s, batchOf(record.Key{MID: 1}), WriterSeq{})
	wall.Add(int64(time.Hour))
	var h int64
	dir := t.TempDir()
	err := s.onCommitter(t.Context(), func() {
		s.oracle.Reserve(1) // a write group is stamped and not logged yet
		h, _ = s.oracle.Horizon()
		copyDir(t, opt.Dir, dir)
		s.oracle.EndCommit()
	})
	if err != nil {
		t.Fatal(err)
	}
	wall.Add(-int64(30 * time.Minute))
	s = openTest(t, Options{Dir: dir, Now: wall.Load})
	if res := mustPut(t, s, batchOf(record.Key{MID: 2}), WriterSeq{}); res.FirstAcqNs < h {
		t.Fatalf("acq %d below the horizon %d that was handed out", res.FirstAcqNs, h)
	}
}

// Queries go on when the log has failed, below the horizon that it proved.
func TestScansOutliveTheLog(t *testing.T) {
	var wall atomic.Int64
	wall.Store(time.Now().UnixNano())
	s, _, err := Open(t.Context(), Options{Dir: t.TempDir(), Now: wall.Load})
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, s, batchOf(record.Key{MID: 1}), WriterSeq{})
	if err := s.log.Close(); err != nil { // it takes no more
		t.Fatal(err)
	}
	wall.Add(int64(time.Hour))
	if rows := scanRows(t, s, &record.Query{}); len(rows) != 1 {
		t.Fatalf("%d rows", len(rows))
	}
	_ = s.Close()
}

// A count of nothing has a horizon, as a scan of nothing has.
func TestEmptyCountHasHorizon(t *testing.T) {
	s := openTest(t, Options{})
	q := &record.Query{}
	q.Box[record.Acq] = record.RangeSet{{From: record.Acq.Max() - 5, To: record.Acq.Max()}}
	_, stats, err := s.Count(t.Context(), q)
	if err != nil || stats.HorizonNs == 0 {
		t.Fatalf("horizon %d, %v", stats.HorizonNs, err)
	}
}

// A horizon that is asked for beside Close does not pass what the log says of the end.
func TestHorizonDuringClose(t *testing.T) {
	s, _, err := Open(t.Context(), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, s, batchOf(record.Key{MID: 1}), WriterSeq{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	logged := s.oracle.NextNs()
	s.closed.Store(false) // as the caller saw it, which another committer then overtook
	if h, err := s.ExtendHorizon(t.Context()); err != nil || h > logged {
		t.Fatalf("horizon %d, %v; the log ends cleanly at %d", h, err, logged)
	}
}

// TestHorizonsShareALease: those who ask at the same time do not each wait for a sync of theirs.
func TestHorizonsShareALease(t *testing.T) {
	var wall, asked atomic.Int64
	wall.Store(time.Now().UnixNano())
	s := openTest(t, Options{Now: func() int64 { asked.Add(1); return wall.Load() }})
	mustPut(t, s, batchOf(record.Key{MID: 1}), WriterSeq{})
	busy, free := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.onCommitter(t.Context(), func() { close(busy); <-free }); err != nil {
			t.Error(err)
		}
	})
	<-busy
	wall.Add(int64(time.Hour))
	const readers = 20
	before, bytes := asked.Load(), s.log.Stats().Bytes
	for range readers {
		wg.Go(func() {
			if h, err := s.ExtendHorizon(t.Context()); err != nil || h < wall.Load() {
				t.Errorf("horizon %d at %d, %v", h, wall.Load(), err)
			}
		})
	}
	for asked.Load() < before+2*readers { // each has found that a lease is due
		runtime.Gosched()
	}
	close(free)
	wg.Wait()
	if grown := s.log.Stats().Bytes - bytes; grown > sector.Size {
		t.Errorf("the log has grown by %d bytes for one lease", grown)
	}
}
