package store

import (
	"context"
	"fmt"
	"time"

	"github.com/pentad-db/pentad/node/store/shards"
)

// waitForRoom delays a put while the heads are over their budget.
func (s *Store) waitForRoom(ctx context.Context) error {
	var timeout <-chan time.Time
	for {
		s.budgetMu.Lock()
		full, room, failed := s.headBytes >= s.opt.HeadMax, s.headsShrunk, s.sealErr
		s.budgetMu.Unlock()
		if !full {
			return nil
		}
		if failed != nil {
			return fmt.Errorf("%w: %w", ErrOverloaded, failed)
		}
		if timeout == nil {
			s.counters.putsDelayed.Add(1)
			timeout = time.After(s.opt.PutWait)
		}
		select {
		case <-room:
		case <-timeout:
			return ErrOverloaded
		case <-s.stop:
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// addHeadBytes accounts for rows that entered (n > 0) or left (n < 0) the heads.
func (s *Store) addHeadBytes(n int64) {
	s.budgetMu.Lock()
	defer s.budgetMu.Unlock()
	s.headBytes += n
	if n < 0 {
		close(s.headsShrunk)
		s.headsShrunk = make(chan struct{})
	}
}

// overBudget returns the shard with the largest head if the mutable heads take more than half the
// budget, else nil. So when puts wait, immutable heads take the other half, and a seal is under way
// that frees some.
func (s *Store) overBudget() *shards.Shard {
	var total, most int64
	var largest *shards.Shard
	for _, sh := range s.all {
		size := sh.State.Load().Head.Bytes()
		total += size
		if size > most {
			most, largest = size, sh
		}
	}
	if total <= s.opt.HeadMax/2 {
		return nil
	}
	return largest
}
