package node

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// peer is another node.
type peer struct {
	name   string
	client *client.Client

	failedNs atomic.Int64 // when it did not answer last
}

// distant is another node as it answers from some of its groups. All of them are asked with one
// request, and what they answer comes merged.
type distant struct {
	peer   *peer
	groups []int // ascending
	budget int64 // bytes of memory that an answer may take

	linear bool        // all must be there that any node had acknowledged
	after  []int64     // by group: acqs below which all must be there
	tried  []*peer     // did not answer
	handed atomic.Bool // something was handed over, so that nobody else may be asked instead
}

func (r *distant) String() string {
	return fmt.Sprintf("node %s, groups %v", r.peer.name, r.groups)
}

func (r *distant) client() *client.Client {
	c := r.peer.client.OfGroups(r.groups)
	if r.linear {
		c = c.Linearizable()
	}
	for _, ns := range r.after {
		if ns > 0 {
			return c.After(r.after...)
		}
	}
	return c
}

// whole returns the error of an answer, and one where an answer is not complete: what is left out
// is for this node to say.
func (r *distant) whole(ctx context.Context, end wire.End, err error) (wire.End, error) {
	if err == nil && !end.Complete {
		err = errors.New("its answer is not complete: " + end.Reason)
	}
	return end, r.failed(ctx, err)
}

// failed gives errors of the network the kind of a node that cannot be reached, and that of a group
// which is not there: it was, and whoever asked this node has no use for its places.
func (r *distant) failed(ctx context.Context, err error) error {
	var known *wire.Error
	if err == nil || ctx.Err() != nil ||
		errors.As(err, &known) && (known.Kind != wire.KindNotFound || known.Part != paramGroups) {
		return err
	}
	return &wire.Error{Kind: wire.KindUnavailable, Message: err.Error(), RetryAfterMs: retryAfterMs}
}

// heldRows is how many rows a limit may ask for to be held until the answer has come whole.
const heldRows = 1 << 16

// rows implements source. Who orders all rows anyway needs them in order only to leave some out.
//
// Rows that are ordered or few are held until all have come, so that another node can be asked
// when this one fails in the midst of its answer. Others may have enough before the end of an
// answer; then it is read to its end, which has the horizon, and is near as it is limited, too.
func (r *distant) rows(ctx context.Context, q *record.Query, add store.Sink) (wire.End, error) {
	ask := *q
	if ask.Limit == 0 {
		ask.Order = record.OrderNone
	}
	hold := q.Order != record.OrderNone || q.Limit > 0 && q.Limit <= heldRows
	var held []*record.Batch
	var bytes int64
	var stopped error
	end, err := r.client().Scan(ctx, &ask, func(b *record.Batch) error {
		switch {
		case errors.Is(stopped, errEnough):
			return nil
		case !hold:
			r.handed.Store(true)
			if stopped = add(b); errors.Is(stopped, errEnough) {
				return nil
			}
			return stopped
		}
		own := new(record.Batch)
		own.AppendRows(b, 0, b.Len())
		held = append(held, own)
		if bytes += int64(len(b.Data)) + rowBytes*int64(b.Len()); bytes <= r.budget {
			return nil
		}
		if stopped = errTooLarge; q.Order == record.OrderNone { // they need not be held
			hold, stopped = false, r.handOver(held, add)
			held = nil
		}
		if errors.Is(stopped, errEnough) {
			return nil
		}
		return stopped
	})
	if stopped != nil {
		return end, stopped
	}
	if end, err = r.whole(ctx, end, err); err != nil {
		return end, err
	}
	return end, r.handOver(held, add)
}

// handOver hands on what was held.
func (r *distant) handOver(held []*record.Batch, add store.Sink) error {
	r.handed.Store(true)
	for _, b := range held {
		if err := add(b); err != nil {
			return err
		}
	}
	return nil
}

// count implements source.
func (r *distant) count(ctx context.Context, q *record.Query) (wire.End, error) {
	_, end, err := r.client().Count(ctx, q)
	return r.whole(ctx, end, err)
}
