package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/sdk/api"
)

const adviceMended = "nothing is lost; find out from the kernel's log whether the disk is " +
	"failing. This ends when the files are read again and are right: pentad verify files"

const adviceDamaged = "answers that need these bytes fail, and merges leave the file alone; find " +
	"out from the kernel's log whether the disk is failing. A cluster replaces the replica by " +
	"itself; a node by itself is restored from its backup: pentad restore"

// damages is the damage of live segments that reading them has found: of each file what was found
// first.
type damages struct {
	mu    sync.Mutex
	files map[string]*segment.CorruptError
	other []*segment.CorruptError // of other files, when they were last read
	// mended says that the others were written again since.
	mended bool
	lost   []*segment.CorruptError // files that were not there at the last look

	news chan struct{} // holds one: a file came
}

// noteDamage remembers the damage that an error reports, if it is of a segment, and returns the
// error.
func (s *Store) noteDamage(err error) error {
	var damage *segment.CorruptError
	if !errors.As(err, &damage) || filepath.Dir(damage.File) != filepath.Clean(s.opt.Dir) ||
		!strings.HasSuffix(damage.File, layout.SegmentSuffix) {
		return err
	}
	s.damaged.mu.Lock()
	defer s.damaged.mu.Unlock()
	if s.damaged.files[damage.File] == nil {
		s.damaged.files[damage.File] = damage
		s.markDamaged(damage.File, true)
		select {
		case s.damaged.news <- struct{}{}:
		default:
		}
	}
	return err
}

// damagedSegments returns the ids of the segments whose damage is known.
func (s *Store) damagedSegments() (ids []uint64) {
	for _, d := range s.Damage() {
		name, ok := strings.CutSuffix(filepath.Base(d.File), layout.SegmentSuffix)
		if id, err := strconv.ParseUint(name, 10, 64); ok && err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// mended forgets the damage of a file, all of which was found right.
func (s *Store) mended(path string) {
	s.damaged.mu.Lock()
	defer s.damaged.mu.Unlock()
	if s.damaged.files[path] != nil {
		delete(s.damaged.files, path)
		s.markDamaged(path, false)
	}
}

// markDamaged tells a segment whether its damage is known.
func (s *Store) markDamaged(path string, damaged bool) {
	for _, sh := range s.all {
		for _, seg := range sh.State.Load().Sealed {
			if seg.File.Path() == path {
				seg.Damaged.Store(damaged)
			}
		}
	}
}

// noteOther remembers damage of another file than a segment.
func (s *Store) noteOther(d api.Damage) {
	s.damaged.mu.Lock()
	defer s.damaged.mu.Unlock()
	if len(s.damaged.other) < maxDamageProblems {
		s.damaged.other = append(s.damaged.other,
			&segment.CorruptError{File: d.File, Offset: d.Offset, Reason: d.Reason})
	}
}

// forgetOther begins a look at the other files.
func (s *Store) forgetOther() {
	s.damaged.mu.Lock()
	defer s.damaged.mu.Unlock()
	s.damaged.other, s.damaged.mended = nil, false
}

// Damage returns the damage that is known, of each live segment what was found first, by name. It
// is found by queries, merges, backups, Verify, Look and the scrub.
//
// Cost: some ns without damage.
func (s *Store) Damage() []*segment.CorruptError {
	s.damaged.mu.Lock()
	defer s.damaged.mu.Unlock()
	all := slices.Concat(s.damaged.other, s.damaged.lost)
	if len(s.damaged.files) == 0 && len(all) == 0 {
		return nil
	}
	live := map[string]bool{}
	for _, sh := range s.all {
		for _, seg := range sh.State.Load().Sealed {
			live[seg.File.Path()] = true
		}
	}
	for path, damage := range s.damaged.files {
		if !live[path] {
			delete(s.damaged.files, path)
			continue
		}
		all = append(all, damage)
	}
	slices.SortFunc(all, func(a, b *segment.CorruptError) int {
		return strings.Compare(a.File, b.File)
	})
	return all
}

// maxDamageProblems bounds how many files are named one by one.
const maxDamageProblems = 16

func (s *Store) damageProblems() (all []health.Problem) {
	damage := s.Damage()
	s.damaged.mu.Lock()
	mended := s.damaged.mended
	s.damaged.mu.Unlock()
	add := func(subject, message string) {
		advice := adviceDamaged
		if mended && !strings.HasSuffix(subject, layout.SegmentSuffix) {
			advice = adviceMended
		}
		all = append(all, health.Problem{Code: "file_damaged", Subject: subject, Message: message,
			Advice: advice})
	}
	for i, d := range damage[:min(len(damage), maxDamageProblems)] {
		if i == 0 || d.File != damage[i-1].File {
			add("file "+filepath.Base(d.File), d.Error())
		}
	}
	if more := len(damage) - maxDamageProblems; more > 0 {
		add("more files", fmt.Sprintf("%d more files are damaged", more))
	}
	return all
}
