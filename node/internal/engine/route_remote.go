package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/hedge"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/internal/spill"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Peer is another node.
type Peer struct {
	id     cluster.NodeID
	name   string
	client *client.Client

	failedNs   atomic.Int64 // time of the last failure
	unreached  atomic.Bool  // gossip does not reach it either
	hedgesLost atomic.Int32 // in a row

	latency [callKinds]hedge.Latency
}

// NewPeer returns a node that the client queries; the name is the one in errors.
func NewPeer(id cluster.NodeID, name string, c *client.Client) *Peer {
	return &Peer{id: id, name: name, client: c}
}

// SetUnreached says whether gossip does not reach the node.
func (p *Peer) SetUnreached(is bool) { p.unreached.Store(is) }

// HasFailed reports whether a query of the node failed, so that others are preferred for a while.
func (p *Peer) HasFailed() bool { return p.failedNs.Load() != 0 }

// remoteSource is a source that queries another node for some of its groups, with one request; the
// other node merges their answers.
type remoteSource struct {
	peer     *Peer
	groups   []cluster.GroupID // ascending
	slots    []slots.Range     // that each group owns
	required []slots.Range     // that each store must hold; zero for groups that were never split
	budget   int64             // bytes of memory that an answer may take

	linearizable bool      // linearizable reads
	after        []int64   // by group: acqs that its horizon must pass before a read
	tried        []*Peer   // that failed or were slow
	feedWaker    feedWaker // nil for none

	attempt    *hedge.Attempt // that must win before rows are delivered; nil: no hedged call
	began      time.Time      // of the request
	heard      atomic.Int64   // time from began to the last byte, in ns; 0: none yet
	delivering atomic.Bool    // rows are being delivered to the consumer
}

// noteHeard records that the other node has sent something.
func (r *remoteSource) noteHeard() { r.heard.Store(int64(time.Since(r.began))) }

func (r *remoteSource) String() string {
	return fmt.Sprintf("node %s, groups %v", r.peer.name, r.groups)
}

// add adds a group to the request.
func (r *remoteSource) add(group cluster.GroupID, route *groupRoute, afterNs int64) {
	r.groups, r.after = append(r.groups, group), append(r.after, afterNs)
	r.slots, r.required = append(r.slots, route.slots), append(r.required, route.required)
}

func (r *remoteSource) client() *client.Client {
	names := make([]string, len(r.groups))
	for i, g := range r.groups {
		if names[i] = strconv.Itoa(int(g)); r.required[i].To > 0 {
			names[i] += fmt.Sprintf(":%d-%d", r.required[i].From, r.required[i].To)
		}
	}
	c := r.peer.client.OfParts(names)
	if r.linearizable {
		c = c.Linearizable()
	}
	for _, ns := range r.after {
		if ns > 0 {
			return c.After(r.after...)
		}
	}
	return c
}

// complete returns the error of an answer, also one for an incomplete answer: only this node
// decides which sources may be omitted.
func (r *remoteSource) complete(ctx context.Context, end wire.End, err error) (wire.End, error) {
	if err == nil && !end.Complete {
		err = errors.New("its answer is not complete: " + end.Reason)
	}
	return end, r.wireError(ctx, err)
}

// wireError converts network errors, and the error of a group that is not there any more, to
// KindUnavailable: the client of this node cannot refresh the routing table.
func (r *remoteSource) wireError(ctx context.Context, err error) error {
	var known *wire.Error
	if err == nil || ctx.Err() != nil ||
		errors.As(err, &known) &&
			(known.Kind != wire.KindNotFound || known.Part != request.ParamGroups) {
		return err
	}
	text := err.Error()
	if operation := (*net.OpError)(nil); errors.As(err, &operation) && operation.Op == "dial" {
		text = "it is not reached from here: it is down, or this node is cut off; ask another " +
			"node (" + operation.Error() + ")"
	}
	return &wire.Error{Kind: wire.KindUnavailable, Message: text,
		RetryAfterMs: nodeerror.RetryAfterMs}
}

const (
	// bufferedRows is the largest limit of a query whose rows are all buffered.
	bufferedRows = 1 << 16
	// bufferedBytes bounds the buffer of other queries without order; most answers fit.
	bufferedBytes = 1 << 20
	// bufferedRowBytes is the size of a buffered row without its payload.
	bufferedRowBytes = 64
)

// rows implements source.
//
// Rows are buffered until the answer is complete, so that another node can be queried when this one
// fails or falls silent in the middle of it. Large answers without order are buffered only up to
// bufferedBytes. When the limit of the query is reached earlier, the answer is still read to its
// end, which contains the horizon, and is near, as the request has the same limit.
func (r *remoteSource) rows(
	ctx context.Context, q *prepared, add store.Sink, sorter *spill.Sorter,
) (wire.End, error) {
	if sorter != nil {
		return r.sortedRows(ctx, q.Query, sorter)
	}
	hold, limit := true, r.budget
	if q.Limit == 0 || q.Limit > bufferedRows {
		limit = min(limit, bufferedBytes)
	}
	var held []*record.Batch
	var bytes int64
	var stopped error
	end, err := r.client().Scan(ctx, q.Query, func(b *record.Batch) error {
		r.noteHeard()
		switch {
		case errors.Is(stopped, ErrLimitReached):
			return nil
		case !hold:
			stopped = r.deliver(func() error { return add(b) })
		default:
			own := new(record.Batch)
			own.AppendRows(b, 0, b.Len())
			held = append(held, own)
			if bytes += int64(len(b.Data)) + bufferedRowBytes*int64(b.Len()); bytes <= limit {
				return nil
			}
			hold, stopped = false, r.deliverAll(held, add)
			held = nil
		}
		if errors.Is(stopped, ErrLimitReached) {
			return nil
		}
		return stopped
	})
	if stopped != nil {
		return end, stopped
	}
	if end, err = r.complete(ctx, end, err); err != nil || len(held) == 0 {
		return end, err
	}
	return end, r.deliverAll(held, add)
}

// sortedRows is rows for a query with an order: rows are sorted on arrival and delivered when all
// are there. The other node sorts only if the query has a limit.
func (r *remoteSource) sortedRows(
	ctx context.Context, q *record.Query, into *spill.Sorter,
) (wire.End, error) {
	ask := *q
	if ask.Limit == 0 {
		ask.Order = record.OrderNone
	}
	own := into.Another()
	defer own.Close()
	var stopped error
	end, err := r.client().Scan(ctx, &ask, func(b *record.Batch) error {
		r.noteHeard()
		stopped = fromConsumer(own.Add(ctx, b))
		return stopped
	})
	if stopped != nil {
		return end, stopped
	}
	if end, err = r.complete(ctx, end, err); err != nil {
		return end, err
	}
	return end, r.deliver(func() error { return fromConsumer(into.Take(ctx, own)) })
}

// deliverAll delivers buffered rows.
func (r *remoteSource) deliverAll(held []*record.Batch, add store.Sink) error {
	return r.deliver(func() error {
		for _, b := range held {
			if err := add(b); err != nil {
				return err
			}
		}
		return nil
	})
}

// deliver calls do, which delivers rows, unless another attempt has won.
func (r *remoteSource) deliver(do func() error) error {
	if !r.attempt.Claim() {
		return hedge.ErrOvertaken
	}
	r.delivering.Store(true)
	defer func() {
		r.noteHeard()
		r.delivering.Store(false)
	}()
	return do()
}

// count implements source.
func (r *remoteSource) count(ctx context.Context, q *prepared) (wire.End, error) {
	_, end, err := r.client().Count(ctx, q.Query)
	return r.complete(ctx, end, err)
}
