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
	// errLost ends who is asked for what another node has answered.
	errLost = errors.New("another node has answered before")
	// errGone ends who is silent, and not only to those who ask.
	errGone = fmt.Errorf("it says nothing, and gossip gets no answer from it either: it is down, "+
		"or this node is cut off; ask another node: %w", member.ErrUnavailable)
)

// race is between nodes that are asked for the same part of an answer. The winner is who has all of
// it first, or is the first to hand a piece of it on; from then on the others are told to end.
type race struct {
	began time.Time

	mu      sync.Mutex
	runners []*runner // guarded by mu
	winner  *runner   // guarded by mu
}

// runner is one side of a race: one node, or several that have the part together.
type runner struct {
	race   *race
	outer  *runner // which it is a part of, in a race around this; nil without one
	cancel context.CancelCauseFunc
	took   time.Duration // until it had won; guarded by the race's mu
}

// enter lets one more take part. Its context ends when another one has won.
func (r *race) enter(ctx context.Context, outer *runner) (context.Context, *runner) {
	ctx, cancel := context.WithCancelCause(ctx)
	x := &runner{race: r, outer: outer, cancel: cancel}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runners = append(r.runners, x)
	if r.winner != nil {
		cancel(errLost)
	}
	return ctx, x
}

// end cancels all that is still under way.
func (r *race) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.runners {
		x.cancel(nil)
	}
}

// decided reports whether somebody has won.
func (r *race) decided() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.winner != nil
}

// finish makes x the winner if there is none yet, and reports whether it is.
func (x *runner) finish() bool {
	r := x.race
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.winner == nil {
		r.winner, x.took = x, time.Since(r.began)
		for _, other := range r.runners {
			if other != x {
				other.cancel(errLost)
			}
		}
	}
	return r.winner == x
}

// claim reports whether a piece of an answer may be handed on, as nobody else can do so any more:
// neither here nor in the races around.
func (x *runner) claim() bool {
	return x == nil || x.outer.claim() && x.finish()
}

// won reports whether x is the winner.
func (x *runner) won() bool {
	x.race.mu.Lock()
	defer x.race.mu.Unlock()
	return x.race.winner == x
}

// contest is a question of another node, and of those that hold the same, when it fails or says
// nothing.
type contest[T any] struct {
	*asking[T]
	node *Node
	each func(ctx context.Context, s source) (T, wire.End, error)
	race race
	wg   sync.WaitGroup

	first    *distant
	runner   *runner // of the first
	second   *runner // of others; nil until they are asked
	hedged   bool    // they are, because the first is silent
	outcomes chan outcome[T]
}

type outcome[T any] struct {
	of  *runner
	out []said[T]
	err error // of the first in out that has one
}

// far asks another node. When that cannot be asked, or says nothing for longer than is usual, it
// asks others that hold the same: whose answer is whole first is taken, and never a part of one and
// a part of another. Once a piece was handed on, the rest has to come from there, too, as is said
// beside errors.
func (a *asking[T]) far(
	ctx context.Context, n *Node, d *distant,
	each func(ctx context.Context, s source) (T, wire.End, error),
) (out []said[T], handed bool) {
	c := contest[T]{asking: a, node: n, each: each, first: d,
		race: race{began: time.Now()}, outcomes: make(chan outcome[T], 2)}
	defer c.wg.Wait()
	defer c.race.end()
	n.hedges.earn()
	usual := &d.peer.usual[a.kind]
	soon, late := n.hedges.patience(usual)
	one, runner := c.race.enter(ctx, d.runner)
	c.runner, d.runner, d.began = runner, runner, c.race.began
	c.run(runner, func() []said[T] {
		x := said[T]{of: d}
		x.answer, x.end, x.err = c.one(one, d, each)
		if x.err != nil && ctx.Err() == nil && errors.Is(context.Cause(one), errGone) {
			x.err = &SourceError{Source: fmt.Sprint(d), Err: errGone}
		}
		return []said[T]{x}
	})
	timer := time.NewTimer(soon)
	defer timer.Stop()
	var ones, others outcome[T] // that failed
	for {
		select {
		case o := <-c.outcomes:
			if c.note(ctx, o); o.of.won() {
				return o.out, o.err != nil
			}
			if o.of == runner {
				ones = o
			} else {
				others = o
			}
		case <-timer.C:
			timer.Reset(c.look(ctx, late))
		}
		if out, over := c.over(ones, others); over {
			return out, c.race.decided()
		}
	}
}

