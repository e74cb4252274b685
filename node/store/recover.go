package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/record"
)

// maxClockWait is how long Open waits for the wall clock to pass the last promise. A clock that
// is further behind was set back: acq then goes on from the promise.
const maxClockWait = 2 * time.Second

// recover brings a locked directory into memory: manifest, sealed segments, writers, then the
// log replayed onto them.
func (s *Store) recover(ctx context.Context, report *Report, fileNs int64) error {
	var err error
	if s.manifest, report.ManifestCut, err = openManifest(s.opt.Dir, s.opt.Shards,
		s.opt.Group); err != nil {
		return err
	}
	if err := s.manifest.checkRole(&s.opt); err != nil {
		return err
	}
	s.replicated = s.manifest.replicated
	s.noteSlots()
	if err := s.adopt(); err != nil {
		return err
	}
	s.shards, s.all = newShards(s.manifest.shards)
	s.nextID.Store(s.manifest.nextID)
	if report.RemovedFiles, err = s.removeLeftovers(); err != nil {
		return err
	}
	if err := s.openSegments(); err != nil {
		return err
	}
	for _, g := range s.manifest.gone {
		s.all[g.Shard].skipTo(g.LastIndex)
	}
	s.publishHistory()
	if err := s.checkComplete(); err != nil {
		return err
	}
	if err := s.writers.load(s.opt.Dir); err != nil {
		return err
	}
	r := replay{store: s, report: report, clockNs: s.manifest.clockNs}
	r.reach(s.manifest.applied)
	if s.manifest.copied == nil { // else the rows before them may be still to come
		// The log says so, too, unless its end was lost.
		r.clockNs = max(r.clockNs, s.manifest.lastEvent()+1)
	}
	s.evidence.stepped(s.manifest.steps)
	s.log, report.Log, err = segment.OpenLog(filepath.Join(s.opt.Dir, logDir),
		segment.LogOptions{Durable: s.manifest.flush, Oldest: s.manifest.logFrom}, r.entry)
	if err != nil {
		return repairable(err)
	}
	s.manifest.logEnd = s.log.LastSynced
	if r.lines > s.manifest.number {
		return corrupt(filepath.Join(s.opt.Dir, manifestFile), s.manifest.size, fmt.Sprintf(
			"it ends with line %d, and had %d lines when the log was written: its end is missing",
			s.manifest.number, r.lines))
	}
	if err := s.noteLogFrom(); err != nil {
		return err
	}
	s.manifest.beginTimeline(r.clockNs)
	r.insertAll()
	if err := s.startClock(ctx, &r, fileNs); err != nil {
		return err
	}
	if floor := s.clock.floor(); floor > 0 && s.manifest.steps.TimeNs == 0 {
		// What the clock reads now may be years less than that, and steps would go on from there.
		s.evidence.anchor(max(1, floor-2*promiseNs))
	}
	s.noteReleases()
	return nil
}

// noteLogFrom makes a manifest that does not say it yet say where the log begins, so that its first
// files are missed when they are lost.
func (s *Store) noteLogFrom() error {
	if s.manifest.logFrom != 0 {
		return nil
	}
	first := slices.Min(slices.Collect(maps.Keys(s.log.Files())))
	err := s.manifest.append(edit{LogFrom: first})
	if segment.IsNoSpace(err) {
		return nil // the next start tries again
	}
	return err
}

// repairable adds to the error of a damaged log what can be done.
func repairable(err error) error {
	if !errors.As(err, new(*segment.CorruptError)) {
		return err
	}
	return fmt.Errorf("%w: what it held was acknowledged: take it from a backup or a replica, or "+
		"let pentad repair set it aside", err)
}

