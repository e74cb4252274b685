package engine

import (
	"context"
	"errors"
	"time"

	"github.com/pentad-db/pentad/node/internal/budget"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	// sliceCost is what a whole slice may take: its payloads, columns and order, all twice
	// while they are sorted.
	sliceCost = 40 << 20
	// leastSliceCost is what the smallest slice takes, of some rows.
	leastSliceCost = sliceCost / store.MaxDivisor
	// A slice takes a quarter of what is free at most, so that others find some.
	partOfFree = 4
	// sliceWait is how long a feed waits for memory. Readers that take nothing lose theirs sooner;
	// in a cluster those that hold memory may wait for this feed.
	sliceWait = 15 * time.Second
)

// takeSlice returns a slice. Only whole ones keep their memory for the next reader.
func takeSlice(divisor int) *store.Slice {
	if divisor > 1 {
		return &store.Slice{Divisor: divisor}
	}
	s := slicePool.Get().(*store.Slice)
	s.Divisor = divisor
	return s
}

// returnSlice ends the use of a slice.
func returnSlice(s *store.Slice) {
	if s.Divisor <= 1 {
		slicePool.Put(s)
	}
}

// FeedsShort reports whether slices that are read or written fill the memory of feeds but for a
// reserve: readers that take nothing should not keep theirs for long.
func (e *Engine) FeedsShort() bool { return e.sliceMemory.Used() > e.Limits.FeedBytes/2 }

// sliceDivisor says how small a slice must be: those that are held fill half of the memory of feeds
// at most, and above that each is the smallest.
func (e *Engine) sliceDivisor() (divisor int, bytes int64) {
	may := max((e.Limits.FeedBytes/2-e.sliceMemory.Used())/partOfFree, leastSliceCost)
	divisor = int(max(1, (sliceCost+may-1)/may))
	return divisor, sliceCost / int64(divisor)
}

// beginSlice takes one of some permits and memory for a slice, and says how small that must be.
// Many feeds wake up at once and wait for permits without a limit; while one waits for memory,
// which it seldom does, it has none.
//
// Errors: an overloaded [wire.Error]; ctx.Err().
func (e *Engine) beginSlice(
	ctx context.Context, permits chan struct{}, held *budget.Share,
) (divisor int, release func(), err error) {
	if err := takePermit(ctx, permits); err != nil {
		return 0, nil, err
	}
	release = func() { <-permits }
	divisor, bytes := e.sliceDivisor()
	err = held.Take(ctx, bytes, 0)
	if err == nil {
		return divisor, release, nil
	}
	release()
	if !errors.Is(err, budget.ErrFull) {
		return 0, nil, err
	}
	if err := held.Take(ctx, leastSliceCost, sliceWait); errors.Is(err, budget.ErrFull) {
		return 0, nil, &wire.Error{Kind: wire.KindOverloaded, RetryAfterMs: nodeerror.RetryAfterMs,
			Message: "other readers of changes are slow and hold the memory of feeds; " +
				"continue from the last position"}
	} else if err != nil {
		return 0, nil, err
	}
	return store.MaxDivisor, release, takePermit(ctx, permits)
}

func takePermit(ctx context.Context, permits chan struct{}) error {
	select {
	case permits <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
