package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/store/acqtime"
	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/manifest"
)

// ErrOtherSlots means that a group does not hold what a command is about, or not that alone: it was
// split, or is about to be.
var ErrOtherSlots = errors.New("the group was split, and holds other slots than the command is " +
	"for; refresh the routing table")

// Slots returns those that a replica holds, once it was split or split off; before, zero.
func (s *Store) Slots() slots.Range {
	if r := s.ownSlots.Load(); r != nil {
		return *r
	}
	return slots.Range{}
}

func (s *Store) recordSlots() {
	s.indexBase.Store(s.manifest.IndexBase)
	if r := s.manifest.Slots; r.To > 0 {
		s.ownSlots.Store(&r)
	}
}

// IndexBase returns what is to be added to the index of an entry of the group's log: a group that
// was split off goes on with the indexes of the one that it was part of.
func (s *Store) IndexBase() uint64 {
	return s.indexBase.Load() // and not under manifestMu, over whose syncs no one may wait here
}

// splittable reports whether a split can be of this replica. Where it comes twice, it is done.
func (s *Store) splittable(sp *commands.Split) bool {
	held := s.Slots()
	return held.To == 0 || held == sp.Whole()
}

// WillSplit reports whether a split that is applied next would do anything.
func (s *Store) WillSplit(sp *commands.Split) bool {
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	return s.manifest.Copy == nil && s.splittable(sp)
}

// applySplit leaves slots to another group. The caller is the committer.
func (s *Store) applySplit(from Command, sp *commands.Split, out *Outcome) error {
	switch {
	case s.manifest.Copy != nil: // only the committer changes it
		out.Err = ErrIsCopy
		return s.skipCommand(from)
	case s.Slots() == sp.Keep:
		return s.skipCommand(from)
	case !s.splittable(sp):
		out.Err = ErrOtherSlots
		return s.skipCommand(from)
	}
	acq := max(acqtime.Clamp(from.ClockNs), s.lastApplied().NextNs)
	out.AcqNs = acq
	at := acqtime.Applied{Index: from.Index, NextNs: acq + 1}
	if err := s.hideOtherSlots(sp.Keep, acq, at, manifest.Edit{}); err != nil {
		return err
	}
	_ = s.dropPurgedFromLog() // it is tried again; if the log has failed, the next command says so
	return nil
}

// Inherit makes the state of a group, as it was before a split, that of the child. Its log begins
// behind entry 1, which stands for all that was applied here.
func (s *Store) Inherit(ctx context.Context, sp *commands.Split) error {
	s.applying.Lock()
	defer s.applying.Unlock()
	var failed error
	err := s.onCommitter(ctx, func() {
		at := s.lastApplied()
		if at.Index == 0 || !s.splittable(sp) || s.manifest.Copy != nil {
			failed = fmt.Errorf("inherit slots %v of group %d: %w", sp.Leave, sp.Child,
				ErrOtherSlots)
			return
		}
		acq := at.NextNs
		at.NextNs++
		failed = s.hideOtherSlots(sp.Leave, acq, at,
			manifest.Edit{Store: sp.Group, IndexBase: at.Index - 1})
	})
	return errors.Join(err, failed)
}

// hideOtherSlots hides what a replica holds of other slots; it is removed from disk in the
// background. The caller is the committer.
func (s *Store) hideOtherSlots(
	to slots.Range, acq int64, at acqtime.Applied, e manifest.Edit,
) error {
	if err := s.syncApplied(); err != nil {
		return s.failApply(err)
	}
	e.Applied, e.Slots = &at, event.SlotsOf(to)
	e.Events = []event.Meta{event.MetaOf(&event.Event{AcqNs: acq, Kind: event.Split,
		KeptSlots: to})}
	s.manifestMu.Lock()
	err := s.manifest.Append(e)
	if err == nil {
		s.recordSlots()
		s.publishTombstones()
	}
	s.manifestMu.Unlock()
	if err != nil {
		return s.failApply(err)
	}
	s.setApplied(at)
	s.feeds.Changed()
	return nil
}
