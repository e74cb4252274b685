package store

import (
	"errors"
	"os"
	"time"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/shards"
)

const (
	// sealRetryFirst and sealRetryLast bound how long the sealer waits after an error before it
	// tries again, twice as long each time: what it tries costs a core for seconds.
	sealRetryFirst = time.Second
	sealRetryLast  = time.Minute
)

// sealQueue is the sealer's work: a shard stands in it once for each immutable head that is to be
// sealed, oldest first.
type sealQueue struct {
	shards []*shards.Shard
	wait   time.Duration
	retry  <-chan time.Time // nil while sealing works
}

// sealQueued seals what is queued, until it fails.
func (s *Store) sealQueued(q *sealQueue) error {
	for len(q.shards) > 0 {
		err := s.sealOldest(q.shards[0])
		if errors.Is(err, ErrClosed) {
			return err
		}
		s.headBudget.SetSealErr(err)
		if err != nil {
			q.wait = min(max(2*q.wait, sealRetryFirst), sealRetryLast)
			q.retry = time.After(q.wait)
			return err
		}
		q.shards = q.shards[1:]
	}
	q.wait, q.retry = 0, nil
	return nil
}

// discardSegment takes back a segment that the manifest does not name: for lack of space, or
// because it had failed before. After another error it may name it.
func (s *Store) discardSegment(seg *shards.Segment, cause error) error {
	if seg == nil {
		return cause
	}
	path := seg.File.Path()
	seg.Unpin()
	if durable.IsNoSpace(cause) || errors.Is(cause, manifest.ErrUnwritten) {
		return errors.Join(cause, os.Remove(path))
	}
	return cause
}
