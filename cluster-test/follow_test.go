package cluster_test

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// follower reads everything in the order of acq and counts it.
type follower struct {
	closedNs int64
	lastNs   int64
	records  map[[2]int64]int // by writer and batch
}

// follow goes on where the follower was, until ctx ends or everything below an acq has come.
func (f *follower) follow(ctx context.Context, t *testing.T, addr string, untilNs int64) {
	c, err := client.Dial(ctx, addr)
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	for b, err := range c.ChangeBatches(ctx, &record.Query{}, f.closedNs) {
		if err != nil {
			t.Errorf("follow: %v", err)
			return
		}
		for i := 0; b.Rows != nil && i < b.Rows.Len(); i++ {
			k := b.Rows.Key(i)
			if k.AcqNs <= f.lastNs {
				t.Errorf("acq %d after %d", k.AcqNs, f.lastNs)
				return
			}
			f.lastNs = k.AcqNs
			f.records[[2]int64{int64(k.CID), k.CapNs}]++
		}
		if f.closedNs = b.ClosedNs; f.closedNs >= untilNs {
			return
		}
	}
}

// TestKilledNodeKeepsItsFollowers kills a node while it is written to and followed: by one who
// connects again by itself, and by one who begins again, from the acq that it had, at every start.
// Both saw every batch that was acknowledged, each record once, in the order of acq.
func TestKilledNodeKeepsItsFollowers(t *testing.T) {
	kills := 3
	if text := os.Getenv("PENTAD_KILLS"); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %d kills", seed, kills)
	rng := rand.New(rand.NewPCG(seed, 5))
	n := &process{bin: build(t), dir: t.TempDir(), addr: freeAddress(t)}
	t.Cleanup(n.kill)
	n.start(t)
	faithful := &follower{records: map[[2]int64]int{}}
	again := &follower{records: map[[2]int64]int{}}
	var following sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	defer following.Wait()
	defer cancel()
	following.Go(func() { faithful.follow(ctx, t, n.addr, record.Acq.Max()) })
	writers := []*writer{{id: [16]byte{1}, cid: 0, pause: writerPause()},
		{id: [16]byte{2}, cid: 1, pause: writerPause()}}
	for kill := range kills {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, w := range writers {
			wg.Go(func() { w.write(ctx, t, n.addr) })
		}
		wg.Go(func() { again.follow(ctx, t, n.addr, record.Acq.Max()) })
		pause(t, time.Duration(50+rng.IntN(500))*time.Millisecond)
		if kill == kills-1 {
			untilAnswered(t, writers)
		}
		n.kill()
		cancel()
		wg.Wait()
		n.start(t)
	}
	cancel()
	following.Wait()
	c, err := client.Dial(t.Context(), n.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	horizon, err := c.Horizon(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]*follower{"faithful": faithful, "again": again} {
		f.follow(t.Context(), t, n.addr, horizon)
		f.check(t, name, writers)
	}
}

// check holds what came against what was acknowledged. The last batch of a writer may be there
// without an answer, but not in part.
func (f *follower) check(t *testing.T, name string, writers []*writer) {
	t.Helper()
	for _, w := range writers {
		if w.next == 0 {
			t.Errorf("%s: writer %d was never answered: nothing was tested", name, w.cid)
		}
		for seq := uint64(1); seq <= w.next+1; seq++ {
			batch := [2]int64{int64(w.cid), int64(seq)}
			if n := f.records[batch]; n != batchRecords && (seq <= w.next || n != 0) {
				t.Errorf("%s: writer %d: batch %d of %d came with %d records", name, w.cid, seq,
					w.next, n)
			}
			delete(f.records, batch)
		}
	}
	if len(f.records) != 0 {
		t.Errorf("%s: batches that nobody sent: %v", name, f.records)
	}
}
