package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/internal/hedge"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/sdk/wire"
)

// errPeerDown cancels an attempt at a node that neither queries nor gossip reach.
var errPeerDown = fmt.Errorf("neither queries nor gossip get an answer from it: it is down, or "+
	"this node is cut off; ask another node: %w", member.ErrUnavailable)

// maxHedgesLost is how many hedges in a row a node loses before it counts as unavailable for a
// while.
const maxHedgesLost = 3

// callKind is a kind of call to another node; latency is recorded for each.
type callKind int

const (
	askRows callKind = iota
	askCount
	askStates
	askDiff
	askVersions
	askDigest
	askPlan
	askFacts // answered without reading records: horizons, events
	callKinds
)

// hedgedRequest queries another node, and nodes that hold the same groups when it fails or is slow.
type hedgedRequest[T any] struct {
	*fanOut[T]
	engine *Engine
	ask    func(ctx context.Context, s source) (T, wire.End, error)
	call   hedge.Call
	wg     sync.WaitGroup

	first        *remoteSource
	attempt      *hedge.Attempt // of the first
	hedgeAttempt *hedge.Attempt // at other nodes; nil before it begins
	hedged       bool           // other nodes are queried because the first is slow
	outcomes     chan attemptOutcome[T]
}

type attemptOutcome[T any] struct {
	of      *hedge.Attempt
	answers []sourceAnswer[T]
	err     error // the first of answers
}

// askRemote queries another node. When that node is unavailable, or slower than the hedge delay, it
// queries others that hold the same groups, and takes the answer that is complete first. It never
// combines two of them: once rows of an answer were delivered, the rest must come from there, too,
// which delivered reports with an error.
func (a *fanOut[T]) askRemote(
	ctx context.Context, e *Engine, d *remoteSource,
	each func(ctx context.Context, s source) (T, wire.End, error),
) (out []sourceAnswer[T], delivered bool) {
	c := hedgedRequest[T]{fanOut: a, engine: e, ask: each, first: d,
		call: hedge.Call{Began: time.Now()}, outcomes: make(chan attemptOutcome[T], 2)}
	defer c.wg.Wait()
	defer c.call.CancelAll()
	e.hedges.Earn()
	hedgeAfter, lateHedgeAfter := e.hedges.Delay(&d.peer.latency[a.kind])
	one, first := c.call.Start(ctx, d.attempt)
	c.attempt, d.attempt, d.began = first, first, c.call.Began
	c.run(first, func() []sourceAnswer[T] {
		x := sourceAnswer[T]{of: d}
		x.answer, x.end, x.err = c.askOne(one, d, each)
		if x.err != nil && ctx.Err() == nil && errors.Is(context.Cause(one), errPeerDown) {
			x.err = &nodeerror.SourceError{Source: fmt.Sprint(d), Err: errPeerDown}
		}
		return []sourceAnswer[T]{x}
	})
	timer := time.NewTimer(hedgeAfter)
	defer timer.Stop()
	var firstFailed, hedgeFailed attemptOutcome[T]
	for {
		select {
		case o := <-c.outcomes:
			if c.record(ctx, o); o.of.Won() {
				return o.answers, o.err != nil
			}
			if o.of == first {
				firstFailed = o
			} else {
				hedgeFailed = o
			}
		case <-timer.C:
			timer.Reset(c.checkDelay(ctx, lateHedgeAfter))
		}
		if out, over := c.failed(firstFailed, hedgeFailed); over {
			return out, c.call.HasWinner()
		}
	}
}

// run runs one attempt.
func (c *hedgedRequest[T]) run(x *hedge.Attempt, ask func() []sourceAnswer[T]) {
	c.wg.Go(func() {
		o := attemptOutcome[T]{of: x, answers: ask()}
		for _, s := range o.answers {
			o.err = cmp.Or(o.err, s.err)
		}
		if o.err == nil {
			x.Win()
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
	case c.call.HasWinner():
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
	ctx, c.hedgeAttempt = c.call.Start(ctx, c.attempt.Outer)
	for _, d := range sources {
		d.attempt = c.hedgeAttempt
	}
	c.run(c.hedgeAttempt, func() []sourceAnswer[T] {
		return c.askRemotes(ctx, c.engine, sources, c.ask)
	})
}

// askRemotes queries several other nodes.
func (a *fanOut[T]) askRemotes(
	ctx context.Context, e *Engine, sources []*remoteSource,
	each func(ctx context.Context, s source) (T, wire.End, error),
) []sourceAnswer[T] {
	all := make([][]sourceAnswer[T], len(sources))
	var wg sync.WaitGroup
	for i, d := range sources {
		wg.Go(func() { all[i], _ = a.askRemote(ctx, e, d, each) })
	}
	wg.Wait()
	return slices.Concat(all...)
}

// checkDelay is called when the first node should have answered something by now, and returns
// when to call it again. It begins the hedge when that is due.
func (c *hedgedRequest[T]) checkDelay(
	ctx context.Context, lateHedgeAfter time.Duration,
) time.Duration {
	h, peer := c.engine.hedges, c.first.peer
	heard := time.Duration(c.first.heard.Load())
	quiet := time.Since(c.first.began) - heard
	again := max(h.MaxDelay/2, time.Millisecond)
	if c.first.delivering.Load() {
		return again
	}
	if peer.unreached.Load() && quiet >= h.GoneAfter {
		c.attempt.Cancel(errPeerDown)
		return again
	}
	if c.hedgeAttempt != nil || c.call.HasWinner() {
		return again
	}
	sources := c.engine.alternatives(c.first)
	switch {
	case sources == nil:
	case quiet < lateHedgeAfter && (heard > 0 || !h.Take()):
		return lateHedgeAfter - quiet
	default:
		c.hedged = true
		h.Sent.Add(1)
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
	case o.of == c.attempt && o.err == nil && o.of.Won():
		p.latency[c.kind].Add(o.of.Took())
		p.hedgesLost.Store(0)
	case o.of == c.attempt && o.err != nil && ctx.Err() == nil &&
		(sourceUnavailable(o.err) || isDamage(o.err)):
		if !isSplit(o.err) && !isDamage(o.err) { // of one replica of many
			p.failedNs.Store(time.Now().UnixNano())
		}
		if c.hedgeAttempt == nil && !c.call.HasWinner() {
			if sources := c.engine.alternatives(c.first); sources != nil {
				c.hedge(ctx, sources)
			}
		}
	case o.of == c.hedgeAttempt && o.err == nil && c.hedged && o.of.Won():
		c.engine.hedges.Won.Add(1)
		p.latency[c.kind].Add(time.Since(c.call.Began))
		if p.hedgesLost.Add(1) >= maxHedgesLost {
			p.failedNs.Store(time.Now().UnixNano())
		}
	}
}
