package store

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/memory"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/mergepolicy"
	"github.com/pentad-db/pentad/node/store/shards"
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
		permits, carry := s.opt.Background.Merges, true
		s.throttle.SetBacklog(largestBacklog(s.allShards))
		s.setExceedsMemory()
		if run == nil {
			err := cmp.Or(s.finishPurges(), failed.Newest())
			waiting = waiting.answerDue(err)
			quiet := idle.isIdleFor(s, s.opt.idleAfter)
			if quiet && s.rotateIdle() {
				s.addWaiters(waiting)
				continue
			}
			if len(waiting) > 0 || quiet && !s.hasImmutable() {
				sh, run = s.nextIdleMerge(failed)
			}
			permits, carry = s.opt.Background.IdleMerges, false
			if run == nil {
				failed.Forget(began, s.isDamaged)
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
					sh, run, carry = sh2, run2, true // it may have been a long wait
				}
				return s.merge(sh, run, carry)
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
func (s *Store) merge(sh *shards.Shard, run []*shards.Segment, carry bool) error {
	began := time.Now()
	if err := s.manifestFailure(); err != nil { // a whole run would be written for nothing
		return fmt.Errorf("merge shard %d: %w", sh.ID, err)
	}
	for _, seg := range run { // the read state that held them may be replaced meanwhile
		seg.Pin()
		defer seg.Unpin()
	}
	merged, e, err := s.writeMerged(sh, run, carry)
	if err != nil {
		return fmt.Errorf("merge shard %d: %w", sh.ID, err)
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
	sh *shards.Shard, run []*shards.Segment, merged *shards.Segment, e manifest.Edit,
) error {
	rows := 0
	for _, seg := range run {
		e.Remove = append(e.Remove, seg.Meta.ID)
		rows += seg.Index.Rows()
	}
	s.manifestMu.Lock()
	err := s.manifest.Append(e)
	s.manifestMu.Unlock()
	if err != nil {
		return fmt.Errorf("merge shard %d: %w", sh.ID, s.discardSegment(merged, err))
	}
	sh.ReplaceRun(run, merged)
	for _, seg := range run {
		if err := os.Remove(seg.File.Path()); err != nil {
			return fmt.Errorf("remove merged segment: %w", err) // the next Open does
		}
	}
	if merged != nil {
		rows -= merged.Index.Rows()
		s.counters.mergedRows.Add(int64(merged.Meta.Rows))
	}
	s.counters.purgedRows.Add(int64(rows))
	return nil
}

// manifestFailure returns the error after which the manifest takes no edit, nil for none.
func (s *Store) manifestFailure() error {
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	return s.manifest.ErrUnwrittenAfter()
}

// writeMerged writes the rows of neighbouring segments to a new one and opens it; there is none
// when no row is left. The edit is to make it live.
func (s *Store) writeMerged(
	sh *shards.Shard, run []*shards.Segment, carry bool,
) (*shards.Segment, manifest.Edit, error) {
	t := s.tombstones.Load()
	m := &merger{store: s, run: run, tombstones: t.Removable}
	m.reader.CopyBlocks = true
	indexes, dropped := make([]*index.Segment, len(run)), make([][]uint64, len(run))
	e := manifest.Edit{}
	for i, seg := range run {
		g, err := s.purgedFrom(seg, tombstonesOver(seg, t))
		if err != nil {
			return nil, e, err
		}
		indexes[i], dropped[i] = seg.Index, g.ranks
		e.AddPurgedRows(g.counts)
	}
	var err error
	if m.ranks, err = rankMapOf(run, indexes, dropped); err != nil {
		return nil, e, err
	}
	carried := uint32(0)
	if carry {
		carried = m.chooseCarried()
	}
	first, last := run[0].Meta, run[len(run)-1].Meta
	if m.ranks.Rows() == 0 {
		e.EmptyLSNRanges = []manifest.EmptyLSNRange{{Shard: sh.ID, FirstLSN: first.FirstLSN,
			LastLSN: last.LastLSN}}
		return nil, e, nil
	}
	meta := manifest.Segment{
		ID: s.nextID.Add(1) - 1, Shard: sh.ID, Rows: uint32(m.ranks.Rows()),
		FirstLSN: first.FirstLSN, LastLSN: last.LastLSN,
		LastAcqNs:          m.ranks.AcqOf(uint32(m.ranks.Rows() - 1)),
		PurgesAppliedAcqNs: t.NewestRemovable, PutAcqNs: newestPutOf(run), CarriedRows: carried,
	}
	e.Add = []manifest.Segment{meta}
	path := s.segmentPath(meta.ID)
	if err := m.write(path, meta); err != nil {
		return nil, e, s.damaged.Note(err)
	}
	merged, err := s.openNew(path, meta)
	return merged, e, err
}

// write writes a segment of the rows that the rank map keeps.
func (m *merger) write(path string, meta manifest.Segment) error {
	text, err := json.Marshal(meta)
	if err != nil {
		return fmt.Errorf("describe segment: %w", err)
	}
	m.buffers = mergeBufferPool.Get().(*mergeBuffers)
	defer mergeBufferPool.Put(m.buffers)
	m.clusteredTile = &m.buffers.tiles[0]
	var watermarks []byte
	err = segment.CatchPageFaults(func() error {
		watermarks, err = m.run[len(m.run)-1].File.SectionCopy(layout.SectionWatermarks)
		return err
	}, m.files)
	if err != nil {
		return err
	}
	_, err = segment.WriteRuns(path, &segment.RunsInput{
		Meta: text, Carry: m.carry, Runs: m.writeTiles,
		Sections: func(offsets []uint64, sizes []uint32) ([]segment.Section, error) {
			return sections(m.builder.Finish(m.ranks, offsets, sizes), watermarks,
				m.series.Table(m.ranks.Rows())), nil
		},
	})
	return err
}

// alwaysInMemory is the size of segments up to which they are less than half the memory of any
// process that has a store.
const alwaysInMemory = 16 << 20

// setExceedsMemory notes whether the segments are larger than half the memory of the process, so
// that what was read may be gone again. The limit is read from several files, and not for a small
// store.
func (s *Store) setExceedsMemory() {
	total := uint64(0)
	for _, sh := range s.allShards {
		for _, seg := range sh.State.Load().Sealed {
			total += uint64(seg.File.Size())
		}
	}
	exceeds := false
	if total > alwaysInMemory {
		may := memory.Limit()
		exceeds = may > 0 && total > may/2
	}
	s.readahead.ExceedsMemory.Store(exceeds)
}
