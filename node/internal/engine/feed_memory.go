package engine

import (
	"context"
	"errors"
	"time"

	"github.com/pentad-db/pentad/node/internal/budget"
	"github.com/pentad-db/pentad/node/store"
)

const (
	// sliceCost is what a whole slice may take: its payloads, columns and order, all twice
	// while they are sorted.
	sliceCost = 40 << 20
	// leastSliceCost is what the smallest slice takes that a feed asks for.
	leastSliceCost = sliceCost / leastShare
	leastShare     = 64
	// A slice takes a quarter of what is free at most, so that others find some.
	partOfFree = 4
	// sliceWait is how long a feed waits for memory. Then it reads the smallest slice all the same:
	// in a cluster those that hold memory may wait for it.
	sliceWait = 2 * time.Second
)

// takeSlice returns a slice. Only whole ones keep their memory for the next reader.
func takeSlice(share int) *store.Slice {
	if share > 1 {
		return &store.Slice{Share: share}
	}
	s := slicePool.Get().(*store.Slice)
	s.Share = share
	return s
}

// returnSlice ends the use of a slice.
func returnSlice(s *store.Slice) {
	if s.Share <= 1 {
		slicePool.Put(s)
	}
}

// takeSliceMemory takes memory for a slice, and says how small that must be. Readers that take
// nothing hold theirs for a minute.
//
// Returns: the share of the slice, and how many bytes are held for it.
func (e *Engine) takeSliceMemory(
	ctx context.Context, held *budget.Share,
) (share int, took int64, err error) {
	may := max((e.Limits.FeedBytes-e.sliceMemory.Used())/partOfFree, leastSliceCost)
	share = int(max(1, (sliceCost+may-1)/may))
	took = sliceCost / int64(share)
	err = held.Take(ctx, took, sliceWait)
	if errors.Is(err, budget.ErrFull) {
		return leastShare, 0, nil
	}
	return share, took, err
}

// keepSliceMemory releases what a slice that was read did not need of what it took.
func keepSliceMemory(held *budget.Share, took int64, s *store.Slice) {
	held.Whole()
	if unused := took - s.MemoryBytes(); unused > 0 {
		held.Release(unused)
	}
}
