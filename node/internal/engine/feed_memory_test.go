package engine

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/pentad-db/pentad/node/internal/budget"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestStalledFeedsShareMemory: readers that take nothing hold no more than the memory of feeds, and
// the slices are the smaller, the less of it is free.
func TestStalledFeedsShareMemory(t *testing.T) {
	const feeds, rows = 40, 20_000
	e := openEngine(t)
	e.Limits.FeedBytes = 32 << 20 // whole slices take three times as much
	e.sliceMemory = budget.New(e.Limits.FeedBytes, 0)
	b := &record.Batch{}
	for i := range int64(rows) {
		b.Append(record.Key{MID: i, CapNs: i}, make([]byte, 16))
	}
	if _, err := e.store.Put(t.Context(), b, store.WriterSeq{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var reading, done sync.WaitGroup
	var sizes sync.Map
	for i := range feeds {
		reading.Add(1)
		done.Go(func() {
			first := sync.OnceFunc(reading.Done)
			defer first()
			feed, err := e.store.Feed(record.Box{}, false, 0)
			if err != nil {
				t.Error(err)
				return
			}
			defer feed.Close()
			_, err = e.nextSlice(ctx, &prepared{Query: &record.Query{}}, feed,
				func(s *store.Slice, _ bool) error {
					sizes.Store(i, s.MemoryBytes())
					first()
					<-ctx.Done()
					return ctx.Err()
				})
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	reading.Wait()
	var held int64
	sizes.Range(func(_, bytes any) bool {
		held += bytes.(int64)
		return true
	})
	if held == 0 || held > e.Limits.FeedBytes {
		t.Errorf("stalled feeds hold %d bytes, want at most %d", held, e.Limits.FeedBytes)
	}
	cancel()
	done.Wait()
	if used := e.sliceMemory.Used(); used != 0 {
		t.Errorf("%d bytes are held after the feeds have ended", used)
	}
}
