package store

import (
	"context"
	"slices"
	"time"
)

const (
	// restAfter is how long nothing must have come until what is left is merged.
	restAfter = time.Minute
	// restShare is how many times larger the largest segment may be than those that it is merged
	// with: a row that comes before each rest is then written anew at most so often, and once more.
	restShare = 4
	// restSealShare: a head is sealed at rest when it has this part of the rows at which it would
	// be anyway. Fewer take little memory, are found quickly, and would make a segment of a few
	// blocks.
	restSealShare = 16
)

// settlers wait until no merge is due, or none that a store at rest does.
type settlers []settler

type settler struct {
	done chan error
	rest bool // what a store at rest merges is waited for, too
}

// settled answers those who wait until no merge is due, and returns the others.
func (w settlers) settled(err error) settlers {
	return slices.DeleteFunc(w, func(one settler) bool {
		if !one.rest {
			one.done <- err
		}
		return !one.rest
	})
}

// rested answers all.
func (w settlers) rested(err error) {
	for _, one := range w {
		one.done <- err
	}
}

// idleness is since when no row has come.
type idleness struct {
	rows  int64
	since time.Time
}

// lasts reports whether nothing has come for so long.
func (i *idleness) lasts(s *Store, long time.Duration) bool {
	if rows := s.counters.rows.Load(); rows != i.rows {
		*i = idleness{rows, time.Now()}
	}
	return time.Since(i.since) >= long
}

// sealQuiet freezes the heads that are worth a segment, and reports whether there were any. A store
// with many neighbours, as in a cluster, would keep millions of rows in memory for ever, where
// they are slower to find.
func (s *Store) sealQuiet() (any bool) {
	_ = s.onCommitter(context.Background(), func() { // it fails when the store is closed
		for _, sh := range s.all {
			if sh.snapshot.Load().head.Rows() >= s.opt.restSealRows {
				s.freeze(sh)
				any = true
			}
		}
	})
	return any
}

// sealing reports whether a head waits to be sealed. What a store at rest merges before would be
// merged once more with it.
func (s *Store) sealing() bool {
	for _, sh := range s.all {
		if len(sh.snapshot.Load().frozen) > 0 {
			return true
		}
	}
	return false
}

// Settle seals every row and waits until no merge is due. It is for measurements and before
// copying files.
func (s *Store) Settle(ctx context.Context) error { return s.settle(ctx, false) }

// Rest does what a store does after a minute in which nothing came, and seals small heads, too: it
// settles, and merges what is left into few segments, which would not pay while rows come.
func (s *Store) Rest(ctx context.Context) error { return s.settle(ctx, true) }

func (s *Store) settle(ctx context.Context, rest bool) error {
	if err := s.Seal(ctx); err != nil {
		return err
	}
	done := make(chan error, 1)
	s.keepSettling(settlers{{done, rest}})
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

// takeSettling takes over those who wait.
func (s *Store) takeSettling() settlers {
	s.mergeMu.Lock()
	defer s.mergeMu.Unlock()
	waiting := s.settling
	s.settling = nil
	return waiting
}

// keepSettling lets them wait for the merger's next look.
func (s *Store) keepSettling(waiting settlers) {
	s.mergeMu.Lock()
	defer s.mergeMu.Unlock()
	s.settling = append(s.settling, waiting...)
}

// nextRest returns the segments that a store at rest merges next.
func (s *Store) nextRest(failed failedRuns) (*shard, []*sealedSegment) {
	for _, sh := range s.all {
		for part := range undamaged(sh.snapshot.Load().sealed) {
			for same := range together(part) {
				if run := restRun(same, failed.may); run != nil {
					return sh, run
				}
			}
		}
	}
	return nil, nil
}

// restRun returns the most neighbours that may be merged into one segment and of which none is
// restShare times as large as the others together, the fewest rows first.
func restRun(sealed []*sealedSegment, may func(first *sealedSegment) bool) (best []*sealedSegment) {
	for from := range sealed {
		rows, bytes, largest := int64(0), int64(0), int64(0)
		for to := from; to < len(sealed); to++ {
			more := int64(sealed[to].meta.Rows)
			rows, bytes = rows+more, bytes+sealed[to].file.Size()
			if rows > limitOf(sealed[from]) || bytes > maxMergedBytes {
				break
			}
			largest = max(largest, more)
			run := sealed[from : to+1]
			pays := len(run) > 1 && largest <= restShare*(rows-largest) && may(sealed[from])
			better := len(run) > len(best) || len(run) == len(best) && rows < rowsOf(best)
			if pays && better {
				best = run
			}
		}
	}
	return best
}
