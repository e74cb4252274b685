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

// pendingSeals are the requests that the sealer has taken from Store.sealRequests and has not done:
// a shard is in it once for each immutable head that is to be sealed, oldest first.
type pendingSeals struct {
	shards []*shards.Shard
	wait   time.Duration
	retry  <-chan time.Time // nil while sealing works
}

// sealPending seals what is pending, until it fails.
func (s *Store) sealPending(p *pendingSeals) error {
	for len(p.shards) > 0 {
		err := s.sealOldest(p.shards[0])
		if errors.Is(err, ErrClosed) {
			return err
		}
		s.headBudget.SetSealErr(err)
		if err != nil {
			p.wait = min(max(2*p.wait, sealRetryFirst), sealRetryLast)
			p.retry = time.After(p.wait)
			return err
		}
		p.shards = p.shards[1:]
	}
	p.wait, p.retry = 0, nil
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
