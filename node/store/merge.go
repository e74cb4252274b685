package store

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"time"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
)

const (
	// mergeFanIn is how many neighbours of about one size are merged at once. More would write each
	// row less often and leave more segments to ask.
	mergeFanIn = 4
	// maxMergedRows keeps merged segments below 65,536 blocks, which are not all full.
	maxMergedRows = 100 << 20
	// maxMergedBytes bounds the time that a merge takes, and the room on disk that it needs.
	maxMergedBytes = 32 << 30
	// mergeRetry is how long a merge that failed is left alone.
	mergeRetry = time.Minute
	// damagedRetry is the same for a segment whose damage is known: a purge needs all of it.
	damagedRetry = time.Hour
)

// mergeLoop is the only goroutine that merges. When it falls behind,
// the committer slows down, see pace.
func (s *Store) mergeLoop() {
	failed := failedRuns{retry: s.opt.mergeRetry, runs: map[uint64]failedRun{}}
	idle := idleness{rows: s.counters.rows.Load(), since: time.Now()}
	for {
		waiting := s.takeSettling() // before the look at what is due: what they wait for is seen
		began := time.Now()
		sh, run, err := s.nextRun(failed)
		turns := s.opt.Turns.merges
		s.setBacklog()
		s.setTight()
		if run == nil {
			err := cmp.Or(s.finishPurges(), failed.newest())
			waiting = waiting.settled(err)
			quiet := idle.lasts(s, s.opt.restAfter)
			if quiet && s.sealQuiet() {
				s.keepSettling(waiting)
				continue
			}
			if len(waiting) > 0 || quiet && !s.sealing() {
				sh, run = s.nextRest(failed)
			}
			turns = s.opt.Turns.rests
			if run == nil {
				failed.forget(began)
				s.noteMerge(err)
				waiting.rested(err)
				select {
				case <-s.mergeWake:
				case <-time.After(s.opt.restAfter):
				case <-s.stop:
					return
				}
				continue
			}
		}
		s.keepSettling(waiting)
		if err == nil {
			err = s.inTurn(turns, func() error {
				if sh2, run2, err := s.nextRun(failed); err == nil && run2 != nil {
					sh, run = sh2, run2 // it may have been a long wait
				}
				return s.merge(sh, run)
			})
		}
		if errors.Is(err, ErrClosed) {
			return
		}
		failed.note(run, err)
		s.noteMerge(failed.newest())
	}
}

// failedRuns are the merges that failed and were not tried again since.
type failedRuns struct {
	retry time.Duration
	runs  map[uint64]failedRun // by the first segment
}

type failedRun struct {
	at  time.Time
	err error
}

// may reports whether the run that begins with a segment may be tried.
func (f failedRuns) may(first *sealedSegment) bool {
	run, failed := f.runs[first.meta.ID]
	retry := f.retry
	if first.damaged.Load() {
		retry = max(retry, damagedRetry)
	}
	return !failed || time.Since(run.at) > retry
}

// note remembers how the merge of a run ended. What was merged is not there to be tried again.
func (f failedRuns) note(run []*sealedSegment, err error) {
	if err != nil {
		f.runs[run[0].meta.ID] = failedRun{time.Now(), err}
		return
	}
	for _, seg := range run {
		delete(f.runs, seg.meta.ID)
	}
}

// forget drops the runs that a look which began then might have tried: they are not due any more.
func (f failedRuns) forget(began time.Time) {
	maps.DeleteFunc(f.runs, func(_ uint64, run failedRun) bool {
		return began.Sub(run.at) > f.retry
	})
}

// newest returns the error of the run that failed last, nil for none.
func (f failedRuns) newest() error {
	var last failedRun
	for _, run := range f.runs {
		if last.err == nil || run.at.After(last.at) {
			last = run
		}
	}
	return last.err
}

// nextRun returns the segments that are to be written anew next: those with purged rows first,
// because somebody waits for these to be gone. An error is of looking into the run.
func (s *Store) nextRun(failed failedRuns) (*shard, []*sealedSegment, error) {
	if sh, run, err := s.nextPurged(failed); run != nil {
		return sh, run, err
	}
	if sh, run := s.nextMerge(failed); run != nil {
		return sh, run, nil
	}
	return s.nextExpired(failed)
}

// wakeMerger makes the merger look for work. It never blocks.
func (s *Store) wakeMerger() {
	select {
	case s.mergeWake <- struct{}{}:
	default:
	}
}

// nextMerge returns the smallest run of segments that is due, leaving out those that failed
// lately. Of a window that is over it is also what a store at rest merges.
func (s *Store) nextMerge(failed failedRuns) (*shard, []*sealedSegment) {
	var best []*sealedSegment
	var of *shard
	h := s.history.Load()
	for _, sh := range s.all {
		for part := range undamaged(sh.snapshot.Load().sealed) {
			for _, seg := range part {
				seg.noteWindow(h)
			}
			for same, over := range together(part) {
				run := dueRun(same, failed.may)
				if run == nil && over {
					run = restRun(same, failed.may)
				}
				if run != nil && (best == nil || rowsOf(run) < rowsOf(best)) {
					best, of = run, sh
				}
			}
		}
	}
	return of, best
}

