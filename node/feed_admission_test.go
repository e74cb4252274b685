package node

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/admission"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestFeedsLeavePermits: queries find places while many readers of changes are woken again and
// again.
func TestFeedsLeavePermits(t *testing.T) {
	n := openTest(t, Options{MaxQueries: 4, MaxWaiting: -1})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for range 200 {
		wg.Go(func() {
			_, err := n.Changes(ctx, &record.Query{}, SinceNow, true,
				func(*store.Slice) error { return nil })
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	wg.Go(func() {
		for i := int64(0); ctx.Err() == nil; i++ {
			b := &record.Batch{}
			b.Append(record.Key{CID: 1, MID: i}, nil)
			if _, err := n.Put(ctx, b, store.WriterSeq{}); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	busy, asked := 0, 0
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(time.Second); time.Now().Before(until); asked++ {
		<-tick.C
		var place admission.Permit
		if err := n.queries.Acquire(ctx, 1, &place); errors.Is(err, admission.ErrFull) {
			busy++
			continue
		}
		place.Release()
	}
	if busy > 0 {
		t.Errorf("%d of %d queries found no place", busy, asked)
	}
}
