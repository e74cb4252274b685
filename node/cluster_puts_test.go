package node

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestPutsThatNameNoWriter: leaders are lost meanwhile, and those who put hear nothing of it;
// nothing is stored twice.
func TestPutsThatNameNoWriter(t *testing.T) {
	c := openTogether(t, 3, 4)
	const rows = 50
	var stored, slow atomic.Uint64
	var ended atomic.Bool
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := int64(0); !ended.Load(); i++ {
				res, err := c.nodes[1+w%2].Put(c.Context(), readings((int64(w)<<20+i)*rows, rows),
					store.WriterSeq{})
				switch {
				case errors.Is(err, member.ErrUnavailable):
					slow.Add(rows) // an election took longer than a node waits
				case err != nil:
					c.Errorf("writer %d, put %d: %v", w, i, err)
					return
				case res.Records != rows || res.Duplicate:
					c.Errorf("writer %d, put %d: %+v", w, i, res)
				default:
					stored.Add(rows)
				}
				<-time.After(2 * time.Millisecond) // what else runs gets a processor
			}
		})
	}
	c.until("something is stored", func() bool { return stored.Load() > 0 })
	c.stop(0) // it led most
	before := stored.Load()
	c.until("the others store what comes", func() bool { return stored.Load() > before+20*rows })
	ended.Store(true)
	wg.Wait()
	var got uint64
	c.until("a count has an answer", func() bool {
		var err error // half of the puts went through the other node
		got, _, err = dial(t, c.nodes[1]).Linearizable().Count(t.Context(), &record.Query{})
		return err == nil
	})
	least := stored.Load()
	if got < least || got > least+slow.Load() {
		t.Errorf("%d records, want %d, and %d with unknown outcome", got, least, slow.Load())
	}
}

// TestPutsThatWaitLeaveSpace: while a group has no leader, more puts wait for one than a node works
// on, and none is refused for it.
func TestPutsThatWaitLeaveSpace(t *testing.T) {
	c := openTogether(t, 2, 1)
	c.stop(0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var refused atomic.Bool
	var wg sync.WaitGroup
	count := 16 * runtime.GOMAXPROCS(0)
	for i := range count {
		wg.Go(func() {
			for ctx.Err() == nil && !refused.Load() {
				_, err := c.nodes[1].Put(ctx, readings(int64(i), 1), store.WriterSeq{})
				refused.Store(refused.Load() || errors.Is(err, nodeerror.ErrTooBusy))
			}
		})
	}
	c.until("all wait", func() bool { return c.nodes[1].writes.Puts() == count || refused.Load() })
	cancel()
	wg.Wait()
	if refused.Load() {
		t.Errorf("of %d puts that wait, some are refused as too many", count)
	}
}

// TestLargePuts: a cluster takes the largest payload that a node takes, through whatever node and
// once, and refuses what no node takes.
func TestLargePuts(t *testing.T) {
	rounds.NotUnderRace(t, "other clusters store and answer under load")
	c := openTogether(t, 2, 1)
	var b record.Batch
	b.Append(record.Key{CID: 1, CapNs: 1}, make([]byte, record.MaxPayloadBytes))
	for i, n := range c.nodes {
		res := c.put(n, &b, store.WriterSeq{ID: [16]byte{1}, Seq: 1})
		if res.Records != 1 || i > 0 && !res.Duplicate {
			t.Errorf("through node %d: %+v", i, res)
		}
	}
	found := 0
	c.until("the record is found", func() bool {
		_, err := c.nodes[1].Query(t.Context(), &record.Query{}, func(b *record.Batch) error {
			found = len(b.RawPayload(0))
			return nil
		})
		return err == nil
	})
	if found != record.MaxPayloadBytes {
		t.Errorf("its payload has %d bytes", found)
	}
	b.Append(record.Key{CID: 1, CapNs: 2}, make([]byte, record.MaxPayloadBytes+1))
	if _, err := c.nodes[0].Put(t.Context(), &b, store.WriterSeq{}); err == nil ||
		c.nodes[0].Kind(err) != wire.KindTooLarge {
		t.Errorf("one byte more: %v", err)
	}
}
