package replica

import (
	"fmt"
	"maps"
	"slices"
)

// stop ends the group for ever, and answers everybody.
func (g *group) stop(err error) {
	if g.err != nil {
		return
	}
	g.err = err
	g.uninstall()
	g.lose(err)
	g.publishStatus()
}

// lose answers everybody who waits.
func (g *group) lose(err error) {
	g.loseWaiters(err, func(*waiter) bool { return true })
	for _, number := range slices.Sorted(maps.Keys(g.reads)) {
		r := g.reads[number]
		delete(g.reads, number)
		r.done(0, fmt.Errorf("read index of %v: %w", groupName(g.id), err))
	}
}

// loseWaiters answers some, in the order in which they came, with ErrUnknown.
func (g *group) loseWaiters(err error, which func(*waiter) bool) {
	for _, number := range slices.Sorted(maps.Keys(g.waiters)) {
		if which(g.waiters[number]) {
			g.answer(number, nil, fmt.Errorf("propose to %v: %w: %w", groupName(g.id), ErrUnknown,
				err))
		}
	}
}

func (g *group) answer(number uint64, result any, err error) {
	w := g.waiters[number]
	if w == nil {
		return
	}
	delete(g.waiters, number)
	g.core.pending.Add(-w.bytes)
	w.done(result, err)
}
