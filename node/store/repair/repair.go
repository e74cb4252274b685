// Package repair makes a store whose log is damaged one that opens.
//
// It works on the files of a directory that no process has open, and does not know what they are to
// a store that has. Its only function is [Log], whose [Report] says what is lost. It starts no
// goroutine.
package repair

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/node/store/writers"
	"github.com/pentad-db/pentad/node/wal"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	lostDir  = "lost" // has what repairs of the log set aside
	firstLog = "0000000001.log"
)

// Report says what a repair of the log sets aside, or would.
type Report struct {
	File       string // where the log cannot be read on; empty: there is nothing to repair
	Offset     int64
	Reason     string
	Bytes      int64 // from there on, of this file and the newer ones
	LogAppends int   // of them that can be read
	// Rows that can be read and that no segment holds, and their acqs. How many others there were
	// is not known.
	Rows                  int
	FirstAcqNs, LastAcqNs int64
	Aside                 []string // copies of the files, once it is done; a dump reads them
	// Other is the damage of a file that no repair mends, and with which the store does not open.
	Other error
}

// Log makes a store whose log is damaged one that opens, without what the log held from the
// damage on. That was acknowledged: only where no backup and no replica has it is this the way.
// With do false it only says what would be lost. The files are kept, in a directory beside the log.
//
// Errors: layout.ErrLocked; layout.ErrNoStore; *durable.CorruptError when it is not the log that is
// damaged; *formats.Error of a file of another version of the program, of which nothing is changed;
// those of the file system.
func Log(ctx context.Context, dir string, do bool) (Report, error) {
	r := &repair{ctx: ctx, dir: dir}
	if _, err := os.Stat(filepath.Join(dir, layout.ManifestFile)); errors.Is(err, os.ErrNotExist) {
		return r.report, fmt.Errorf("%s: %w", dir, layout.ErrNoStore)
	}
	lock, err := layout.Lock(dir)
	if err != nil {
		return r.report, err
	}
	defer func() { _ = lock.Close() }() // it is empty
	if r.manifest, _, err = manifest.Open(dir, 1, ""); err != nil {
		return r.report, layout.WayOut(err)
	}
	defer func() { _ = r.manifest.Close() }() // what was written is synced
	r.report.Other = layout.WayOut(r.others())
	if err = r.find(); err == nil && do && r.report.File != "" {
		err = r.cut()
	}
	if err != nil {
		return r.report, fmt.Errorf("repair the log of %s: %w", dir, err)
	}
	return r.report, nil
}

// repair is one run.
type repair struct {
	ctx      context.Context
	dir      string
	manifest *manifest.Manifest
	report   Report
	oldest   string   // file of the log; empty: there is none
	files    []string // of the log, from the damaged one on
	number   uint64   // of the last append that stays
	keptNs   int64    // acqs below are in appends that stay, or in segments
	sealed   []uint64 // per shard the LSN up to which segments hold everything
	batch    record.Batch
}

// find looks for the first position from which on the log cannot be read.
func (r *repair) find() error {
	r.sealed = make([]uint64, 2*r.manifest.Shards)
	for _, meta := range r.manifest.Live {
		r.sealed[meta.Shard] = max(r.sealed[meta.Shard], meta.LastLSN)
	}
	names, err := filepath.Glob(filepath.Join(r.dir, layout.LogDir, "*"))
	if err != nil {
		return err
	}
	if len(names) > 0 {
		r.oldest = names[0]
	}
	before := uint64(0)
	if len(names) == 0 && r.manifest.FirstLogFile != 0 {
		r.found(&durable.CorruptError{File: filepath.Join(r.dir, layout.LogDir),
			Reason: "all log files are missing"})
	}
	for i, path := range names {
		number, ok := wal.ParseName(path)
		switch {
		case !ok:
			return fmt.Errorf("%s is not a log file; move it away", path)
		case r.report.File == "" && r.gap(before, number):
			r.found(&durable.CorruptError{File: path, Reason: "files before it are missing"})
		}
		before = number
		if err := r.file(path, i == len(names)-1); err != nil {
			return err
		}
	}
	if r.report.File == "" && r.number < r.manifest.SyncedAppend {
		r.report.File = filepath.Join(r.dir, layout.LogDir)
		if len(names) > 0 {
			r.report.File = names[len(names)-1]
		}
		r.report.Reason = fmt.Sprintf("the log ends at append %d, and append %d was durable",
			r.number, r.manifest.SyncedAppend)
	}
	return r.ctx.Err()
}

// others returns the damage that keeps the store from being opened and is not of the log; nil where
// there is none. It reads no blocks.
func (r *repair) others() error {
	for _, meta := range r.manifest.Live {
		path := filepath.Join(r.dir, layout.SegmentName(meta.ID))
		seg, err := shards.Open(path, meta, nil)
		if err == nil {
			seg.Unpin()
			continue
		}
		err = shards.WithAffectedRows(path, meta, err)
		if errors.As(err, new(*durable.CorruptError)) {
			return err
		}
	}
	name := filepath.Join(r.dir, layout.WritersFile)
	_, err := os.Stat(name)
	if errors.Is(err, os.ErrNotExist) && r.manifest.NextAcqNs != 0 {
		return &durable.CorruptError{File: name, Offset: durable.WholeFile,
			Reason: "the file is missing, but the log was deleted"}
	}
	err = writers.New[struct{}]().Load(r.dir)
	if errors.As(err, new(*durable.CorruptError)) {
		return err
	}
	return nil
}

// gap reports whether files are missing between two, or with before 0 in front of the first.
func (r *repair) gap(before, number uint64) bool {
	if before == 0 {
		return r.manifest.FirstLogFile != 0 && number > r.manifest.FirstLogFile
	}
	return number != before+1
}