// run asks one side.
func (c *contest[T]) run(x *runner, ask func() []said[T]) {
	c.wg.Go(func() {
		o := outcome[T]{of: x, out: ask()}
		for _, s := range o.out {
			o.err = cmp.Or(o.err, s.err)
		}
		if o.err == nil {
			x.finish()
		}
		c.outcomes <- o
	})
}

// over returns the errors that are answered when nobody can win any more: those of the others where
// the first could not be asked. What is wrong with a question would be wrong anywhere.
func (c *contest[T]) over(first, second outcome[T]) (out []said[T], over bool) {
	switch {
	case c.race.decided():
		return nil, false // the winner is about to say so
	case second.err != nil && !ofSource(second.err):
		return second.out, true
	case first.err == nil:
		return nil, false
	case c.second == nil || !ofSource(first.err):
		return first.out, true
	case away(first.err):
		return second.out, second.err != nil
	}
	return first.out, second.err != nil
}

// others asks those that hold the same.
func (c *contest[T]) others(ctx context.Context, sources []*distant) {
	ctx, c.second = c.race.enter(ctx, c.runner.outer)
	for _, d := range sources {
		d.runner = c.second
	}
	c.run(c.second, func() []said[T] { return c.allFar(ctx, c.node, sources, c.each) })
}

// allFar asks several other nodes.
func (a *asking[T]) allFar(
	ctx context.Context, n *Node, sources []*distant,
	each func(ctx context.Context, s source) (T, wire.End, error),
) []said[T] {
	all := make([][]said[T], len(sources))
	var wg sync.WaitGroup
	for i, d := range sources {
		wg.Go(func() { all[i], _ = a.far(ctx, n, d, each) })
	}
	wg.Wait()
	return slices.Concat(all...)
}

// look is called when the first should have said something, and returns when to look again.
func (c *contest[T]) look(ctx context.Context, late time.Duration) time.Duration {
	h, peer := &c.node.hedges, c.first.peer
	heard := time.Duration(c.first.heard.Load())
	quiet := time.Since(c.first.began) - heard
	again := max(h.silence/2, time.Millisecond)
	if c.first.busy.Load() {
		return again
	}
	if peer.unreached.Load() && quiet >= h.goneAfter {
		c.runner.cancel(errGone)
		return again
	}
	if c.second != nil || c.kind == askChange || c.race.decided() {
		return again
	}
	sources := c.node.instead(c.first)
	switch {
	case sources == nil:
	case quiet < late && (heard > 0 || !h.take()):
		return late - quiet
	default:
		c.hedged = true
		h.asked.Add(1)
		c.others(ctx, sources)
	}
	return again
}

// note learns from what one side came to, and asks others where that means that the first cannot be
// asked. A node that loses again and again is taken for one that does not answer.
func (c *contest[T]) note(ctx context.Context, o outcome[T]) {
	p := c.first.peer
	switch {
	case o.of == c.runner && o.err == nil && o.of.won():
		p.usual[c.kind].add(o.of.took)
		p.lost.Store(0)
	case o.of == c.runner && o.err != nil && ctx.Err() == nil &&
		(away(o.err) || isDamage(o.err)):
		if !isSplit(o.err) && !isDamage(o.err) { // of one replica of many
			p.failedNs.Store(time.Now().UnixNano())
		}
		if c.second == nil && !c.race.decided() {
			if sources := c.node.instead(c.first); sources != nil {
				c.others(ctx, sources)
			}
		}
	case o.of == c.second && o.err == nil && c.hedged && o.of.won():
		c.node.hedges.won.Add(1)
		p.usual[c.kind].add(time.Since(c.race.began))
		if p.lost.Add(1) >= lostInTurn {
			p.failedNs.Store(time.Now().UnixNano())
		}
	}
}
