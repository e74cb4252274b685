package engine

import (
	"cmp"
	"context"
	"sync"

	"github.com/pentad-db/pentad/node/internal/cpushare"
	"github.com/pentad-db/pentad/node/internal/puts"
	"github.com/pentad-db/pentad/node/internal/spill"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// orderedOutput applies the order and limit of the query to the rows of all workers.
type orderedOutput struct {
	q    *record.Query
	emit func(b *record.Batch) error
	// write takes frames, see [Admitted.Frames]; with an order or a limit, or if it is nil, emit is
	// used.
	write  func(frames []byte) error
	sorter *spill.Sorter // nil without an order

	mu   sync.Mutex // guards all below
	rows uint64
}

// add adds a batch of a worker.
func (o *orderedOutput) add(ctx context.Context, b *record.Batch) error {
	if o.sorter != nil {
		return o.sorter.Add(ctx, o.projected(b))
	}
	if o.write != nil && o.q.Limit == 0 {
		return o.addFrames(b)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.q.Limit > 0 && o.rows+uint64(b.Len()) > o.q.Limit {
		b = b.Head(int(o.q.Limit - o.rows))
	}
	if b.Len() > 0 {
		o.rows += uint64(b.Len())
		if err := o.emit(o.projected(b)); err != nil {
			return err
		}
	}
	if o.q.Limit > 0 && o.rows >= o.q.Limit {
		return ErrLimitReached
	}
	return nil
}

// addFrames is add without order and limit: workers encode frames concurrently.
func (o *orderedOutput) addFrames(b *record.Batch) error {
	frames, err := rowFrames(o.projected(b))
	if err != nil {
		return err
	}
	defer freeFrames(frames)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rows += uint64(b.Len())
	return o.write(*frames)
}

var frameBuffers = sync.Pool{New: func() any { return new([]byte) }}

// maxPooledBytes keeps buffers of large payloads out of the pool.
const maxPooledBytes = 4 << 20

// rowFrames encodes rows as frames.
//
// Ownership: the caller passes them to freeFrames.
func rowFrames(b *record.Batch) (*[]byte, error) {
	frames := frameBuffers.Get().(*[]byte)
	out := (*frames)[:0]
	for b.Len() > 0 {
		part := b.Head(min(b.Len(), wire.MaxRows))
		var err error
		if out, err = wire.AppendRows(out, part); err != nil {
			return nil, err
		}
		b = puts.Tail(b, part.Len())
	}
	*frames = out
	return frames, nil
}

func freeFrames(frames *[]byte) {
	if cap(*frames) <= maxPooledBytes {
		frameBuffers.Put(frames)
	}
}

// projected removes payloads, which a filter may have needed, if the query wants keys only.
func (o *orderedOutput) projected(b *record.Batch) *record.Batch {
	if !o.q.KeysOnly || len(b.Data) == 0 {
		return b
	}
	return &record.Batch{CID: b.CID, MID: b.MID, MOID: b.MOID, CapNs: b.CapNs, AcqNs: b.AcqNs,
		Tombs: b.Tombs}
}

// sorterOf returns a sorter for the order of a query, nil if it has none.
func (e *Engine) sorterOf(q *record.Query) *spill.Sorter {
	switch q.Order {
	case record.OrderNone:
		return nil
	case record.OrderAcq:
		return e.Limits.Spill.ByAcq(q.Limit)
	}
	return e.Limits.Spill.Sorter(record.Key.Compare, q.Limit)
}

// finish emits the sorted rows.
func (o *orderedOutput) finish(ctx context.Context) error {
	if o.sorter == nil {
		return nil
	}
	worker := cpushare.Of(ctx).Start()
	defer worker.Stop()
	return o.sorter.Each(ctx, func(b *record.Batch) error {
		o.rows += uint64(b.Len())
		return cmp.Or(o.emit(b), worker.Yield(ctx))
	})
}
