package wasmhost

import "context"

// Predecessor is a group and its predecessor: the group with the rows right before its own, e.g. of
// the window before.
type Predecessor struct{ Group, Before uint32 }

// LinkPredecessors passes to states of a module with plugin.FlagLinks the states of their
// predecessors, one pair after another. Pairs are ordered so that a predecessor has been linked
// itself. Only Finish and Close may follow.
//
// Errors: those of [Aggregate.Add].
func (a *Aggregate) LinkPredecessors(ctx context.Context, pairs []Predecessor) error {
	if err := a.guest.enter(ctx); err != nil {
		return err
	}
	return a.guest.leave(a.linkPredecessors(ctx, pairs))
}

func (a *Aggregate) linkPredecessors(ctx context.Context, pairs []Predecessor) error {
	s := &a.states
	join := a.guest.export(exportJoin)
	for _, p := range pairs {
		if err := a.guest.pause(ctx); err != nil {
			return err
		}
		err := a.guest.checkZero(&join, budgetFor(a.guest, 2*s.size),
			uint64(s.at(int(p.Group))), uint64(s.at(int(p.Before))))
		if err != nil {
			return err
		}
	}
	return nil
}
