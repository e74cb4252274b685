package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/node/store/layout"
)

// verifyOthers reads the files that are no segments: MANIFEST, WRITERS and the log. All that they
// hold is in memory, so they are written again where they are damaged, but for those of a replica,
// which is replaced as a whole.
func (s *Store) verifyOthers(ctx context.Context, c *check.Checker) error {
	s.damaged.ForgetOthers()
	before := c.Report.Damages
	if err := s.readOthers(c); err != nil {
		return err
	}
	if c.Report.Damages == before || s.replicated {
		return nil
	}
	if err := s.writeOthers(ctx); err != nil {
		c.Report.Notes = append(c.Report.Notes, fmt.Sprintf(
			"what is damaged could not be written again from memory: %v", err))
		return c.Err()
	}
	again := check.New(ctx, check.Options{})
	again.Shards = c.Shards
	err := s.readOthers(again)
	if err == nil && again.Report.Damages == 0 {
		s.damaged.OthersRewritten()
		c.Report.Notes = append(c.Report.Notes,
			"damaged files other than segments were written again from memory: nothing is lost")
	}
	return err
}

func (s *Store) readOthers(c *check.Checker) error {
	if err := s.verifyManifest(c); err != nil {
		return err
	}
	if err := s.verifyWriters(c); err != nil {
		return err
	}
	return s.verifyLog(c)
}

func (s *Store) verifyManifest(c *check.Checker) error {
	name := filepath.Join(s.opt.Dir, layout.ManifestFile)
	s.manifestMu.Lock() // half a line is no damage
	data, err := os.ReadFile(name)
	number := s.manifest.Number
	s.manifestMu.Unlock()
	if errors.Is(err, os.ErrNotExist) {
		c.Damaged(name, durable.WholeFile, "the file is missing")
		return nil
	}
	if err != nil {
		return err
	}
	m, err := c.Manifest(name, data)
	if m != nil && m.Number != number {
		c.Damaged(name, int64(len(data)), "it ends with line %d, and %d were written", m.Number,
			number)
	}
	return err
}

func (s *Store) verifyWriters(c *check.Checker) error {
	s.manifestMu.Lock() // it is replaced under it
	defer s.manifestMu.Unlock()
	name := filepath.Join(s.opt.Dir, layout.WritersFile)
	err := c.Writers(name)
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if s.manifest.NextAcqNs != 0 {
		c.Damaged(name, durable.WholeFile, "the file is missing")
	}
	return nil
}

func (s *Store) verifyLog(c *check.Checker) error {
	l := check.NewLog(c)
	files := s.log.Files()
	numbers := slices.Sorted(maps.Keys(files))
	for i, number := range numbers {
		if s.closed.Load() {
			return ErrClosed
		}
		err := l.File(s.log.Path(number), files[number], i == len(numbers)-1)
		switch {
		case err == nil:
		case !errors.Is(err, os.ErrNotExist):
			return err
		case s.isLogNeeded(number):
			c.Damaged(s.log.Path(number), durable.WholeFile, "the file is missing")
		default:
			l.PassGap()
		}
	}
	return nil
}

// isLogNeeded reports whether a file of the log is still needed.
func (s *Store) isLogNeeded(number uint64) bool {
	s.manifestMu.Lock() // files are not removed meanwhile
	defer s.manifestMu.Unlock()
	_, ok := s.log.Files()[number]
	return ok
}

// writeOthers writes all files but the segments again, and moves what is in the log to segments, so
// that its files go.
func (s *Store) writeOthers(ctx context.Context) error {
	if err := s.rewriteManifest(); err != nil {
		return err
	}
	return s.Seal(ctx)
}

func (s *Store) rewriteManifest() error {
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	if err := errors.Join(s.manifest.ErrUnwrittenAfter(), s.manifest.Rewrite()); err != nil {
		return err
	}
	e, err := s.saveWriters()
	if err != nil {
		return err
	}
	return s.manifest.Append(e)
}