func (r *repair) found(d *durable.CorruptError) {
	r.report.File, r.report.Offset, r.report.Reason = d.File, d.Offset, d.Reason
}

// file reads a file: up to the first damage it stays, what follows is counted.
func (r *repair) file(path string, newest bool) error {
	size := int64(0)
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	visit := func(f *wal.Append, damage *durable.CorruptError) error {
		switch {
		case damage != nil && r.report.File == "":
			r.found(damage)
		case damage != nil:
		case r.report.File == "" && r.number != 0 && f.Number != r.number+1:
			r.found(&durable.CorruptError{File: path, Offset: f.Offset, Reason: fmt.Sprintf(
				"append %d follows append %d", f.Number, r.number)})
			r.lose(f)
		case r.report.File == "":
			r.number, size = f.Number, f.Offset+f.Bytes
			if err := r.keep(f); err != nil {
				return formats.In(path, err)
			}
		default:
			r.lose(f)
		}
		return r.ctx.Err()
	}
	tail, torn, err := wal.ReadFile(path, -1, visit)
	if err != nil {
		return err
	}
	if opens := torn && newest && r.number >= r.manifest.SyncedAppend; tail != nil && !opens &&
		r.report.File == "" {
		r.found(tail)
	}
	if r.report.File != "" {
		r.files = append(r.files, path)
		r.report.Bytes += info.Size() - size
	}
	return nil
}

// keep notes up to which acq the log is whole with an append that stays.
//
// Errors: *formats.Error of rows of another version of the program.
func (r *repair) keep(f *wal.Append) error {
	for i := range f.Entries {
		e := &f.Entries[i]
		var h segment.RowsHeader
		switch {
		case e.Kind == layout.EntryNextAcq:
			if ns, _, err := layout.ParseNextAcqEntry(e.Data); err == nil {
				r.keptNs = max(r.keptNs, ns)
			}
		case e.Kind == layout.EntryRows:
			err := segment.ParseRowsEntry(e.Data, &h, &r.batch)
			if formats.Is(err) {
				return err
			}
			if err == nil {
				r.keptNs = max(r.keptNs, layout.AllocatedUntil(&h, &r.batch))
			}
		}
	}
	return nil
}

// lose counts an append that can be read and is set aside.
func (r *repair) lose(f *wal.Append) {
	r.report.LogAppends++
	for i := range f.Entries {
		e := &f.Entries[i]
		var h segment.RowsHeader
		if e.Kind != layout.EntryRows || segment.ParseRowsEntry(e.Data, &h, &r.batch) != nil ||
			int(e.Shard) < len(r.sealed) && e.LSN <= r.sealed[e.Shard] {
			continue
		}
		n := r.batch.Len()
		if r.report.Rows += n; r.report.FirstAcqNs == 0 {
			r.report.FirstAcqNs = h.FirstAcqNs
		}
		r.report.LastAcqNs = max(r.report.LastAcqNs, h.FirstAcqNs+int64(n)-1)
	}
}

// cut sets aside what is found. The order lets a repair that was cut short be done again: copies
// first, then the newest files go, then the damaged one is cut, and in the end the manifest says
// where the log ends now.
func (r *repair) cut() error {
	aside := filepath.Join(r.dir, lostDir)
	if err := durable.MakeDir(aside); err != nil {
		return err
	}
	for _, path := range r.files {
		to := filepath.Join(aside, filepath.Base(path))
		if err := copyAside(path, to); err != nil {
			return err
		}
		r.report.Aside = append(r.report.Aside, to)
	}
	for _, path := range slices.Backward(r.files) {
		var err error
		if path == r.report.File && (r.report.Offset > 0 || path == r.oldest) {
			err = cutFile(path, r.report.Offset) // a log is never without a file
		} else if err = os.Remove(path); err == nil {
			err = durable.SyncDir(filepath.Dir(path))
		}
		if err != nil {
			return err
		}
	}
	from, ok := wal.ParseName(r.oldest)
	if !ok {
		from = 1
		if err := durable.MakeDir(filepath.Join(r.dir, layout.LogDir)); err != nil {
			return err
		}
		name := filepath.Join(r.dir, layout.LogDir, firstLog)
		if err := durable.ReplaceFile(name, nil); err != nil {
			return err
		}
	}
	if err := r.forgetWriters(); err != nil {
		return err
	}
	// Events and segments that stay may be newer than what is lost.
	r.manifest.BeginTimeline(r.keptNs)
	return r.manifest.Append(manifest.Edit{LogTruncatedAfter: &r.number, FirstLogFile: from})
}

// forgetWriters makes WRITERS know no batch that may be among what is lost: it is sent again.
func (r *repair) forgetWriters() error {
	t := writers.New[struct{}]()
	err := t.Load(r.dir)
	if errors.As(err, new(*durable.CorruptError)) || err == nil && t.Count() == 0 {
		return nil // damage of it is another matter
	}
	if err != nil {
		return err
	}
	return writers.Replace(r.dir, t.Encode(max(r.keptNs, r.manifest.NextAcqNs)))
}

func cutFile(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Sync(), f.Close())
}

// copyAside makes a durable copy of a file; one that is there, of another size, is of an earlier
// repair and is kept.
func copyAside(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }() // only read
	for n := 1; ; n++ {
		if _, err := os.Stat(to); errors.Is(err, os.ErrNotExist) {
			break
		}
		to = fmt.Sprintf("%s.%d", to, n)
	}
	dst, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	if err = errors.Join(err, dst.Sync(), dst.Close()); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(to))
}
