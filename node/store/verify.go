package store

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/sdk/api"
)

// Verify reads every sealed segment and all other files, and goes on after damage. Puts, queries,
// seals and merges go on beside it; what they remove meanwhile is left out, what they add is not
// looked at. Files other than segments are written again from memory where they are damaged.
//
// Errors: ErrClosed, ctx.Err(), and those of the file system. Damage is in the report.
func (s *Store) Verify(ctx context.Context, opt check.Options) (api.CheckReport, error) {
	s.recordVerifiedDamage(&opt)
	c := check.New(ctx, opt)
	c.Shards = len(s.shards)
	for _, meta := range s.liveSegments() {
		if err := s.verifySegment(c, meta); err != nil {
			return c.End(), err
		}
	}
	err := s.verifyOthers(ctx, c)
	return c.End(), err
}

// VerifySegment is Verify of one segment, by its id. One that was merged or removed meanwhile is
// well.
func (s *Store) VerifySegment(
	ctx context.Context, id uint64, opt check.Options,
) (api.CheckReport, error) {
	s.recordVerifiedDamage(&opt)
	c := check.New(ctx, opt)
	c.Shards = len(s.shards)
	for _, meta := range s.liveSegments() {
		if meta.ID == id {
			err := s.verifySegment(c, meta)
			return c.End(), err
		}
	}
	return c.End(), nil
}

// recordVerifiedDamage lets the store remember the damage that a verification finds.
func (s *Store) recordVerifiedDamage(opt *check.Options) {
	tell := opt.Damage
	opt.Damage = func(d api.Damage) {
		s.damaged.Found(d)
		if tell != nil {
			tell(d)
		}
	}
}

// liveSegments returns what the manifest names now, by shard and in order.
func (s *Store) liveSegments() []manifest.Segment {
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	live := slices.Clone(s.manifest.Live)
	slices.SortFunc(live, func(a, b manifest.Segment) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.FirstLSN, b.FirstLSN))
	})
	return live
}

func (s *Store) verifySegment(c *check.Checker, meta manifest.Segment) error {
	if s.closed.Load() {
		return ErrClosed
	}
	path := s.segmentPath(meta.ID)
	err := c.Segment(path, &meta)
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if slices.Contains(s.liveSegments(), meta) {
		c.Damaged(path, durable.WholeFile, "the file is missing; the manifest names it")
	}
	return nil // merged
}