// checkComplete refuses a directory that lost what the manifest implies: it says where the log
// begins; a sealed segment was in the log before, which never is without a file; and WRITERS is
// saved before the log is released.
func (s *Store) checkComplete() error {
	if len(s.manifest.live) > 0 || s.manifest.logFrom != 0 {
		logs, err := os.ReadDir(filepath.Join(s.opt.Dir, logDir))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("list log: %w", err)
		}
		if len(logs) == 0 {
			return repairable(corrupt(filepath.Join(s.opt.Dir, logDir), 0,
				"all log files are missing"))
		}
	}
	if s.manifest.clockNs != 0 {
		name := filepath.Join(s.opt.Dir, writersFile)
		if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
			return corrupt(name, 0, "the file is missing, but the log was released")
		}
	}
	return nil
}

// removeLeftovers deletes files of seals that were cut short before the manifest named them.
func (s *Store) removeLeftovers() ([]string, error) {
	live := map[string]bool{}
	for _, m := range s.manifest.live {
		live[filepath.Base(s.segmentPath(m.ID))] = true
	}
	entries, err := os.ReadDir(s.opt.Dir)
	if err != nil {
		return nil, fmt.Errorf("list directory: %w", err)
	}
	var removed []string
	for _, e := range entries {
		name := e.Name()
		leftover := strings.HasSuffix(name, ".tmp") ||
			strings.HasSuffix(name, segmentSuffix) && !live[name]
		if !leftover {
			continue
		}
		if err := os.Remove(filepath.Join(s.opt.Dir, name)); err != nil {
			return nil, fmt.Errorf("remove leftover: %w", err)
		}
		removed = append(removed, name)
	}
	return removed, nil
}

func (s *Store) openSegments() error {
	live := slices.Clone(s.manifest.live)
	slices.SortFunc(live, func(a, b segmentMeta) int {
		return cmp.Compare(a.FirstIndex, b.FirstIndex)
	})
	for _, m := range live {
		path := s.segmentPath(m.ID)
		seg, err := openSegment(path, m, s.blockClock)
		if errors.Is(err, os.ErrNotExist) {
			return &segment.CorruptError{File: path, Reason: "the manifest names it", Err: err}
		}
		if err != nil {
			return err
		}
		marks, err := index.ParseWatermarks(seg.file.Section(sectionMarks))
		if err != nil {
			seg.release()
			return &segment.CorruptError{File: path, Reason: "watermarks", Err: err}
		}
		s.all[m.Shard].addRecovered(seg, marks)
	}
	return nil
}

// addRecovered puts a segment behind those that are there.
func (sh *shard) addRecovered(seg *sealedSegment, marks *index.Watermarks) {
	sh.change(func(old *snapshot) *snapshot {
		next := old.with(append(slices.Clip(old.sealed), seg), old.frozen)
		if next.first = max(old.first, seg.meta.LastIndex+1); !sh.isAside() {
			marks.Raise(old.head.Watermarks())
			next.head = index.NewHead(marks)
		}
		sh.lastIndex = next.first - 1
		return next
	})
	seg.release()
}

// skipTo makes the shard go on after a log index that no segment and no head holds: all was purged.
func (sh *shard) skipTo(last uint64) {
	sh.change(func(old *snapshot) *snapshot {
		if old.first > last {
			return nil
		}
		next := old.with(old.sealed, old.frozen)
		next.first = last + 1
		sh.lastIndex = last
		return next
	})
}

// replay feeds log entries into the heads.
type replay struct {
	store   *Store
	report  *Report
	batch   record.Batch
	clockNs int64 // no acq below this may be given
	clean   bool  // the last entry was that of a clean close
	applied uint64
	lines   uint64 // that the manifest had when the log was written
	aside   map[*shard]*replayAside
}

// reach notes how far the log of a replica was applied.
func (r *replay) reach(at position) {
	r.applied, r.clockNs = max(r.applied, at.Index), max(r.clockNs, at.NextNs)
}

