package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/internal/spill"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// peer is another node.
type peer struct {
	id     cluster.NodeID
	name   string
	client *client.Client

	failedNs  atomic.Int64 // when it did not answer last
	unreached atomic.Bool  // nor does it answer gossip
	lost      atomic.Int32 // questions that it left to others since its last answer

	usual [questions]usual
}

// distant is another node as it answers from some of its groups. All of them are asked with one
// request, and what they answer comes merged.
type distant struct {
	peer   *peer
	groups []int         // ascending
	spans  []slots.Range // that they own
	held   []slots.Range // that their stores must hold; zero of those that were never split
	budget int64         // bytes of memory that an answer may take

	linear bool    // all must be there that any node had acknowledged
	after  []int64 // by group: acqs below which all must be there
	tried  []*peer // were asked before
	teller teller  // nil: there is no way but its answers

	runner *runner      // by which it may hand something on; nil: it always may
	began  time.Time    // when the other node was asked
	heard  atomic.Int64 // how long after that it last said something, in ns; 0: not yet
	busy   atomic.Bool  // what it said is being handed on
}

// hear notes that the other node has said something.
func (r *distant) hear() { r.heard.Store(int64(time.Since(r.began))) }

func (r *distant) String() string {
	numbers := make([]int, len(r.groups))
	for i, g := range r.groups {
		numbers[i] = numberOf(g)
	}
	return fmt.Sprintf("node %s, groups %v", r.peer.name, numbers)
}

// add adds a group that is asked with the others.
func (r *distant) add(group int, p *place, afterNs int64) {
	r.groups, r.after = append(r.groups, group), append(r.after, afterNs)
	r.spans, r.held = append(r.spans, p.span), append(r.held, p.held)
}

func (r *distant) client() *client.Client {
	names := make([]string, len(r.groups))
	for i, g := range r.groups {
		if names[i] = strconv.Itoa(g); r.held[i].To > 0 {
			names[i] += fmt.Sprintf(":%d-%d", r.held[i].From, r.held[i].To)
		}
	}
	c := r.peer.client.OfParts(names)
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
	text := err.Error()
	if operation := (*net.OpError)(nil); errors.As(err, &operation) && operation.Op == "dial" {
		text = "it is not reached from here: it is down, or this node is cut off; ask another " +
			"node (" + operation.Error() + ")"
	}
	return &wire.Error{Kind: wire.KindUnavailable, Message: text, RetryAfterMs: retryAfterMs}
}

const (
	// heldRows is how many rows a limit may ask for to be held until the answer has come whole.
	heldRows = 1 << 16
	// heldBytes is what is held of other rows without order, so that most answers are held whole.
	heldBytes = 1 << 20
	// rowBytes is what a row that is held takes besides its payload.
	rowBytes = 64
)

// rows implements source.
//
// Rows are held until all have come, so that another node can be asked when this one fails or falls
// silent in the midst of its answer; those without order, and not few, only until there are many.
// Others may have enough before the end of an answer; then it is read to its end, which has the
// horizon, and is near as it is limited, too.
func (r *distant) rows(
	ctx context.Context, q *record.Query, add store.Sink, sorter *spill.Sorter,
) (wire.End, error) {
	if sorter != nil {
		return r.sortedRows(ctx, q, sorter)
	}
	hold, room := true, r.budget
	if q.Limit == 0 || q.Limit > heldRows {
		room = min(room, heldBytes)
	}
	var held []*record.Batch
	var bytes int64
	var stopped error
	end, err := r.client().Scan(ctx, q, func(b *record.Batch) error {
		r.hear()
		switch {
		case errors.Is(stopped, errEnough):
			return nil
		case !hold:
			stopped = r.handOn(func() error { return add(b) })
		default:
			own := new(record.Batch)
			own.AppendRows(b, 0, b.Len())
			held = append(held, own)
			if bytes += int64(len(b.Data)) + rowBytes*int64(b.Len()); bytes <= room {
				return nil
			}
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
	if end, err = r.whole(ctx, end, err); err != nil || len(held) == 0 {
		return end, err
	}
	return end, r.handOver(held, add)
}

// sortedRows is rows with an order: they are sorted as they come, and handed on when all have come.
// The other node is asked for an order only where it leaves some out by it.
func (r *distant) sortedRows(
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
		r.hear()
		stopped = refused(own.Add(ctx, b))
		return stopped
	})
	if stopped != nil {
		return end, stopped
	}
	if end, err = r.whole(ctx, end, err); err != nil {
		return end, err
	}
	return end, r.handOn(func() error { return refused(into.Take(ctx, own)) })
}

// handOver hands on what was held.
func (r *distant) handOver(held []*record.Batch, add store.Sink) error {
	return r.handOn(func() error {
		for _, b := range held {
			if err := add(b); err != nil {
				return err
			}
		}
		return nil
	})
}

// handOn does something with a piece of the answer, unless another node is faster.
func (r *distant) handOn(do func() error) error {
	if !r.runner.claim() {
		return errLost
	}
	r.busy.Store(true)
	defer func() {
		r.hear()
		r.busy.Store(false)
	}()
	return do()
}

// count implements source.
func (r *distant) count(ctx context.Context, q *record.Query) (wire.End, error) {
	_, end, err := r.client().Count(ctx, q)
	return r.whole(ctx, end, err)
}
