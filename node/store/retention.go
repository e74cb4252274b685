package store

import (
	"cmp"
	"context"
	"time"

	"github.com/pentad-db/pentad/node/internal/clock"
	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/retention"
)

// Retention lists the policies, by tenant and quantity.
func (s *Store) Retention() []retention.Rule {
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	var all []retention.Rule
	for i := range s.manifest.Policies {
		if p := &s.manifest.Policies[i]; !p.Removed() {
			r := p.Rule()
			r.Held = r.Held || s.manifest.Steps.Held
			all = append(all, r)
		}
	}
	return all
}

// SetRetention sets the policy for a tenant and quantity, in place of the one that there was. Rows
// that are too old are hidden from every view on return, and more of them step by step from then
// on; the merger removes them once the delay is over. Until then a policy that is made longer, or
// removed, shows again what it does not hide any more; what is removable stays
// away. A policy without ages is removed. While the time is uncertain, or the policy is held,
// nothing is hidden.
//
// Errors: ErrReplicated; *record.InvalidError; retention.ErrNoPolicy when there is none to remove;
// ErrTooManyEvents; ErrClosed; ErrFailed.
func (s *Store) SetRetention(ctx context.Context, r retention.Rule) error {
	if s.closed.Load() {
		return ErrClosed
	}
	if err := cmp.Or(s.refuseReplicated(), r.Validate()); err != nil {
		return err
	}
	timeNs := s.confirmedTime()
	return s.changeEvents(ctx, 1, func(acqNs int64) (manifest.Edit, error) {
		return s.manifest.RetentionEdit(&r, retention.StepTime{AcqNs: acqNs, TimeNs: timeNs})
	})
}

// confirmedTime is what time is certain by the store's own clock, 0 when that is uncertain.
func (s *Store) confirmedTime() int64 { return s.retentionClock.ConfirmedNs(s.wallClock.Read()) }

// advanceRetention makes the policies take a step when one is due. Those of a replica take theirs
// when its log says so.
func (s *Store) advanceRetention(ctx context.Context) error {
	if s.replicated {
		return nil
	}
	timeNs := s.confirmedTime()
	ranNs, due := s.stepDue(timeNs)
	if !due {
		return nil
	}
	return s.changeEvents(ctx, 1, func(acqNs int64) (manifest.Edit, error) {
		return s.manifest.StepEdit(retention.StepTime{AcqNs: acqNs, TimeNs: timeNs,
			RanNs: ranNs}), nil
	})
}

// RetentionStep returns the command with which the policies of a replica take the step that is due
// now by a clock; ok is false when none is. The node that leads the group calls it
// every few seconds.
func (s *Store) RetentionStep(now clock.Reading) (command []byte, ok bool) {
	timeNs := s.retentionClock.ConfirmedNs(now)
	ranNs, due := s.stepDue(timeNs)
	if !due {
		return nil, false
	}
	return commands.AppendStep(nil, timeNs, ranNs), true
}

// stepDue reports whether a step would do anything at a time, and for how long nodes have run.
func (s *Store) stepDue(timeNs int64) (ranNs int64, due bool) {
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	m := s.manifest
	ranNs = m.Steps.RanNs + s.retentionClock.Ran()
	return ranNs, m.Copy == nil &&
		m.StepEdit(retention.StepTime{AcqNs: 1, TimeNs: timeNs, RanNs: ranNs}).Steps != nil
}

// retainLoop lets the policies take their steps, purges go on that had no space, and what was
// removable leave the log.
func (s *Store) retainLoop() {
	tick := time.NewTicker(s.opt.retainEvery)
	defer tick.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var end logEnd
	for {
		select {
		case <-tick.C:
			end, _ = s.recordQuietLogEnd(end) // the manifest has its failure, which it reports
			_ = s.advanceRetention(ctx)       // the next tick tries again
			_ = s.onCommitter(ctx, s.resumePurges)
			_ = s.onCommitter(ctx, s.dropRemovableFromLog)
			s.wakeMerger()
		case <-s.stop:
			return
		}
	}
}
