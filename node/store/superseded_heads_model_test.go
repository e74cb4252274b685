package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/background"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestModelSupersededInHeads asks for the latest and earlier states after nearly every put, of rows
// in heads and in segments: seals wait for some time, so that several heads are there at once, and
// go on then. Seldom is there what makes void what is known of superseded rows.
func TestModelSupersededInHeads(t *testing.T) {
	rng := randomSource(t)
	sh := shape{cids: 2, mids: 10, moids: 2, caps: 200, rareTombs: true}
	several := 0
	for range rounds.Of(30, 5, 2) {
		opt := Options{Dir: t.TempDir(), Shards: 1 + rng.IntN(2), SealRows: 600,
			Workers: 1 + rng.IntN(2), Index: index.Options{BlockRows: 64 << rng.IntN(4)},
			maxReadings: 100 << rng.IntN(10), parallelRows: fewParallel, Now: leapingClock(),
			retainEvery: time.Hour, PutWait: 5 * time.Minute, Background: background.NewLimit(1, 1)}
		s, _, err := Open(t.Context(), divided(t, opt))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		m, holds, lasting := &model{}, false, rng.IntN(2) == 0
		release := func() {
			if holds {
				<-opt.Background.Seals
			}
			holds = false
		}
		for step := range 120 {
			if mostImmutable(s) > 1 {
				release()
			}
			switch op := rng.IntN(100); {
			case op < 50:
				b := sh.batch(rng, 1+rng.IntN(100), time.Now().UnixNano())
				res, err := s.Put(t.Context(), b, WriterSeq{})
				if err != nil {
					t.Fatal(err)
				}
				m.add(b, splitByShard(b, len(s.shards)), res)
			case op < 54 && !holds:
				opt.Background.Seals <- struct{}{}
				holds = true
			case op < 55:
				release()
			case op < 57 && lasting && step > 40:
				sh.erase(t, rng, s, m)
			case op < 58 && step > 60:
				release()
				sh.purge(t, rng, s, m)
			case op < 59 && step > 60:
				sh.retain(t, rng, s, m)
			case op < 60 && step > 100:
				release()
				sh.putBelow(t, rng, s, m)
			}
			several += mostImmutable(s)
			q := sh.query(rng, m)
			if rng.IntN(3) > 0 {
				q.Last, q.Box = 0, record.Box{}
			}
			want := m.query(q)
			count, _, err := s.Count(t.Context(), q)
			if err != nil || int(count) != len(want) {
				t.Fatalf("step %d: count %d, %v; want %d: %+v", step, count, err, len(want), q)
			}
			compare(t, fmt.Sprintf("step %d: %+v", step, q), scanRows(t, s, q), want)
		}
		release()
	}
	if several == 0 {
		t.Error("no shard had two heads")
	}
}

// mostImmutable returns how many immutable heads a shard of the store has at most.
func mostImmutable(s *Store) (most int) {
	for _, sh := range s.shards {
		most = max(most, len(sh.State.Load().Immutable))
	}
	return most
}
