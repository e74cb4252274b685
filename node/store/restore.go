package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/sdk/api"
)

// RestoreOptions of a restore. The zero value restores everything.
type RestoreOptions struct {
	UntilAcqNs int64 // only rows with a smaller acq; 0: all that the backup has
	CheckOnly  bool  // read all parts and write nothing
	// Extra gets the files that parts keep beside the store, each as the newest part that is
	// restored has it, after all was checked and before dir appears; may be nil.
	Extra func(files []ExtraFile, untilAcqNs int64) error
	// Progress is called now and then with the bytes checked and written; may be nil.
	Progress func(checked, written int64)
}

// RestoreReport says what was restored.
type RestoreReport struct {
	Parts      int
	Rows       int64 // RowsUnknown when CheckOnly is given and UntilAcqNs divides a part
	UntilAcqNs int64
	Check      api.CheckReport // of the files of the backup
}

// RowsUnknown stands for a number of rows that only a restore tells.
const RowsUnknown = -1

// CheckBackup reads every file of the parts of a backup, and checks that they hold all rows from
// the first one on. Damage, and what is missing, is in the report.
func CheckBackup(ctx context.Context, from string, opt CheckOptions) (api.CheckReport, error) {
	c := newChecker(ctx, opt)
	parts, err := readParts(from)
	if err != nil {
		err = c.note(err)
	} else if len(parts) == 0 {
		err = noParts(from)
	}
	for i, p := range parts {
		gap := p.starts()
		if i > 0 {
			gap = p.follows(parts[i-1])
		}
		if gap != nil {
			c.damaged(filepath.Join(p.dir, partFile), segment.WholeFile, "%v", gap)
		}
		if err == nil {
			err = p.verify(c)
		}
	}
	return c.end(), err
}

// ErrUnfinished means that a restore into a directory was interrupted.
var ErrUnfinished = errors.New("a restore was interrupted before it was whole; remove the " +
	"directory, and restore again")

// CheckFinished returns ErrUnfinished for the directory of a store that a restore has begun and not
// ended: what it had so far is beside the place of the store.
func CheckFinished(dir string) error {
	_, err := os.Lstat(dir)
	if _, begun := os.Lstat(dir + ".tmp"); begun == nil && errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s: %w", filepath.Dir(dir), ErrUnfinished)
	}
	return nil
}

// Restore makes dir, which must not exist, the directory of a store that holds what a backup holds.
// All parts are read and compared with their checksums before anything is written, and in the end
// the store is opened and its rows are counted. dir appears whole or not at all. It is a store of
// its own. A backup of it continues the one that it came from if it holds all of that, and nothing
// else has continued it.
//
// Errors: ErrExists; ErrBackupGap; *segment.CorruptError; those of the file system.
func Restore(
	ctx context.Context, from, dir string, opt RestoreOptions,
) (RestoreReport, error) {
	r := &restore{opt: opt}
	r.checker = newChecker(ctx, CheckOptions{Progress: func(done *api.CheckReport) {
		if opt.Progress != nil {
			opt.Progress(done.Bytes, r.written)
		}
	}})
	err := r.choose(from)
	if err == nil {
		err = r.verify()
	}
	r.report.Check = r.checker.end()
	switch {
	case err != nil:
	case opt.CheckOnly:
		r.report.Rows = r.rowsOfParts()
	default:
		err = r.restore(dir)
	}
	if err != nil {
		return r.report, fmt.Errorf("restore %s: %w", from, err)
	}
	return r.report, nil
}

// restore is one run.
type restore struct {
	*checker
	opt       RestoreOptions
	report    RestoreReport
	parts     []*BackupPart // those that hold rows to be restored
	backdated *BackupPart   // that holds the backdated rows, nil for none
	until     int64
	events    []event.Meta
	dir       string // where the store is written
	live      []segmentMeta
	verified  []*BackupPart // parts, and aside
	next      []uint64      // per shard the log index of its next segment
	written   int64
	source    *Store // of nothing but options, for extracting rows
}

// choose takes the parts from the first row on.
func (r *restore) choose(from string) error {
	parts, err := BackupParts(from)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return noParts(from)
	}
	if err := parts[0].starts(); err != nil {
		return err
	}
	end := parts[len(parts)-1].UntilAcqNs
	r.until = end
	if r.opt.UntilAcqNs != 0 {
		r.until = r.opt.UntilAcqNs
	}
	if r.until > end {
		return fmt.Errorf("rows up to acq %d are asked for; the backup ends at %d", r.until, end)
	}
	for _, p := range parts {
		if p.FromAcqNs < r.until {
			r.parts = append(r.parts, p)
		}
	}
	r.backdated = newestBackdated(parts)
	if r.backdated != nil && !slices.Contains(r.parts, r.backdated) {
		r.verified = []*BackupPart{r.backdated}
	}
	r.verified = append(r.verified, r.parts...)
	r.report.Parts, r.report.UntilAcqNs = len(r.parts), r.until
	r.events = eventsUntil(parts[len(parts)-1].State.Events, r.until)
	return nil
}

func noParts(dir string) error {
	return fmt.Errorf("%s holds no part of a backup: %w", dir, os.ErrNotExist)
}

// verify reads all files and returns the first damage.
func (r *restore) verify() error {
	for _, p := range r.verified {
		if err := p.verify(r.checker); err != nil {
			return err
		}
	}
	if r.checker.report.Damages > 0 {
		d := r.checker.report.Damage[0]
		return corrupt(d.File, d.Offset, d.Reason)
	}
	return nil
}

