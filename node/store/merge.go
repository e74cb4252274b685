package store

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/mergepolicy"
)

// mergeLoop is the only goroutine that merges. When it falls behind, the committer slows down, see
// [throttle.Throttle].
func (s *Store) mergeLoop() {
	failed := mergepolicy.NewFailures(s.opt.mergeRetry)
	idle := idleness{rows: s.counters.rows.Load(), since: time.Now()}
	for {
		waiting := s.takeWaiters() // before the look at what is due: what they wait for is seen
		began := time.Now()
		sh, run, err := s.nextRun(failed)
		permits := s.opt.Background.Merges
		s.behind.SetSegments(mostMergeable(s.all))
		s.setExceedsMemory()
		if run == nil {
			err := cmp.Or(s.finishPurges(), failed.Newest())
			waiting = waiting.answerDue(err)
			quiet := idle.lasts(s, s.opt.idleAfter)
			if quiet && s.sealIdle() {
				s.addWaiters(waiting)
				continue
			}
			if len(waiting) > 0 || quiet && !s.hasImmutable() {
				sh, run = s.nextIdleMerge(failed)
			}
			permits = s.opt.Background.IdleMerges
			if run == nil {
				failed.Forget(began)
				s.mergeErr.Set(err)
				waiting.answerAll(err)
				select {
				case <-s.mergeWake:
				case <-time.After(s.opt.idleAfter):
				case <-s.stop:
					return
				}
				continue
			}
		}
		s.addWaiters(waiting)
		if err == nil {
			err = permits.Run(s.stop, ErrClosed, func() error {
				if sh2, run2, err := s.nextRun(failed); err == nil && run2 != nil {
					sh, run = sh2, run2 // it may have been a long wait
				}
				return s.merge(sh, run)
			})
		}
		if errors.Is(err, ErrClosed) {
			return
		}
		failed.Note(idsOf(run), err)
		s.mergeErr.Set(failed.Newest())
	}
}

// wakeMerger makes the merger look for work. It never blocks.
func (s *Store) wakeMerger() {
	select {
	case s.mergeWake <- struct{}{}:
	default:
	}
}

// merge replaces neighbouring segments, or one, by one that holds their rows but for those that
// were purged. Until the line in the manifest is synced the inputs are live, from then on the
// output.
func (s *Store) merge(sh *shard, run []*sealedSegment) error {
	began := time.Now()
	if err := s.manifestFailure(); err != nil { // a whole run would be written for nothing
		return fmt.Errorf("merge shard %d: %w", sh.id, err)
	}
	for _, seg := range run { // the read state that held them may be replaced meanwhile
		seg.retain()
		defer seg.release()
	}
	merged, e, err := s.writeMerged(sh, run)
	if err != nil {
		return fmt.Errorf("merge shard %d: %w", sh.id, err)
	}
	if err := s.replaceByMerged(sh, run, merged, e); err != nil {
		return err
	}
	s.counters.merges.Add(1)
	s.counters.mergeNs.Add(int64(time.Since(began)))
	return nil
}

// replaceByMerged makes a merged segment live, nil when no row is left, and its run go.
func (s *Store) replaceByMerged(
	sh *shard, run []*sealedSegment, merged *sealedSegment, e manifest.Edit,
) error {
	rows := 0
	for _, seg := range run {
		e.Remove = append(e.Remove, seg.meta.ID)
		rows += seg.idx.Rows()
	}
	s.manifestMu.Lock()
	err := s.manifest.Append(e)
	s.manifestMu.Unlock()
	if err != nil {
		return fmt.Errorf("merge shard %d: %w", sh.id, s.discard(merged, err))
	}
	sh.replaceRun(run, merged)
	for _, seg := range run {
		if err := os.Remove(seg.file.Path()); err != nil {
			return fmt.Errorf("remove merged segment: %w", err) // the next Open does
		}
	}
	if merged != nil {
		rows -= merged.idx.Rows()
		s.counters.mergedRows.Add(int64(merged.meta.Rows))
	}
	s.counters.purgedRows.Add(int64(rows))
	return nil
}

// manifestFailure returns the error after which the manifest takes no edit, nil for none.
func (s *Store) manifestFailure() error {
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	return s.manifest.Failure()
}

// writeMerged writes the rows of neighbouring segments to a new one and opens it; there is none
// when no row is left. The edit is to make it live.
func (s *Store) writeMerged(
	sh *shard, run []*sealedSegment,
) (*sealedSegment, manifest.Edit, error) {
	h := s.tombstones.Load()
	m := &merger{store: s, run: run, tombstones: h.Removable}
	m.worker.copies = true
	indexes, dropped := make([]*index.Segment, len(run)), make([][]uint64, len(run))
	e := manifest.Edit{}
	for i, seg := range run {
		g, err := s.purgedFrom(seg, seg.tombstonesOver(h))
		if err != nil {
			return nil, e, err
		}
		indexes[i], dropped[i] = seg.idx, g.ranks
		e.AddRemoved(g.counts)
	}
	var err error
	if m.ranks, err = rankMapOf(run, indexes, dropped); err != nil {
		return nil, e, err
	}
	first, last := run[0].meta, run[len(run)-1].meta
	if m.ranks.Rows() == 0 {
		e.Gone = []manifest.GoneRange{{Shard: sh.id, FirstIndex: first.FirstIndex,
			LastIndex: last.LastIndex}}
		return nil, e, nil
	}
	meta := manifest.Segment{
		ID: s.nextID.Add(1) - 1, Shard: sh.id, Rows: uint32(m.ranks.Rows()),
		FirstIndex: first.FirstIndex, LastIndex: last.LastIndex,
		LastAcqNs:   m.ranks.AcqOf(uint32(m.ranks.Rows() - 1)),
		PurgedAcqNs: h.NewestRemovable, PutAcqNs: newestPutOf(run),
	}
	e.Add = []manifest.Segment{meta}
	path := s.segmentPath(meta.ID)
	if err := m.write(path, meta); err != nil {
		return nil, e, s.damaged.Note(err)
	}
	merged, err := s.openNew(path, meta)
	return merged, e, err
}

// write writes a segment of the rows that the splice keeps.
func (m *merger) write(path string, meta manifest.Segment) error {
	text, err := json.Marshal(meta)
	if err != nil {
		return fmt.Errorf("describe segment: %w", err)
	}
	var marks []byte
	err = segment.Guard(func() error {
		marks, err = m.run[len(m.run)-1].file.SectionCopy(layout.SectionMarks)
		return err
	}, m.mappings)
	if err != nil {
		return err
	}
	_, err = segment.WriteRuns(path, &segment.RunsInput{
		Meta: text, Runs: m.parts,
		Sections: func(offsets []uint64, sizes []uint32) ([]segment.Section, error) {
			return sections(m.builder.Finish(m.ranks, offsets, sizes), marks,
				m.series.Table(m.ranks.Rows())), nil
		},
	})
	return err
}
