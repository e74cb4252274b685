package store

import (
	"errors"
	"os"
	"sync"
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

	// deleting removes files of the log that are not needed any more, beside the next seal.
	deleting sync.WaitGroup
}

// takeRequests takes a request and those that wait behind it, and returns who wants a report.
func (s *Store) takeRequests(r sealRequest, p *pendingSeals) (reports []chan error) {
	for {
		if r.shard != nil {
			p.shards = append(p.shards, r.shard)
		}
		if r.done != nil {
			reports = append(reports, r.done)
		}
		select {
		case r = <-s.sealRequests:
		default:
			return reports
		}
	}
}

// sealPending seals what is pending, until it fails.
func (s *Store) sealPending(p *pendingSeals) error {
	for len(p.shards) > 0 {
		atOnce := min(len(p.shards), cap(s.opt.Background.Seals))
		sealed, err := s.sealOldest(p.shards[:atOnce])
		p.deleting.Wait()
		p.deleting.Go(func() { _ = s.deleteSealedLogNow() }) // the next seal tries again
		p.shards = p.shards[sealed:]
		if errors.Is(err, ErrClosed) {
			return err
		}
		s.headBudget.SetSealErr(err)
		if err != nil {
			p.wait = min(max(2*p.wait, sealRetryFirst), sealRetryLast)
			p.retry = time.After(p.wait)
			return err
		}
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
