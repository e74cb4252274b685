package store

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/background"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestIdleMerge: what is left after settling is merged into one segment when a store rests, and
// every query sees the same before, after, and when the store is opened again.
func TestIdleMerge(t *testing.T) {
	rng := randomSource(t)
	sh := shape{cids: 2, mids: 50, moids: 2, caps: 200}
	opt := Options{Dir: t.TempDir(), Shards: 1, Now: leapingClock(),
		Index: index.Options{BlockRows: 64}, TileBytes: 4 << 10}
	s := openTest(t, opt)
	m := &model{}
	add := func(rows int) {
		b := sh.batch(rng, rows, time.Now().UnixNano())
		m.add(b, splitByShard(b, len(s.shards)), mustPut(t, s, b, WriterSeq{}))
		mustSeal(t, s)
	}
	for _, rows := range []int{900, 400, 300} {
		add(rows)
	}
	if err := s.WaitForMerges(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); st.Segments != 3 || st.Merges != 0 {
		t.Fatalf("settled with %d segments after %d merges", st.Segments, st.Merges)
	}
	checkQueries(t, rng, s, sh, m, "settled", 20)
	f := func(wantSegments int, wantMerges int64) {
		t.Helper()
		if err := s.MergeIdle(t.Context()); err != nil {
			t.Fatal(err)
		}
		if st := s.Stats(); st.Segments != wantSegments || st.Merges != wantMerges {
			t.Fatalf("rests with %d segments after %d merges", st.Segments, st.Merges)
		}
		checkQueries(t, rng, s, sh, m, "at rest", 20)
	}
	f(1, 1)
	add(100) // too few to write the others again for
	f(2, 1)
	add(350)
	f(1, 2)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, opt)
	checkQueries(t, rng, s, sh, m, "opened again", 20)
}

// TestIdleMergeOfBackdated: what came below the horizon is merged at rest, too.
func TestIdleMergeOfBackdated(t *testing.T) {
	rng := randomSource(t)
	sh := shape{cids: 2, mids: 50, moids: 2, caps: 200}
	s, m := openTest(t, Options{Now: leapingClock(), Index: index.Options{BlockRows: 64},
		TileBytes: 4 << 10}), &model{}
	for range 3 {
		stored := s.Stats().BackdatedRows
		for s.Stats().BackdatedRows < stored+300 {
			sh.putBelow(t, rng, s, m)
		}
		mustSeal(t, s)
	}
	if err := s.WaitForMerges(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); st.Segments != 3 {
		t.Fatalf("settled with %d segments", st.Segments)
	}
	if err := s.MergeIdle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); st.Segments != 1 || st.Merges != 1 {
		t.Fatalf("rests with %d segments after %d merges", st.Segments, st.Merges)
	}
	checkQueries(t, rng, s, sh, m, "at rest", 20)
}

// TestIdleMergeByItself: an idle merge needs no request.
func TestIdleMergeByItself(t *testing.T) {
	s := openTest(t, Options{Dir: t.TempDir(), Shards: 1, idleAfter: time.Millisecond})
	rng := randomSource(t)
	sh := shape{cids: 1, mids: 50, moids: 1, caps: 1000}
	for range 2 {
		mustPut(t, s, sh.batch(rng, 1000, 0), WriterSeq{})
		mustSeal(t, s)
	}
	for s.Stats().Segments > 1 {
		runtime.Gosched()
	}
}

// TestIdleStoreSealsHeads: heads of some rows do not stay in memory for ever, smaller ones do.
func TestIdleStoreSealsHeads(t *testing.T) {
	s := openTest(t, Options{Dir: t.TempDir(), Shards: 2, idleAfter: time.Millisecond,
		idleSealRows: 300})
	b := &record.Batch{}
	for i := range 1000 { // about half of them in each shard
		b.Append(record.Key{CID: 1, MID: int64(i) << 8, MOID: 1, CapNs: 1}, nil)
	}
	mustPut(t, s, b, WriterSeq{})
	for s.Stats().Segments == 0 {
		runtime.Gosched()
	}
	if err := s.WaitForMerges(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Truncate(100)
	mustPut(t, s, b, WriterSeq{})
	sealed := s.Stats().Seals
	for range 50 {
		s.rotateIdle()
	}
	if st := s.Stats(); st.Seals != sealed || st.HeadRows != 100 {
		t.Errorf("%d seals, %d rows in heads: small heads are sealed", st.Seals-sealed, st.HeadRows)
	}
}

// TestBackgroundLimit: stores that share one turn seal and merge one after the other, and one that
// is closed while it waits does not wait on.
func TestBackgroundLimit(t *testing.T) {
	limit := background.NewLimit(1, 1)
	rng := randomSource(t)
	sh := shape{cids: 2, mids: 50, moids: 2, caps: 200}
	var stores []*Store
	for range 4 {
		s := openTest(t, Options{Dir: t.TempDir(), Background: limit, SealRows: 300,
			Index: index.Options{BlockRows: 64}})
		stores = append(stores, s)
	}
	for range 8 {
		for _, s := range stores {
			mustPut(t, s, sh.batch(rng, 400, 0), WriterSeq{})
		}
	}
	for _, s := range stores {
		if err := s.WaitForMerges(t.Context()); err != nil {
			t.Fatal(err)
		}
		if st := s.Stats(); st.Rows != 8*400 || st.Merges == 0 {
			t.Errorf("%d rows, %d merges", st.Rows, st.Merges)
		}
	}
	limit.Seals <- struct{}{} // someone seals for a long time
	limit.Merges <- struct{}{}
	s := stores[0]
	mustPut(t, s, sh.batch(rng, 400, 0), WriterSeq{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Seal(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("sealed out of turn: %v", err)
	}
	if st := s.Stats(); st.HeadRows != 400 {
		t.Errorf("%d rows in heads", st.HeadRows)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	<-limit.Seals
	<-limit.Merges
}
