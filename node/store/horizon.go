package store

import (
	"context"
	"fmt"

	"github.com/pentad-db/pentad/node/store/acqtime"
)

// ExtendHorizon returns an acq H such that no put adds a row with an acq < H, but for rows below
// the horizon; purges, retentions and splits remove some. It follows the wall clock when nothing is
// written; once the log has failed it stays where it is, above every row that was acknowledged.
//
// Cost: at most once a second one small synced write to the log.
func (s *Store) ExtendHorizon(ctx context.Context) (int64, error) {
	if s.closed.Load() {
		return 0, ErrClosed
	}
	h, leaseExpired := s.oracle.Horizon()
	if !leaseExpired {
		return h, nil
	}
	var failed error
	wanted := s.oracle.LeaseTarget()
	if err := s.onCommitter(ctx, func() {
		if !s.oracle.LeaseCovers(wanted) { // else one who asked at the same time had it logged
			failed = s.logLease()
		}
	}); err != nil {
		return 0, err
	}
	if failed == nil {
		h, _ = s.oracle.Horizon()
	}
	return h, nil // puts say what is wrong with the log; queries need no lease
}

// logLease logs a lease up to now: no acq below it is allocated any more.
func (s *Store) logLease() error {
	ns := s.oracle.LeaseTarget()
	file, err := s.appendLog(s.progressEntries(ns, false))
	if err != nil {
		return fmt.Errorf("log lease: %w", err)
	}
	s.recordLogFile(file, nil)
	s.oracle.LeaseLogged(ns)
	return nil
}

// DurableHorizon is as [Store.ExtendHorizon], of an acq that is durably logged: whenever the
// directory is opened again it knows that it had everything below. What is remembered elsewhere of
// how far something is must not be beyond it.
//
// Cost: one small synced write to the log.
func (s *Store) DurableHorizon(ctx context.Context) (int64, error) {
	h, err := s.ExtendHorizon(ctx)
	if err != nil || s.replicated {
		return h, err
	}
	err = s.onCommitter(ctx, func() { h = s.logHorizon(h) })
	return h, err
}

// logHorizon makes a horizon durable in the log, and returns it, or a lower one when it takes no
// more. The caller is the committer.
func (s *Store) logHorizon(h int64) int64 {
	if s.oracle.DurableNs() < h {
		_ = s.logLease() // puts say what is wrong with the log
	}
	return min(h, s.oracle.DurableNs())
}

// AheadNs returns how far acqs are ahead of the clock, because it was set back, or was wrong
// before: they go on one by one from where they were until it has passed them. 0: they follow it.
func (s *Store) AheadNs() int64 {
	ahead := s.oracle.NextNs() - s.wallClock.NowNs()
	if ahead < 2*acqtime.LeaseNs {
		return 0 // acqs of one log append, or a lease
	}
	return ahead
}
