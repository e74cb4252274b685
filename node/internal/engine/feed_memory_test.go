package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/pentad-db/pentad/node/internal/budget"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestStalledFeedsShareMemory: readers that take nothing hold no more than the memory of feeds, and
// the slices are the smaller, the less of it is free.
func TestStalledFeedsShareMemory(t *testing.T) {
	const feeds, rows = 200, 20_000
	e := openEngine(t)
	e.Limits.FeedBytes = 8 << 20
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
			_, err = e.nextSlice(ctx, &prepared{Query: &record.Query{}}, feed, true,
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
	if read := readAllChanges(t, e); read != rows {
		t.Errorf("beside stalled feeds %d rows are read, want %d", read, rows)
	}
	cancel()
	done.Wait()
	if used := e.sliceMemory.Used(); used != 0 {
		t.Errorf("%d bytes are held after the feeds have ended", used)
	}
}

func readAllChanges(t *testing.T, e *Engine) (rows int) {
	t.Helper()
	feed, err := e.store.Feed(record.Box{}, false, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	for more := true; more; {
		more, err = e.nextSlice(t.Context(), &prepared{Query: &record.Query{}}, feed, true,
			func(s *store.Slice, _ bool) error {
				rows += s.Rows.Len()
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	return rows
}

// TestSliceWaits: a feed waits for memory without a permit of a reader, which others have
// meanwhile, and gives up at last.
func TestSliceWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const total = 1 << 20
		permits := make(chan struct{}, 1)
		e := &Engine{sliceMemory: budget.New(total, 0)}
		e.Limits.FeedBytes = total
		stalled := e.sliceMemory.Share()
		begin := func() error {
			held := e.sliceMemory.Share()
			defer held.End()
			divisor, release, err := e.beginSlice(t.Context(), permits, held)
			if err == nil {
				if divisor != store.MaxDivisor {
					t.Errorf("a slice beside stalled readers has a divisor of %d", divisor)
				}
				release()
			}
			return err
		}
		stalled.Settle(total * 3 / 4)
		if err := begin(); err != nil || !e.FeedsShort() {
			t.Errorf("three quarters are held: %v, short: %v", err, e.FeedsShort())
		}
		stalled.Settle(2 * total)
		failed := make(chan error)
		go func() { failed <- begin() }()
		synctest.Wait()
		if len(permits) > 0 {
			t.Error("a feed that waits for memory holds a permit")
		}
		var refused *wire.Error
		if err := <-failed; !errors.As(err, &refused) || refused.Kind != wire.KindOverloaded {
			t.Errorf("after the wait: %v", err)
		}
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		for range 50 { // both may be seen first, the cancel and that there is no memory
			_, _, err := e.beginSlice(canceled, permits, e.sliceMemory.Share())
			if !errors.Is(err, context.Canceled) || len(permits) > 0 {
				t.Fatalf("canceled: %v, %d permits are held", err, len(permits))
			}
		}
		go func() { failed <- begin() }()
		synctest.Wait()
		stalled.End()
		if err := <-failed; err != nil {
			t.Error(err)
		}
		if used := e.sliceMemory.Used(); used != 0 || len(permits) > 0 {
			t.Errorf("%d bytes and %d permits are held after all", used, len(permits))
		}
	})
}

// TestFollowersPassThoseBehind: a feed at the horizon reads while others that read the past have
// all of their permits.
func TestFollowersPassThoseBehind(t *testing.T) {
	e := openEngine(t)
	for range cap(e.behind) {
		e.behind <- struct{}{}
	}
	feed, err := e.store.Feed(record.Box{}, false, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	read := func(ctx context.Context, behind bool) error {
		_, err := e.nextSlice(ctx, &prepared{Query: &record.Query{}}, feed, behind,
			func(*store.Slice, bool) error { return nil })
		return err
	}
	if err := read(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := read(canceled, true); !errors.Is(err, context.Canceled) {
		t.Errorf("a feed that is behind read without a permit: %v", err)
	}
}
