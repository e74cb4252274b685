package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/sdk/wire"
)

var (
	// errOvertaken cancels an attempt after another one has won.
	errOvertaken = errors.New("another node has answered before")
	// errPeerDown cancels an attempt at a node that neither queries nor gossip reach.
	errPeerDown = fmt.Errorf("neither queries nor gossip get an answer from it: it is down, or "+
		"this node is cut off; ask another node: %w", member.ErrUnavailable)
)

// hedgedCall is a set of attempts to get the same answer from different nodes. The attempt that has
// the whole answer first, or that first delivers rows of it, wins; the others are canceled.
type hedgedCall struct {
	began time.Time

	mu       sync.Mutex
	attempts []*attempt // guarded by mu
	winner   *attempt   // guarded by mu
}

// attempt is one attempt of a hedged call: at one node, or at several that together hold the same
// groups.
type attempt struct {
	call   *hedgedCall
	outer  *attempt // of the hedged call that this one is nested in; nil without one
	cancel context.CancelCauseFunc
	took   time.Duration // until it won; guarded by the call's mu
}

// start adds an attempt. Its context ends when another one wins.
func (r *hedgedCall) start(ctx context.Context, outer *attempt) (context.Context, *attempt) {
	ctx, cancel := context.WithCancelCause(ctx)
	x := &attempt{call: r, outer: outer, cancel: cancel}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempts = append(r.attempts, x)
	if r.winner != nil {
		cancel(errOvertaken)
	}
	return ctx, x
}

// cancelAll cancels all attempts.
func (r *hedgedCall) cancelAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.attempts {
		x.cancel(nil)
	}
}

// decided reports whether an attempt has won.
func (r *hedgedCall) decided() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.winner != nil
}

// win makes x the winner if there is none yet, and reports whether it is.
func (x *attempt) win() bool {
	r := x.call
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.winner == nil {
		r.winner, x.took = x, time.Since(r.began)
		for _, other := range r.attempts {
			if other != x {
				other.cancel(errOvertaken)
			}
		}
	}
	return r.winner == x
}

// claim reports whether the attempt may deliver rows: it wins this call and those around it, so
// that no other attempt can.
func (x *attempt) claim() bool {
	return x == nil || x.outer.claim() && x.win()
}

// won reports whether x is the winner.
func (x *attempt) won() bool {
	x.call.mu.Lock()
	defer x.call.mu.Unlock()
	return x.call.winner == x
}

// hedgedRequest queries another node, and nodes that hold the same groups when it fails or is slow.
type hedgedRequest[T any] struct {
	*fanOut[T]
	node *Node
	ask  func(ctx context.Context, s source) (T, wire.End, error)
	call hedgedCall
	wg   sync.WaitGroup

	first        *remoteSource
	attempt      *attempt // of the first
	hedgeAttempt *attempt // at other nodes; nil before it begins
	hedged       bool     // other nodes are queried because the first is slow
	outcomes     chan attemptOutcome[T]
}

type attemptOutcome[T any] struct {
	of      *attempt
	answers []sourceAnswer[T]
	err     error // the first of answers
}

// askRemote queries another node. When that node is unavailable, or slower than the hedge delay, it
// queries others that hold the same groups, and takes the answer that is complete first. It never
// combines two of them: once rows of an answer were delivered, the rest must come from there, too,
// which delivered reports with an error.
func (a *fanOut[T]) askRemote(
	ctx context.Context, n *Node, d *remoteSource,
	each func(ctx context.Context, s source) (T, wire.End, error),
) (out []sourceAnswer[T], delivered bool) {
	c := hedgedRequest[T]{fanOut: a, node: n, ask: each, first: d,
		call: hedgedCall{began: time.Now()}, outcomes: make(chan attemptOutcome[T], 2)}
	defer c.wg.Wait()
	defer c.call.cancelAll()
	n.hedges.earn()
	soon, late := n.hedges.hedgeDelay(&d.peer.latency[a.kind])
	one, first := c.call.start(ctx, d.attempt)
	c.attempt, d.attempt, d.began = first, first, c.call.began
	c.run(first, func() []sourceAnswer[T] {
		x := sourceAnswer[T]{of: d}
		x.answer, x.end, x.err = c.askOne(one, d, each)
		if x.err != nil && ctx.Err() == nil && errors.Is(context.Cause(one), errPeerDown) {
			x.err = &SourceError{Source: fmt.Sprint(d), Err: errPeerDown}
		}
		return []sourceAnswer[T]{x}
	})
	timer := time.NewTimer(soon)
	defer timer.Stop()
	var firstFailed, hedgeFailed attemptOutcome[T]
	for {
		select {
		case o := <-c.outcomes:
			if c.record(ctx, o); o.of.won() {
				return o.answers, o.err != nil
			}
			if o.of == first {
				firstFailed = o
			} else {
				hedgeFailed = o
			}
		case <-timer.C:
			timer.Reset(c.checkSilence(ctx, late))
		}
		if out, over := c.failed(firstFailed, hedgeFailed); over {
			return out, c.call.decided()
		}
	}
}

