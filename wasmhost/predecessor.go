package wasmhost

import "context"

// Link is a group and its predecessor: the group of the same series with the rows right before its
// own, e.g. that of the window before.
type Link struct{ Group, Predecessor uint32 }

// LinkPredecessors gives states of a module with plugin.FlagLinksPredecessors those of their
// predecessors, one link after another. The caller orders the links so that a predecessor has been
// linked itself. Only Finish and Close may follow.
//
// Errors: those of [Aggregate.Add].
func (a *Aggregate) LinkPredecessors(ctx context.Context, links []Link) error {
	if err := a.guest.enter(ctx); err != nil {
		return err
	}
	return a.guest.leave(a.linkPredecessors(ctx, links))
}

func (a *Aggregate) linkPredecessors(ctx context.Context, links []Link) error {
	s := &a.states
	link := a.guest.export(exportLinkPredecessor)
	for _, l := range links {
		if err := a.guest.pause(ctx); err != nil {
			return err
		}
		err := a.guest.checkZero(&link, budgetFor(a.guest, 2*s.size),
			uint64(s.at(int(l.Group))), uint64(s.at(int(l.Predecessor))))
		if err != nil {
			return err
		}
	}
	return nil
}
