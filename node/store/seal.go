package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/sdk/record"
)

// sealRequest asks the sealer to seal the oldest immutable head of the shard, or, with done set, to
// report that everything asked for before is sealed.
type sealRequest struct {
	shard *shard
	done  chan error
}

// Seal moves every row that is in a head now into sealed segments, empties the log of them and
// waits for it. A node calls
// it for measurements and before copying files; otherwise heads are sealed when they are full,
// because small segments slow queries down.
func (s *Store) Seal(ctx context.Context) error {
	if s.closed.Load() {
		return ErrClosed
	}
	done := make(chan error, 1)
	var rollErr error
	err := s.onCommitter(ctx, func() {
		for _, sh := range s.all {
			s.rotate(sh)
		}
		s.log.Roll() // once all is sealed, no file of the log is needed but an empty one
		if rollErr = s.logLease(); rollErr != nil {
			return
		}
		select {
		case s.seals <- sealRequest{done: done}:
		case <-s.stop:
		}
	})
	if err = cmp.Or(err, rollErr); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-s.stop:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sealLoop is the only goroutine that writes heads to segments. A seal that fails is tried again,
// at least once a minute: the rows stay in the log and in memory meanwhile, and puts are refused
// once the heads are full.
func (s *Store) sealLoop() {
	var q sealQueue
	for {
		select {
		case r := <-s.seals:
			if r.shard != nil {
				q.shards = append(q.shards, r.shard)
			}
			var err error
			if q.retry == nil || r.done != nil {
				err = s.sealQueued(&q)
			}
			if r.done != nil {
				r.done <- cmp.Or(err, s.releaseLogNow())
			}
		case <-q.retry:
			_ = s.sealQueued(&q) // a put that waits for room sees it
		case <-s.stop:
			return
		}
	}
}

func (s *Store) sealOldest(sh *shard) error {
	began := time.Now()
	if err := s.manifestFailure(); err != nil {
		return fmt.Errorf("seal shard %d: %w", sh.id, err)
	}
	if err := s.syncReplica(); err != nil {
		return fmt.Errorf("seal shard %d: %w", sh.id, err)
	}
	immutable := sh.state.Load().immutable[0]
	var seg *sealedSegment
	var e manifest.Edit
	err := s.opt.Background.Seals.Run(s.stop, ErrClosed, func() (err error) {
		seg, e, err = s.writeSegment(sh, immutable)
		return err
	})
	if err != nil {
		return fmt.Errorf("seal shard %d: %w", sh.id, err)
	}
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	if err := s.manifest.Append(e); err != nil {
		return fmt.Errorf("seal shard %d: %w", sh.id, s.discard(seg, err))
	}
	sh.replace(immutable, seg)
	s.behind.SetSegments(mostMergeable(s.all))
	s.heads.Add(immutable.head.Grown() - immutable.head.Bytes())
	s.counters.seals.Add(1)
	if seg != nil {
		s.counters.sealedRows.Add(int64(seg.meta.Rows))
	}
	s.counters.sealNs.Add(int64(time.Since(began)))
	s.releaseErr.Set(releaseFailure(s.releaseLog())) // the next seal tries again
	s.wakeMerger()
	return nil
}

// writeSegment clusters the rows of an immutable head into a new segment file and opens it, without
// those that were purged; there is no segment when none is left. The edit is to make it live.
func (s *Store) writeSegment(
	sh *shard, immutable *immutableHead,
) (*sealedSegment, manifest.Edit, error) {
	work := sealMemories.Get().(*sealMemory)
	defer work.giveBack()
	rows := &work.rows
	flags := immutable.head.ReadAll(rows)
	if uint64(rows.Len()) > math.MaxUint32 {
		return nil, manifest.Edit{}, fmt.Errorf("%d rows in one head", rows.Len())
	}
	if err := clearDoubtful(sh, immutable, rows, flags); err != nil {
		return nil, manifest.Edit{}, err
	}
	h := s.tombstones.Load()
	e := manifest.Edit{Removed: s.dropPurged(rows, flags, h)}
	if rows.Len() == 0 {
		e.Gone = []manifest.GoneRange{{Shard: sh.id, FirstIndex: immutable.first,
			LastIndex: immutable.last}}
		return nil, e, nil
	}
	meta := manifest.Segment{
		ID: s.nextID.Add(1) - 1, Shard: sh.id, Rows: uint32(rows.Len()),
		FirstIndex: immutable.first, LastIndex: immutable.last,
		LastAcqNs: rows.AcqNs[rows.Len()-1], PurgedAcqNs: h.NewestRemovable,
		PutAcqNs: immutable.info.putNs,
	}
	e.Add = []manifest.Segment{meta}
	path := s.segmentPath(meta.ID)
	marks := index.AppendWatermarks(nil, immutable.head.Watermarks())
	if err := work.write(path, meta, rows, flags, marks, s.opt.Index); err != nil {
		return nil, e, err
	}
	seg, err := s.openNew(path, meta)
	return seg, e, err
}

// openNew opens a segment that was just written. The manifest does not name it, so it goes when it
// cannot be read.
func (s *Store) openNew(path string, meta manifest.Segment) (*sealedSegment, error) {
	seg, err := openSegment(path, meta, s.blockClock)
	if err != nil {
		return nil, errors.Join(err, os.Remove(path))
	}
	return seg, nil
}

// sealMemory is the memory of a seal, several times that of the rows. The next one of any store
// takes it: memory that was never touched costs more than what is done in it.
type sealMemory struct {
	rows        record.Batch
	layout      index.Layout
	partitioner index.Partitioner
}

var sealMemories = sync.Pool{New: func() any { return new(sealMemory) }}

// keptPayloads is how many bytes of payloads a seal may leave room for to the next one.
const keptPayloads = 64 << 20

func (w *sealMemory) giveBack() {
	if cap(w.rows.Data) > keptPayloads {
		w.rows.Data = nil
	}
	sealMemories.Put(w)
}

// write writes a segment of rows that are in acq order.
func (w *sealMemory) write(
	path string, meta manifest.Segment, rows *record.Batch, flags []uint64, marks []byte,
	opt index.Options,
) error {
	text, err := json.Marshal(meta)
	if err != nil {
		return fmt.Errorf("describe segment: %w", err)
	}
	built := &w.layout
	w.partitioner.With(opt).All(rows, built)
	_, err = segment.WriteRuns(path, &segment.RunsInput{
		Meta: text,
		Runs: func(add func(*segment.RowRun) error) error {
			return add(&segment.RowRun{Rows: rows, Order: built.Order, Keys: &built.Keys,
				BlockEnds: built.BlockEnds, Flags: flags})
		},
		Sections: func(offsets []uint64, sizes []uint32) ([]segment.Section, error) {
			return sections(index.Build(rows, built, flags, offsets, sizes), marks,
				index.SeriesOf(&built.Keys)), nil
		},
	})
	return err
}

// sections is what a segment file holds beside its blocks. Its series may be nil.
func sections(idx *index.Segment, marks, series []byte) []segment.Section {
	all := []segment.Section{
		{ID: layout.SectionDirectory, Data: idx.AppendDirectory(nil)},
		{ID: layout.SectionPostings, Data: idx.AppendPostings(nil)},
		{ID: layout.SectionRanks, Data: idx.AppendRanks(nil)},
		{ID: layout.SectionMarks, Data: marks},
	}
	if series != nil {
		all = append(all, segment.Section{ID: layout.SectionSeries, Data: series})
	}
	return all
}

func (s *Store) segmentPath(id uint64) string {
	return filepath.Join(s.opt.Dir, layout.SegmentName(id))
}

// openSegment maps a segment file and loads its index, checking that it is the one meant.
func openSegment(
	path string, want manifest.Segment, clock *segment.VerifyClock,
) (*sealedSegment, error) {
	file, err := segment.OpenSealed(path, clock)
	if err != nil {
		return nil, err
	}
	var meta manifest.Segment
	if err := json.Unmarshal(file.Meta(), &meta); err != nil || meta != want {
		_ = file.Close()
		return nil, corrupt(path, 0, "describes another segment than the manifest does")
	}
	idx, err := index.Parse(file.Section(layout.SectionDirectory),
		file.Section(layout.SectionPostings), file.Section(layout.SectionRanks))
	if err != nil {
		_ = file.Close()
		return nil, layout.BadSection(path, "index sections", err)
	}
	if err := meta.CheckAcqs(idx); err != nil {
		_ = file.Close()
		return nil, corrupt(path, 0, err.Error())
	}
	seg := &sealedSegment{meta: meta, file: file, idx: idx}
	seg.purgedTo.Store(meta.PurgedAcqNs)
	seg.retain()
	if src := file.Section(layout.SectionSeries); src != nil {
		if seg.series, err = index.ParseSeries(src); err != nil {
			_ = file.Close()
			return nil, layout.BadSection(path, "series table", err)
		}
	}
	return seg, nil
}

// noteFile remembers which log file holds the newest entries of which shards. The committer
// calls it after each flush.
func (s *Store) noteFile(file uint64, entries []segment.Entry) {
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	s.noteEntries(file, entries)
}

func (s *Store) noteEntries(file uint64, entries []segment.Entry) {
	last := s.files[file]
	if last == nil {
		last = make([]uint64, len(s.all))
		s.files[file] = last
	}
	for i := range entries {
		if entries[i].Kind == layout.EntryRows {
			last[entries[i].Shard] = max(last[entries[i].Shard], entries[i].Index)
		}
	}
}

// oldestNeeded returns the oldest log file that holds an unsealed entry and the shard it is of.
func (s *Store) oldestNeeded() (file uint64, sh *shard) {
	file = math.MaxUint64
	for f, last := range s.files {
		if f > file {
			continue
		}
		for id, sh2 := range s.all {
			if last[id] > sh2.sealedUpTo() {
				file, sh = f, sh2
				break
			}
		}
	}
	return file, sh
}

// pinning returns the shard whose unsealed rows keep the oldest log file, when there are too many
// files and it is not already being sealed.
func (s *Store) pinning() *shard {
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	if len(s.files) <= s.opt.LogFiles {
		return nil
	}
	_, sh := s.oldestNeeded()
	if sh == nil || len(sh.state.Load().immutable) > 0 {
		return nil
	}
	return sh
}

func (s *Store) releaseLogNow() error {
	defer s.wakeMerger() // a purge may be done
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	err := s.releaseLog()
	s.releaseErr.Set(releaseFailure(err))
	return err
}

// releaseFailure says why files of the log that are not needed are still there, nil for none.
func releaseFailure(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("release log: %w", err)
}

// releaseLog deletes log files whose rows are all in sealed segments. What else they hold, the
// answers given to writers and the clock, is saved first.
func (s *Store) releaseLog() error {
	needed, _ := s.oldestNeeded()
	newest := uint64(0)
	for f := range s.files {
		newest = max(newest, f)
	}
	needed = min(needed, newest)
	var old []uint64
	for f := range s.files {
		if f < needed {
			old = append(old, f)
		}
	}
	if len(old) == 0 {
		return nil
	}
	e, err := s.saveAnswers()
	if err != nil {
		return err
	}
	e.LogFrom = needed
	if err := s.manifest.Append(e); err != nil {
		return err
	}
	if err := s.log.Remove(needed); err != nil {
		return err
	}
	for _, f := range old {
		delete(s.files, f)
	}
	return nil
}
