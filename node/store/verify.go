package store

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Verify reads every sealed segment and all of the log, and goes on after damage. Puts, queries,
// seals and merges go on beside it; what they remove meanwhile is left out, what they add is not
// looked at.
//
// Errors: ErrClosed, ctx.Err(), and those of the file system. Damage is in the report.
func (s *Store) Verify(ctx context.Context, opt CheckOptions) (CheckReport, error) {
	c := newChecker(ctx, opt)
	c.shards = len(s.shards)
	if err := s.verifyManifest(c); err != nil {
		return c.end(), err
	}
	for _, meta := range s.liveSegments() {
		if err := s.verifySegment(c, meta); err != nil {
			return c.end(), err
		}
	}
	name := filepath.Join(s.opt.Dir, writersFile)
	if err := c.writersFile(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return c.end(), err
	}
	err := s.verifyLog(c)
	return c.end(), err
}

// liveSegments returns what the manifest names now, by shard and in order.
func (s *Store) liveSegments() []segmentMeta {
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	live := slices.Clone(s.manifest.live)
	slices.SortFunc(live, func(a, b segmentMeta) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.FirstIndex, b.FirstIndex))
	})
	return live
}

func (s *Store) verifyManifest(c *checker) error {
	name := filepath.Join(s.opt.Dir, manifestFile)
	s.manifestMu.Lock() // half a line is no damage
	data, err := os.ReadFile(name)
	s.manifestMu.Unlock()
	if err == nil {
		_, err = c.manifestText(name, data)
	}
	return err
}

func (s *Store) verifySegment(c *checker, meta segmentMeta) error {
	if s.closed.Load() {
		return ErrClosed
	}
	path := s.segmentPath(meta.ID)
	_, err := c.segment(path, &meta)
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if slices.Contains(s.liveSegments(), meta) {
		c.damaged(path, 0, "the file is missing; the manifest names it")
	}
	return nil // merged
}

func (s *Store) verifyLog(c *checker) error {
	l := &logCheck{checker: c}
	files := s.log.Files()
	numbers := slices.Sorted(maps.Keys(files))
	for i, number := range numbers {
		if s.closed.Load() {
			return ErrClosed
		}
		err := l.file(s.log.Path(number), files[number], i == len(numbers)-1)
		if errors.Is(err, os.ErrNotExist) && s.logHas(number) {
			c.damaged(s.log.Path(number), 0, "the file is missing")
		} else if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// logHas reports whether a file of the log is still needed.
func (s *Store) logHas(number uint64) bool {
	s.manifestMu.Lock() // files are not removed meanwhile
	defer s.manifestMu.Unlock()
	_, ok := s.log.Files()[number]
	return ok
}
