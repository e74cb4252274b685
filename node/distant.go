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

	after  []int64     // by group: acqs below which all must be there
	tried  []*peer     // did not answer
	handed atomic.Bool // something was handed over, so that nobody else may be asked instead
}

func (r *distant) String() string {
	return fmt.Sprintf("node %s, groups %v", r.peer.name, r.groups)
}

func (r *distant) client() *client.Client {
	c := r.peer.client.OfGroups(r.groups)
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

// failed gives errors of the network the kind of a node that cannot be reached.
func (r *distant) failed(ctx context.Context, err error) error {
	var known *wire.Error
	if err == nil || ctx.Err() != nil || errors.As(err, &known) {
		return err
	}
	return &wire.Error{Kind: wire.KindUnavailable, Message: err.Error(), RetryAfterMs: retryAfterMs}
}

// rows implements source. Who orders all rows anyway needs them in order only to leave some out.
func (r *distant) rows(ctx context.Context, q *record.Query, add store.Sink) (wire.End, error) {
	ask := *q
	if ask.Limit == 0 {
		ask.Order = record.OrderNone
	}
	var stopped error
	end, err := r.client().Scan(ctx, &ask, func(b *record.Batch) error {
		r.handed.Store(true)
		stopped = add(b)
		return stopped
	})
	if stopped != nil {
		return end, stopped
	}
	return r.whole(ctx, end, err)
}

// count implements source.
func (r *distant) count(ctx context.Context, q *record.Query) (wire.End, error) {
	_, end, err := r.client().Count(ctx, q)
	return r.whole(ctx, end, err)
}