// undamaged yields the neighbours between segments whose damage is known, which no merge can read.
func undamaged(sealed []*sealedSegment) iter.Seq[[]*sealedSegment] {
	return func(yield func([]*sealedSegment) bool) {
		from := 0
		for i, seg := range sealed {
			if !seg.damaged.Load() {
				continue
			}
			if !yield(sealed[from:i]) {
				return
			}
			from = i + 1
		}
		yield(sealed[from:])
	}
}

func rowsOf(run []*sealedSegment) int64 {
	n := int64(0)
	for _, seg := range run {
		n += int64(seg.meta.Rows)
	}
	return n
}

// dueRun returns mergeFanIn or more neighbours of which none is much larger than the others, and
// whose first one may be tried; the smallest ones first. Rows are then written anew a logarithmic
// number of times.
func dueRun(sealed []*sealedSegment, may func(first *sealedSegment) bool) []*sealedSegment {
	for level := range 16 {
		most := int64(1) << (2 * level) // rows of a segment of this level at most
		for from := range sealed {
			to, rows, bytes, largest := from, int64(0), int64(0), int64(0)
			for to < len(sealed) && to-from < 2*mergeFanIn {
				more := int64(sealed[to].meta.Rows)
				bytes += sealed[to].file.Size()
				if more > most || rows+more > limitOf(sealed[from]) || bytes > maxMergedBytes {
					break
				}
				rows += more
				largest = max(largest, more)
				to++
			}
			if to-from >= mergeFanIn && largest <= rows/2 && may(sealed[from]) {
				return sealed[from:to]
			}
		}
	}
	return nil
}

// merge replaces neighbouring segments, or one, by one that holds their rows but for those that
// were purged. Until the line in the manifest is synced the inputs are live, from then on the
// output.
func (s *Store) merge(sh *shard, run []*sealedSegment) error {
	began := time.Now()
	if err := s.manifestFailure(); err != nil { // a whole run would be written for nothing
		return fmt.Errorf("merge shard %d: %w", sh.id, err)
	}
	for _, seg := range run { // the snapshot that held them may be replaced meanwhile
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
	sh *shard, run []*sealedSegment, merged *sealedSegment, e edit,
) error {
	rows := 0
	for _, seg := range run {
		e.Remove = append(e.Remove, seg.meta.ID)
		rows += seg.idx.Rows()
	}
	s.manifestMu.Lock()
	err := s.manifest.append(e)
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
	return s.manifest.failure()
}

// writeMerged writes the rows of neighbouring segments to a new one and opens it; there is none
// when no row is left. The edit is to make it live.
func (s *Store) writeMerged(sh *shard, run []*sealedSegment) (*sealedSegment, edit, error) {
	h := s.history.Load()
	m := &merger{store: s, run: run, hidden: h.removing}
	m.worker.copies = true
	indexes, dropped := make([]*index.Segment, len(run)), make([][]uint64, len(run))
	e := edit{}
	for i, seg := range run {
		g, err := s.goneFrom(seg, seg.concerned(h))
		if err != nil {
			return nil, e, err
		}
		indexes[i], dropped[i] = seg.idx, g.ranks
		e.addRemoved(g.counts)
	}
	var err error
	if m.splice, err = spliceOf(run, indexes, dropped); err != nil {
		return nil, e, err
	}
	first, last := run[0].meta, run[len(run)-1].meta
	if m.splice.Rows() == 0 {
		e.Gone = []goneRange{{sh.id, first.FirstIndex, last.LastIndex}}
		return nil, e, nil
	}
	meta := segmentMeta{
		ID: s.nextID.Add(1) - 1, Shard: sh.id, Rows: uint32(m.splice.Rows()),
		FirstIndex: first.FirstIndex, LastIndex: last.LastIndex,
		LastAcqNs:   m.splice.AcqOf(uint32(m.splice.Rows() - 1)),
		PurgedAcqNs: h.newestGone, PutAcqNs: newestPutOf(run),
	}
	e.Add = []segmentMeta{meta}
	path := s.segmentPath(meta.ID)
	if err := m.write(path, meta); err != nil {
		return nil, e, s.noteDamage(err)
	}
	merged, err := s.openNew(path, meta)
	return merged, e, err
}

// write writes a segment of the rows that the splice keeps.
func (m *merger) write(path string, meta segmentMeta) error {
	text, err := json.Marshal(meta)
	if err != nil {
		return fmt.Errorf("describe segment: %w", err)
	}
	var marks []byte
	err = segment.Guard(func() error {
		marks, err = m.run[len(m.run)-1].file.SectionCopy(sectionMarks)
		return err
	}, m.mappings)
	if err != nil {
		return err
	}
	_, err = segment.WriteParts(path, &segment.PartsInput{
		Meta: text, Parts: m.parts,
		Sections: func(offsets []uint64, sizes []uint32) ([]segment.Section, error) {
			return sections(m.builder.Finish(m.splice, offsets, sizes), marks,
				m.series.Table(m.splice.Rows())), nil
		},
	})
	return err
}

// noteMerge remembers why a merge that is due was not done, nil when there is none.
func (s *Store) noteMerge(err error) {
	s.mergeMu.Lock()
	defer s.mergeMu.Unlock()
	s.mergeErr = err
}
