package wasmhost

import "context"

// Neighbours are a group and the one whose rows lie right before its own.
type Neighbours struct{ Group, Before uint32 }

// Join tells states what lies before them, one pair after another, of a module with
// plugin.FlagJoins. A state that is named as the one before must have been told by then itself.
// Nothing but Finish and Close may follow.
//
// Errors: as of [Aggregate.Add].
func (a *Aggregate) Join(ctx context.Context, pairs []Neighbours) error {
	if err := a.guest.enter(ctx); err != nil {
		return err
	}
	return a.guest.leave(a.joinPairs(ctx, pairs))
}

func (a *Aggregate) joinPairs(ctx context.Context, pairs []Neighbours) error {
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
