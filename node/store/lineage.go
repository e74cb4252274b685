package store

import (
	"context"
	"fmt"

	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/manifest"
)

// appendLog appends a flush to the log of a store of its own, after the manifest has the timeline
// that it belongs to. The caller is the committer, or Close.
func (s *Store) appendLog(entries []segment.Entry) (file uint64, err error) {
	if !s.begun {
		s.manifestMu.Lock()
		err = s.beginLogging()
		s.manifestMu.Unlock()
	}
	if err != nil {
		return 0, s.log.NoteLack(err, 0)
	}
	return s.log.Append(entries)
}

// beginLogging makes the timeline of this process durable, if it is not yet. The caller is the
// committer, or Close, and holds manifestMu.
func (s *Store) beginLogging() error {
	if s.manifest.Begins() {
		if err := s.manifest.Append(manifest.Edit{}); err != nil {
			return fmt.Errorf("begin a timeline: %w", err)
		}
	}
	s.begun = true
	return nil
}

// ProvenHorizon is as [Store.Horizon], of an acq that the log proves: whenever the directory is
// opened again it knows that it had everything below. What is remembered elsewhere of how far
// something is must not be beyond it.
//
// Cost: one small synced write to the log.
func (s *Store) ProvenHorizon(ctx context.Context) (int64, error) {
	h, err := s.Horizon(ctx)
	if err != nil || s.replicated {
		return h, err
	}
	err = s.onCommitter(ctx, func() { h = s.proveHorizon(h) })
	return h, err
}

// proveHorizon makes the log prove a horizon, and returns it, or a lower one when it takes no more.
// The caller is the committer.
func (s *Store) proveHorizon(h int64) int64 {
	if s.clock.Proven() < h {
		_ = s.logLease() // puts say what is wrong with the log
	}
	return min(h, s.clock.Proven())
}
