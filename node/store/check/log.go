package check

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/wal"
	"github.com/pentad-db/pentad/sdk/record"
)

// Log is the check of a log, or of one file of it. NewLog begins one.
type Log struct {
	*Checker
	path          string
	number        uint64   // of the last append; 0: not known
	durable       uint64   // an append that the manifest names; 0: none
	next          []uint64 // per shard the LSN of the next entry; 0: not known
	manifestLines uint64   // that the manifest must have
	sealed        []uint64 // per shard the LSN up to which segments hold everything
	batch         record.Batch
}

// NewLog begins the check of files of a log, of which nothing else is known.
func NewLog(c *Checker) *Log { return &Log{Checker: c} }

// log checks all files of the log, and that its entries continue what segments hold.
func (c *Checker) log(dir string, m *manifest.Manifest) error {
	l := NewLog(c)
	if m != nil {
		l.next, l.sealed = make([]uint64, 2*m.Shards), make([]uint64, 2*m.Shards)
		for _, meta := range m.Live {
			l.sealed[meta.Shard] = max(l.sealed[meta.Shard], meta.LastLSN)
		}
		for _, g := range m.EmptyLSNRanges {
			l.sealed[g.Shard] = max(l.sealed[g.Shard], g.LastLSN)
		}
	}
	entries, err := os.ReadDir(filepath.Join(dir, layout.LogDir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("list log: %w", err)
	}
	if len(entries) == 0 && m != nil &&
		(len(m.Live) > 0 || m.SyncedAppend > 0 || m.FirstLogFile > 0) {
		c.Damaged(filepath.Join(dir, layout.LogDir), 0, "all log files are missing")
	}
	before := uint64(0)
	if m != nil {
		l.durable = m.SyncedAppend
	}
	for i, e := range entries {
		path := filepath.Join(dir, layout.LogDir, e.Name())
		number, ok := wal.ParseName(path)
		if !ok {
			c.Damaged(path, 0, "it is no log file; move it away")
			continue
		}
		if m != nil && before == 0 && m.FirstLogFile != 0 && number > m.FirstLogFile {
			c.Damaged(path, 0, "the log files from %d to %d are missing", m.FirstLogFile, number-1)
		}
		if before != 0 && number != before+1 {
			c.Damaged(path, 0, "the log files between %d and %d are missing", before, number)
			l.PassGap()
		}
		before = number
		if err := l.File(path, -1, i == len(entries)-1); err != nil {
			return err
		}
	}
	none := l.Report.LogAppends == 0 // else a number of 0 is one that is not known
	if (l.number != 0 || none) && l.number < l.durable && len(entries) > 0 {
		newest := filepath.Join(dir, layout.LogDir, entries[len(entries)-1].Name())
		c.Damaged(newest, 0, "the log ends at append %d, and append %d was durable: its newest "+
			"files or the end of this one are missing", l.number, l.durable)
	}
	if m != nil && l.manifestLines > m.Number {
		c.Damaged(filepath.Join(dir, layout.ManifestFile), 0, "it ends with line %d, and had %d "+
			"lines when the log was written: its end is missing", m.Number, l.manifestLines)
	}
	for shard, next := range l.next {
		if next != 0 && next <= l.sealed[shard] {
			c.Damaged(filepath.Join(dir, layout.LogDir), 0, "the log of shard %d ends at entry "+
				"%d; segments hold up to entry %d", shard, next-1, l.sealed[shard])
		}
	}
	return nil
}

// File checks the first size bytes of a file, or with -1 all of it. Files of one log are
// checked from the oldest on.
//
// Errors: those of the file system, ctx.Err().
func (l *Log) File(path string, size int64, newest bool) error {
	l.path = path
	bytes := int64(0)
	tail, torn, err := wal.ReadFile(path, size, func(
		f *wal.Append, damage *durable.CorruptError,
	) error {
		if damage != nil {
			l.PassGap()
			return l.Note(damage)
		}
		bytes += f.Bytes
		if err := l.append(f); err != nil {
			return err
		}
		return l.Err()
	})
	switch {
	case err != nil:
		return err
	case tail == nil && bytes == 0 && !newest:
		l.Damaged(path, 0, "the file is empty, but there is a newer one")
	case tail != nil && torn && newest && size < 0 && l.number >= l.durable:
		l.Report.Notes = append(l.Report.Notes, fmt.Sprintf("%s: torn at offset %d (%s): a write "+
			"that was never acknowledged, which opening cuts off", path, tail.Offset, tail.Reason))
	case tail != nil:
		if err := l.Note(tail); err != nil {
			return err
		}
	}
	l.Report.LogFiles++
	return l.Read(bytes)
}

// PassGap makes the check go on behind a file, or a place in one, that holds an unknown number of
// appends and cannot be read, e.g. because the file was removed meanwhile.
func (l *Log) PassGap() {
	l.number = 0
	clear(l.next)
}

// append returns the error of an entry of another version; what is damaged is noted.
func (l *Log) append(f *wal.Append) error {
	l.Report.LogAppends++
	if l.number != 0 && f.Number != l.number+1 {
		l.Damaged(l.path, f.Offset, "append %d follows append %d", f.Number, l.number)
	}
	l.number = f.Number
	for i := range f.Entries {
		err := l.entry(&f.Entries[i])
		if formats.Is(err) {
			return formats.In(l.path, err)
		}
		if err != nil {
			l.Damaged(l.path, f.Offset, "entry %d of the append: %v", i, err)
		}
	}
	return nil
}

func (l *Log) entry(e *wal.Entry) error {
	switch e.Kind {
	case layout.EntryNextAcq:
		_, _, err := layout.ParseNextAcqEntry(e.Data)
		return err
	case layout.EntryApplied:
		_, _, err := layout.ParseAppliedEntry(e.Data)
		return err
	case layout.EntryManifestLines:
		n, err := layout.ParseManifestLinesEntry(e.Data)
		l.manifestLines = max(l.manifestLines, n)
		return err
	case layout.EntryRows:
		var h segment.RowsHeader
		if err := segment.ParseRowsEntry(e.Data, &h, &l.batch); err != nil {
			return err
		}
		l.Report.LogRows += int64(l.batch.Len())
		return l.checkOrder(e, &h)
	default:
		return fmt.Errorf("its kind is %d; this version knows 1 to 4", e.Kind)
	}
}

// checkOrder checks that an entry of a shard follows the one before, and the segments of the shard.
func (l *Log) checkOrder(e *wal.Entry, h *segment.RowsHeader) error {
	if l.next == nil {
		return nil
	}
	if err := layout.CheckRowsEntry(e, h, len(l.next)/2); err != nil {
		return err
	}
	next, sealed := l.next[e.Shard], l.sealed[e.Shard]
	l.next[e.Shard] = e.LSN + 1
	if next != 0 && e.LSN != next {
		return fmt.Errorf("it is entry %d of shard %d and follows entry %d", e.LSN, e.Shard,
			next-1)
	}
	if next == 0 && e.LSN > sealed+1 {
		return fmt.Errorf("it is entry %d of shard %d; segments hold up to entry %d", e.LSN,
			e.Shard, sealed)
	}
	return nil
}