// run runs one attempt.
func (c *hedgedRequest[T]) run(x *attempt, ask func() []sourceAnswer[T]) {
	c.wg.Go(func() {
		o := attemptOutcome[T]{of: x, answers: ask()}
		for _, s := range o.answers {
			o.err = cmp.Or(o.err, s.err)
		}
		if o.err == nil {
			x.win()
		}
		c.outcomes <- o
	})
}

// failed returns the answers with their errors when no attempt can win any more: those of the hedge
// if the first node was unavailable. An error in the query itself would be the same anywhere.
func (c *hedgedRequest[T]) failed(
	first, second attemptOutcome[T],
) (out []sourceAnswer[T], over bool) {
	switch {
	case c.call.decided():
		return nil, false // the outcome of the winner follows
	case second.err != nil && !isSourceFault(second.err):
		return second.answers, true
	case first.err == nil:
		return nil, false
	case c.hedgeAttempt == nil || !isSourceFault(first.err):
		return first.answers, true
	case sourceUnavailable(first.err):
		return second.answers, second.err != nil
	}
	return first.answers, second.err != nil
}

// hedge queries other nodes that hold the same groups.
func (c *hedgedRequest[T]) hedge(ctx context.Context, sources []*remoteSource) {
	ctx, c.hedgeAttempt = c.call.start(ctx, c.attempt.outer)
	for _, d := range sources {
		d.attempt = c.hedgeAttempt
	}
	c.run(c.hedgeAttempt, func() []sourceAnswer[T] {
		return c.askRemotes(ctx, c.node, sources, c.ask)
	})
}

// askRemotes queries several other nodes.
func (a *fanOut[T]) askRemotes(
	ctx context.Context, n *Node, sources []*remoteSource,
	each func(ctx context.Context, s source) (T, wire.End, error),
) []sourceAnswer[T] {
	all := make([][]sourceAnswer[T], len(sources))
	var wg sync.WaitGroup
	for i, d := range sources {
		wg.Go(func() { all[i], _ = a.askRemote(ctx, n, d, each) })
	}
	wg.Wait()
	return slices.Concat(all...)
}

// checkSilence is called when the first node should have answered something by now, and returns
// when to call it again. It begins the hedge when that is due.
func (c *hedgedRequest[T]) checkSilence(ctx context.Context, late time.Duration) time.Duration {
	h, peer := &c.node.hedges, c.first.peer
	heard := time.Duration(c.first.heard.Load())
	quiet := time.Since(c.first.began) - heard
	again := max(h.silence/2, time.Millisecond)
	if c.first.delivering.Load() {
		return again
	}
	if peer.unreached.Load() && quiet >= h.goneAfter {
		c.attempt.cancel(errPeerDown)
		return again
	}
	if c.hedgeAttempt != nil || c.kind == askChange || c.call.decided() {
		return again
	}
	sources := c.node.alternatives(c.first)
	switch {
	case sources == nil:
	case quiet < late && (heard > 0 || !h.take()):
		return late - quiet
	default:
		c.hedged = true
		h.asked.Add(1)
		c.hedge(ctx, sources)
	}
	return again
}

// record updates the latency and health of the first node by an outcome, and queries other nodes
// when the first is unavailable. A node that loses maxHedgesLost hedges in a row counts as
// unavailable.
func (c *hedgedRequest[T]) record(ctx context.Context, o attemptOutcome[T]) {
	p := c.first.peer
	switch {
	case o.of == c.attempt && o.err == nil && o.of.won():
		p.latency[c.kind].add(o.of.took)
		p.hedgesLost.Store(0)
	case o.of == c.attempt && o.err != nil && ctx.Err() == nil &&
		(sourceUnavailable(o.err) || isDamage(o.err)):
		if !isSplit(o.err) && !isDamage(o.err) { // of one replica of many
			p.failedNs.Store(time.Now().UnixNano())
		}
		if c.hedgeAttempt == nil && !c.call.decided() {
			if sources := c.node.alternatives(c.first); sources != nil {
				c.hedge(ctx, sources)
			}
		}
	case o.of == c.hedgeAttempt && o.err == nil && c.hedged && o.of.won():
		c.node.hedges.won.Add(1)
		p.latency[c.kind].add(time.Since(c.call.began))
		if p.hedgesLost.Add(1) >= maxHedgesLost {
			p.failedNs.Store(time.Now().UnixNano())
		}
	}
}
