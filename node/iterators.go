package node

import (
	"context"
	"iter"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// Records yields the records of a query one by one; payloads are valid until the next record. An
// error is the last thing yielded. Answers that may be incomplete, see [Node.AllowPartial], do not
// say what is missing: [Reader.Query] does.
func (r Reader) Records(ctx context.Context, q *record.Query) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		for b, err := range r.Batches(ctx, q) {
			if err != nil {
				yield(record.Record{}, err)
				return
			}
			for i := range b.Len() {
				if !yield(b.Record(i), nil) {
					return
				}
			}
		}
	}
}

// Batches is Records by batches; each is valid until the next.
func (r Reader) Batches(ctx context.Context, q *record.Query) iter.Seq2[*record.Batch, error] {
	return emitted(ctx, func(ctx context.Context, emit func(*record.Batch) error) error {
		_, err := r.Query(ctx, q, emit)
		return err
	})
}

// Records yields the records of a query one by one; payloads are valid until the next record. An
// error is the last thing yielded.
func (n *Node) Records(ctx context.Context, q *record.Query) iter.Seq2[record.Record, error] {
	return n.withoutOptions().Records(ctx, q)
}

// Batches is Records by batches of some thousand; each is valid until the next.
func (n *Node) Batches(ctx context.Context, q *record.Query) iter.Seq2[*record.Batch, error] {
	return n.withoutOptions().Batches(ctx, q)
}

// Follow yields what [Node.Changes] passes to emit, from an acq on and then what comes; each slice
// is valid until the next. An error, also that of ctx, is the last thing yielded. Who keeps
// ClosedNs with what was made of a slice goes on there after a crash.
func (n *Node) Follow(
	ctx context.Context, q *record.Query, fromNs int64,
) iter.Seq2[*store.Slice, error] {
	return emitted(ctx, func(ctx context.Context, emit func(*store.Slice) error) error {
		_, err := n.Changes(ctx, q, fromNs, true, emit)
		return err
	})
}

// emitted yields what a function emits, and the error that it returns. The function runs on a
// goroutine of its own, because it may emit from others than its caller's, which a loop could not
// leave in every way that Go has; it has returned when the loop ends.
func emitted[T any](
	ctx context.Context, run func(ctx context.Context, emit func(T) error) error,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		values, consumed := make(chan T), make(chan struct{})
		var failed error
		go func() {
			defer close(values)
			failed = run(ctx, func(value T) error {
				select {
				case values <- value:
				case <-ctx.Done():
					return ctx.Err()
				}
				select {
				case <-consumed:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
		}()
		defer func() {
			cancel()
			for range values { // until it has returned
			}
		}()
		for value := range values {
			if !yield(value, nil) {
				return
			}
			select {
			case consumed <- struct{}{}:
			case <-ctx.Done():
			}
		}
		if failed != nil {
			var none T
			yield(none, failed)
		}
	}
}