func (r *replay) entry(file uint64, e segment.Entry) error {
	s := r.store
	r.report.ReplayedEntries++
	switch e.Kind {
	case entryClock:
		ns, clean, err := parseClockEntry(e.Data)
		if err != nil {
			return err
		}
		if m := s.manifest.copied; m == nil || file >= m.FirstLog {
			r.clockNs = max(r.clockNs, ns)
		}
		r.clean = clean
		if s.files[file] == nil {
			s.noteEntries(file, nil)
		}
		return nil
	case entryRows:
		r.clean = false
		return r.rows(file, e)
	case entryApplied:
		at, err := parseAppliedEntry(e.Data)
		if m := s.manifest.copied; m != nil && file < m.FirstLog {
			at.NextNs = 0
		}
		r.reach(at)
		s.noteEntries(file, nil)
		return err
	case entryLines:
		n, err := parseLinesEntry(e.Data)
		r.lines = max(r.lines, n)
		s.noteEntries(file, nil)
		return err
	default:
		return fmt.Errorf("log entry of kind %d; this version knows 1 to 4", e.Kind)
	}
}

func (r *replay) rows(file uint64, e segment.Entry) error {
	s := r.store
	var h segment.RowsHeader
	if err := segment.ParseRowsEntry(e.Data, &h, &r.batch); err != nil {
		return err
	}
	if err := checkEntryShard(&e, &h, len(s.shards)); err != nil {
		return err
	}
	s.noteEntries(file, []segment.Entry{e})
	n := int64(r.batch.Len())
	r.clockNs = max(r.clockNs, givenUntil(&h, &r.batch))
	if h.Writer != ([16]byte{}) {
		id, a := WriterSeq{h.Writer, h.Seq},
			answer{seq: h.Seq, first: h.BatchFirstAcqNs, records: h.BatchRecords}
		if s.replicated {
			s.writers.recordInOrder(id, a)
		} else {
			s.writers.record(id, a)
		}
	}
	sh := s.all[e.Shard]
	if e.Index <= sh.sealedUpTo() {
		return nil // a sealed segment holds it
	}
	if e.Index != sh.lastIndex+1 {
		return fmt.Errorf("shard %d: log entry %d follows entry %d", e.Shard, e.Index, sh.lastIndex)
	}
	sh.lastIndex = e.Index
	r.report.ReplayedRows += int(n)
	if sh.isAside() {
		r.below(sh, &h)
		return nil
	}
	head := sh.snapshot.Load().head
	head.Insert(&r.batch)
	s.headBytes += head.Grown()
	if s.isFull(head) { // many frozen heads may have been lost at once
		sh.freeze()
	}
	return nil
}

// givenUntil returns the acq below which those that an entry of rows took are. It is never above
// what the clock gave: a copy that ends with the entry lacks what was given from there on.
func givenUntil(h *segment.RowsHeader, rows *record.Batch) int64 {
	if h.Shared { // below the horizon: the put took one, whose rows have lower ones
		return h.BatchFirstAcqNs + 1
	}
	until := max(h.BatchFirstAcqNs+int64(h.BatchRecords), h.FirstAcqNs+int64(rows.Len()))
	if n := rows.Len(); h.Stamped && n > 0 {
		until = max(until, rows.AcqNs[n-1]+1)
	}
	return until
}

// startClock makes the clock start above everything that was given or promised before.
func (s *Store) startClock(ctx context.Context, r *replay, fileNs int64) error {
	floor := r.clockNs
	s.clock.opened = floor
	if s.manifest.copied == nil { // else its acqs are those of another node's clock
		s.time.Begin(floor, fileNs)
	}
	if s.replicated {
		s.applied = position{Index: r.applied, NextNs: floor}
		s.durable.Store(r.applied) // opening has synced the log
		if c := s.manifest.copied; c != nil {
			s.clock.void(c.VoidNs)
		}
		s.clock.drive(s.applied)
		return nil
	}
	if s.manifest.copied != nil {
		s.clock.startCopy(floor)
		return nil
	}
	if !r.clean && floor > 0 {
		floor += promiseNs
	}
	if wait := time.Duration(floor - s.opt.Now()); wait > 0 && wait < maxClockWait {
		r.report.WaitedNs = int64(wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	// The log implies one promise beyond what it proves, and that one is used up by floor.
	s.clock.next, s.clock.logged = floor, floor-promiseNs
	return nil
}