func (r *restore) restore(dir string) error {
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("%s: %w", dir, ErrExists)
	}
	r.dir = dir + ".tmp"
	opt, err := Options{Dir: r.dir}.withDefaults()
	if err != nil {
		return err
	}
	r.source, r.next = &Store{opt: opt}, make([]uint64, 2*r.parts[0].Shards)
	err = os.RemoveAll(r.dir) // of an interrupted run
	if err == nil {
		err = durable.MakeDir(filepath.Join(r.dir, layout.LogDir))
	}
	if err == nil {
		err = r.write()
	}
	if err == nil {
		err = r.prove()
	}
	if err == nil && r.opt.Extra != nil {
		err = r.opt.Extra(besidesOf(r.parts), r.until)
	}
	if err == nil {
		err = os.Rename(r.dir, dir)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(r.dir))
	}
	return durable.SyncDir(filepath.Dir(dir))
}

// write writes segments, writers, an empty log and, last, the manifest.
func (r *restore) write() error {
	if err := r.files(r.file); err != nil {
		return err
	}
	last := r.parts[len(r.parts)-1]
	w := newWriters()
	if err := w.load(last.dir); err != nil {
		return err
	}
	table := w.encode(r.until)
	if err := durable.ReplaceFile(filepath.Join(r.dir, layout.WritersFile), table); err != nil {
		return err
	}
	log, _, err := segment.OpenLog(filepath.Join(r.dir, layout.LogDir), segment.LogOptions{},
		func(uint64, segment.Entry) error { return nil })
	if err != nil {
		return err
	}
	_, err = log.Append([]segment.Entry{layout.ClockEntry(r.until, true)})
	if err = errors.Join(err, log.Close()); err != nil {
		return err
	}
	first := last.State
	first.Format, first.Shards, first.Store = formatVersion, last.Shards, newStoreID()
	first.Number, first.LogFlush, first.LogFrom = 1, 0, 1
	first.ClockNs, first.Add, first.Gone = r.until, r.live, nil
	first.Replicated, first.Applied = false, nil
	first.Slots, first.IndexBase = nil, 0
	first.Lineage = first.Lineage.With(newTimeline(r.until)) // purges that stay may be newer
	// Its events may be newer than its rows, which no copy may have.
	first.Copy = nil
	first.Events = r.events
	return durable.ReplaceFile(filepath.Join(r.dir, layout.ManifestFile), appendEdit(nil, first))
}

// eventsUntil returns the events of a store as it was at an acq, and all its purges: what these
// removed is in older parts, and is purged once more.
func eventsUntil(events []event.Meta, untilNs int64) []event.Meta {
	var kept []event.Meta
	for _, e := range events {
		if e.Kind.Purges() || e.AcqNs < untilNs {
			e.Done, e.Removed = false, 0
			kept = append(kept, e)
		}
	}
	return kept
}

// file restores what is asked for of a file: a copy, or the rows below the end.
func (r *restore) file(p *BackupPart, f *backupFile) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if f.FirstAcqNs >= r.until {
		return nil
	}
	path := filepath.Join(p.dir, f.Name)
	seg, err := openPart(path, f)
	if err != nil {
		return err
	}
	defer seg.release()
	meta := seg.meta
	if f.LastAcqNs < r.until {
		meta = r.place(meta)
		text, err := json.Marshal(meta)
		if err == nil {
			err = segment.CopySealed(r.source.segmentPath(meta.ID), seg.file, text)
		}
		if err != nil {
			return err
		}
	} else {
		meta, err = extract(r.source, seg, math.MinInt64, r.until,
			func(rows segmentMeta) (string, segmentMeta) {
				rows = r.place(rows)
				return r.source.segmentPath(rows.ID), rows
			})
		if err != nil {
			return err
		}
	}
	r.live = append(r.live, meta)
	r.report.Rows += int64(meta.Rows)
	r.written += f.Bytes
	return r.read(0)
}

// place gives a segment its number, and a place behind the others of its shard.
func (r *restore) place(meta segmentMeta) segmentMeta {
	r.next[meta.Shard]++
	meta.ID = uint64(len(r.live)) + 1
	meta.FirstIndex, meta.LastIndex = r.next[meta.Shard], r.next[meta.Shard]
	return meta
}

// openPart opens a segment of a part, checking that it is what the part says.
func openPart(path string, f *backupFile) (*sealedSegment, error) {
	file, err := segment.OpenSealed(path, nil)
	if err != nil {
		return nil, err
	}
	var meta segmentMeta
	err = json.Unmarshal(file.Meta(), &meta)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil || meta.Shard != f.Shard || meta.Rows != f.Rows || meta.LastAcqNs != f.LastAcqNs {
		return nil, corrupt(path, 0, "it describes another segment than the part does")
	}
	return openSegment(path, meta, nil)
}

// prove opens the store that was written and counts its rows.
func (r *restore) prove() error {
	s, _, err := OpenSnapshot(r.ctx, r.dir)
	if err != nil {
		return err
	}
	rows := s.Stats().Rows
	err = s.Close()
	if err == nil && rows != r.report.Rows {
		err = fmt.Errorf("the store holds %d rows; %d were restored", rows, r.report.Rows)
	}
	return err
}
