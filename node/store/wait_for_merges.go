package store

import (
	"context"
	"slices"
)

// mergeWaiters are callers that wait until no merge is due, or no idle merge either.
type mergeWaiters []mergeWaiter

type mergeWaiter struct {
	done chan error
	idle bool // also waits for idle merges
}

// WaitForMerges seals every row and waits until no merge is due. It is for measurements and before
// copying files.
func (s *Store) WaitForMerges(ctx context.Context) error { return s.waitForMerges(ctx, false) }

// MergeIdle does at once what a store does after a minute without puts, and seals small heads, too:
// it waits until no merge is due, and then merges the rest into few segments. That would not pay
// while rows come.
func (s *Store) MergeIdle(ctx context.Context) error { return s.waitForMerges(ctx, true) }

func (s *Store) waitForMerges(ctx context.Context, idle bool) error {
	if err := s.Seal(ctx); err != nil {
		return err
	}
	done := make(chan error, 1)
	s.addWaiters(mergeWaiters{{done, idle}})
	s.wakeMerger()
	select {
	case err := <-done:
		return err
	case <-s.stop:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// answerDue answers the callers that wait for due merges only, and returns the others.
func (w mergeWaiters) answerDue(err error) mergeWaiters {
	return slices.DeleteFunc(w, func(one mergeWaiter) bool {
		if !one.idle {
			one.done <- err
		}
		return !one.idle
	})
}

// answerAll answers all.
func (w mergeWaiters) answerAll(err error) {
	for _, one := range w {
		one.done <- err
	}
}

// takeWaiters removes and returns all waiters.
func (s *Store) takeWaiters() mergeWaiters {
	s.mergeMu.Lock()
	defer s.mergeMu.Unlock()
	waiting := s.waiters
	s.waiters = nil
	return waiting
}

// addWaiters lets them wait for the merger's next look.
func (s *Store) addWaiters(waiting mergeWaiters) {
	s.mergeMu.Lock()
	defer s.mergeMu.Unlock()
	s.waiters = append(s.waiters, waiting...)
}
