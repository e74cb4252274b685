package node

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

const feedWriters = 3

// feedTest is a cluster that is written to and read from while its nodes fail.
type feedTest struct {
	*nodesTogether
	mu    sync.Mutex
	live  []*Node              // guarded by mu: who may be written to
	acked map[record.Key]int64 // guarded by mu: acqs at most, by key without acq
	ended atomic.Int32         // writers; when all have, acked holds all
}

// reader follows the feed from one node after another, and keeps what it read.
type reader struct {
	at   int64 // everything below was kept
	got  map[record.Key]int64
	last int64 // acq of what was read last
	rng  *rand.Rand

	hops, failures int
}

// TestChangesOfACluster: a follower at changing nodes gets every acknowledged record once and
// in the order of acq, while leaders change, stores seal and merge, and a node ends and comes back.
func TestChangesOfACluster(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	f := &feedTest{nodesTogether: openTogether(t, 3, 4), acked: map[record.Key]int64{}}
	f.live = append(f.live, f.nodes...)
	batches := rounds.Of(500, 250, 100)
	var writers, readers sync.WaitGroup
	for w := range feedWriters {
		writers.Go(func() { f.write(w, batches) })
	}
	all := make([]*reader, 3)
	for i := range all {
		all[i] = &reader{got: map[record.Key]int64{}, rng: rand.New(rand.NewPCG(seed, uint64(i)))}
		if i == 0 {
			all[i].at = math.MinInt64 // as who names no position
		}
		readers.Go(func() { f.follow(all[i]) })
	}
	for i := range f.nodes { // each leads some groups, and gets some back
		f.restart(i)
	}
	writers.Wait()
	readers.Wait()
	for i, r := range all {
		t.Logf("reader %d: %d records, %d connections, %d failed", i, len(r.got), r.hops,
			r.failures)
		if len(r.got) != len(f.acked) || r.hops < 3 {
			t.Errorf("reader %d: %d records, want %d, over %d connections", i, len(r.got),
				len(f.acked), r.hops)
		}
		for k, last := range f.acked {
			if acq, ok := r.got[k]; !ok || acq > last {
				t.Errorf("reader %d: acq %d of %v, acknowledged up to %d", i, acq, k, last)
			}
		}
	}
}

// write puts batches through any node that lives, each until it is acknowledged.
func (f *feedTest) write(writer, batches int) {
	defer f.ended.Add(1)
	id := [16]byte{1, byte(writer)}
	rng := rand.New(rand.NewPCG(uint64(writer), 7))
	for seq := range batches {
		var b record.Batch
		for i := range 40 {
			b.Append(record.Key{CID: int32(writer), MID: rng.Int64N(1000) * 256, MOID: int32(i),
				CapNs: int64(seq) + 1}, f64(float64(seq)))
		}
		var res store.PutResult
		f.until("a batch is stored", func() bool {
			f.mu.Lock()
			n := f.live[rng.IntN(len(f.live))]
			f.mu.Unlock()
			var err error
			res, err = n.Put(f.Context(), &b, store.WriterSeq{ID: id, Seq: uint64(seq) + 1})
			return err == nil
		})
		f.mu.Lock()
		for i := range b.Len() {
			f.acked[b.Key(i)] = res.LastAcqNs
		}
		f.mu.Unlock()
	}
}

// follow reads until it has everything, and until idle groups have closed what comes after.
func (f *feedTest) follow(r *reader) {
	enough := errors.New("enough")
	f.until("a reader has all", func() bool {
		addr := f.options[r.rng.IntN(len(f.options))].Listen // the rest changes
		c, err := client.New(addr)
		if err != nil {
			f.Error(err)
			return true
		}
		defer func() { _ = c.Close() }()
		left := 1 + r.rng.IntN(400)
		r.hops++
		ctx, cancel := context.WithTimeout(f.Context(), 10*time.Second)
		defer cancel()
		err = c.ChangesOnce(ctx, &record.Query{}, r.at, true, engine.LeastHeartbeat,
			func(b client.ChangeBatch) error {
				if b.Rows == nil {
					r.at = b.ClosedNs
				} else if left -= b.Rows.Len(); r.take(f, b.Rows) != nil {
					return enough
				}
				if left <= 0 || r.done(f) {
					return enough
				}
				return nil
			})
		var known *wire.Error
		if errors.As(err, &known) && !known.Kind.Temporary() {
			f.Errorf("from %d at node %s: %v", r.at, addr, err)
			return true
		}
		if !errors.Is(err, enough) {
			r.failures++
		}
		return f.Failed() || r.done(f)
	})
}

// take keeps rows; what it takes of one acq it takes together.
func (r *reader) take(f *feedTest, rows *record.Batch) error {
	for i := range rows.Len() {
		k := rows.Key(i)
		acq := k.AcqNs
		k.AcqNs = 0
		before, twice := r.got[k]
		switch {
		case twice:
			f.Errorf("%v comes with acq %d and %d", k, before, acq)
			return errors.New("twice")
		case acq < r.last:
			f.Errorf("acq %d after %d", acq, r.last)
			return errors.New("not in order")
		case acq < r.at:
			f.Errorf("acq %d was closed at %d", acq, r.at)
			return errors.New("late")
		}
		r.got[k], r.last = acq, acq
	}
	r.at = r.last + 1
	return nil
}

func (r *reader) done(f *feedTest) bool {
	if f.ended.Load() < feedWriters {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, last := range f.acked {
		if last >= r.at {
			return false
		}
	}
	return true
}

// restart ends a node, and starts it again when others have been written to.
func (f *feedTest) restart(i int) {
	f.mu.Lock()
	f.live = append(append([]*Node{}, f.nodes[:i]...), f.nodes[i+1:]...)
	f.mu.Unlock()
	f.stop(i)
	f.mu.Lock()
	before := len(f.acked)
	f.mu.Unlock()
	f.until("the others store something", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.acked) > before || f.ended.Load() == feedWriters
	})
	f.options[i].Cluster.Init, f.options[i].Cluster.Groups = false, 0
	f.nodes[i] = openTest(f.T, f.options[i])
	f.until("the node is back", func() bool { return f.settled(3) })
	f.mu.Lock()
	f.live = append(f.live, f.nodes[i])
	f.mu.Unlock()
}
