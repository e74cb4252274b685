package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/sdk/record"
)

// BackupOptions of one run of a backup. The zero value continues where the newest part ended, up
// to the horizon.
type BackupOptions struct {
	From       *int64 // first acq; nil: where the newest part ended, or everything
	UntilAcqNs int64  // acq after the last, at most the horizon; 0: the horizon
	// Extra is kept with the part. Files that are not there are left out.
	Extra []ExtraFile
	// Progress is called now and then with the rows written and those there are; may be nil. An
	// error ends the backup.
	Progress func(done, total int64) error
}

// Backup writes the rows that came since the newest part in a directory, or all of them, into a
// part of their own. Segments that hold no others are copied, the rest is written again. The part
// appears whole or not at all, and everything in it was read back and found right. Writes go on.
// Before, the newest part is read and compared with its checksums, and all others with their sizes.
//
// Returns: the part; nil when no acq has passed since the last one.
// Errors: layout.ErrLocked when another backup writes there, ErrBackupGap, ErrPartDamaged,
// *segment.CorruptError for damage of the store, ErrClosed, and those of the file system.
func (s *Store) Backup(ctx context.Context, to string, opt BackupOptions) (*BackupPart, error) {
	s.scanning.RLock()
	defer s.scanning.RUnlock()
	if s.closed.Load() {
		return nil, ErrClosed
	}
	if err := durable.MakeDir(to); err != nil {
		return nil, fmt.Errorf("backup to %s: %w", to, err)
	}
	lock, err := layout.Lock(to)
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	defer func() { _ = lock.Close() }() // it is empty
	b := &backup{store: s, opt: opt, checker: newChecker(ctx, CheckOptions{})}
	if err := b.begin(ctx, to); err != nil || b.part == nil {
		return nil, err
	}
	if err := b.write(to); err != nil {
		return nil, fmt.Errorf("backup to %s: %w", to, s.noteDamage(err))
	}
	return b.part, nil
}

// backup is one run.
type backup struct {
	*checker
	store       *Store
	opt         BackupOptions
	part        *BackupPart
	dir         string   // where the part is written
	earlier     []string // names of files beside stores in the parts before
	sources     []*readState
	known       []uint64 // as Aside of the newest part that has it
	done, total int64
}

// begin finds out which rows are to be written. The part stays nil when there can be none.
func (b *backup) begin(ctx context.Context, to string) error {
	s := b.store
	parts, err := BackupParts(to)
	if errors.As(err, new(*segment.CorruptError)) {
		err = fmt.Errorf("%w: %w", ErrPartDamaged, err)
	}
	if err == nil {
		err = verifyEarlier(newChecker(ctx, CheckOptions{}), parts)
	}
	if err != nil {
		return err
	}
	for _, f := range besidesOf(parts) {
		b.earlier = append(b.earlier, f.Name)
	}
	id := s.identity() // first: a store that becomes a copy meanwhile is another one
	until, err := s.ProvenHorizon(ctx)
	if err != nil {
		return err
	}
	if b.opt.UntilAcqNs > until {
		return fmt.Errorf("backup until acq %d: the horizon is %d; take it or less",
			b.opt.UntilAcqNs, until)
	}
	if b.opt.UntilAcqNs != 0 {
		until = b.opt.UntilAcqNs
	}
	if newest := newestBackdated(parts); newest != nil && newest.Store == id {
		b.known = newest.Aside // of another store, which was restored, log indexes are others
	}
	part := &BackupPart{Format: partFormat, Store: id, Shards: len(s.shards),
		FromAcqNs: math.MinInt64, UntilAcqNs: until, CreatedNs: s.opt.Now(),
		dir: filepath.Join(to, partName(until))}
	if b.opt.From != nil {
		part.FromAcqNs = *b.opt.From
	}
	if part.State, err = s.manifestState(); err != nil {
		return err
	}
	if len(parts) > 0 {
		newest := parts[len(parts)-1]
		if b.opt.From == nil {
			part.FromAcqNs = newest.UntilAcqNs
		}
		if err := part.follows(newest); err != nil {
			if errors.As(err, new(*record.LackError)) {
				err = fmt.Errorf("%w; begin a new backup in an empty directory", err)
			}
			return fmt.Errorf("backup to %s: %w", to, err)
		}
	}
	b.checker.shards = part.Shards
	if part.FromAcqNs < until {
		b.part, b.dir = part, part.dir+".tmp"
	}
	return nil
}

// identity returns which history of rows the store holds now.
func (s *Store) identity() string {
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	return s.manifest.store
}

// manifestState returns what the manifest says besides segments.
func (s *Store) manifestState() (edit, error) {
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	m := *s.manifest
	m.live, m.lineage = nil, m.timelines()
	return parseEdit(bytes.TrimSuffix(m.snapshot(), []byte("\n")))
}

func (b *backup) write(to string) error {
	if err := removeTemporary(to); err != nil {
		return err
	}
	if err := os.Mkdir(b.dir, 0o755); err != nil {
		return err
	}
	err := b.files()
	if err == nil {
		err = durable.ReplaceFile(filepath.Join(b.dir, partFile), appendPart(nil, b.part))
	}
	if err == nil {
		err = os.Rename(b.dir, b.part.dir)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(b.dir))
	}
	return durable.SyncDir(to)
}

// removeTemporary removes what interrupted runs left.
func removeTemporary(to string) error {
	entries, err := os.ReadDir(to)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), partPrefix) && strings.HasSuffix(e.Name(), ".tmp") {
			if err := os.RemoveAll(filepath.Join(to, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// files writes the rows of every shard and the answers given to writers. All rows below the
// horizon are in what the shards hold now.
func (b *backup) files() error {
	for _, sh := range b.store.shards {
		now := sh.acquire()
		defer now.release()
		b.sources = append(b.sources, now)
		for _, seg := range now.sealed {
			b.total += int64(seg.meta.Rows)
		}
		for _, f := range now.immutable {
			b.total += int64(f.head.Rows())
		}
		b.total += int64(now.head.Rows())
	}
	for shard, now := range b.sources {
		if err := b.shard(uint32(shard), now); err != nil {
			return err
		}
	}
	if err := b.backupBackdated(); err != nil {
		return err
	}
	writers := b.store.writers.encode(b.part.UntilAcqNs)
	if err := durable.ReplaceFile(filepath.Join(b.dir, layout.WritersFile), writers); err != nil {
		return err
	}
	if err := b.describe(&b.part.Writers, layout.WritersFile); err != nil {
		return err
	}
	return b.copyExtra()
}

func (b *backup) shard(shard uint32, now *readState) error {
	for _, seg := range now.sealed {
		if err := b.segment(seg); err != nil {
			return err
		}
		b.done += int64(seg.meta.Rows)
		if err := b.progress(); err != nil {
			return err
		}
	}
	for _, f := range now.immutable {
		if err := b.head(shard, f.head); err != nil {
			return err
		}
	}
	return b.head(shard, now.head)
}

func (b *backup) progress() error {
	if b.store.closed.Load() {
		return ErrClosed
	}
	if b.opt.Progress != nil {
		if err := b.opt.Progress(b.done, b.total); err != nil {
			return err
		}
	}
	return b.ctx.Err()
}

// segment backs up the rows of a sealed segment.
func (b *backup) segment(seg *sealedSegment) error {
	from, until := b.part.FromAcqNs, b.part.UntilAcqNs
	first := seg.idx.AcqOf(0)
	if seg.meta.LastAcqNs < from || first >= until {
		return nil
	}
	if first >= from && seg.meta.LastAcqNs < until {
		meta := b.next(seg.meta)
		text, err := json.Marshal(meta)
		if err != nil {
			return err
		}
		if err := segment.CopySealed(b.path(meta), seg.file, text); err != nil {
			return err
		}
		return b.add(meta, first, seg.file.Path())
	}
	meta, err := extract(b.store, seg, from, until, func(rows segmentMeta) (string, segmentMeta) {
		meta := b.next(rows)
		return b.path(meta), meta
	})
	if err != nil || meta.Rows == 0 {
		return err
	}
	lo, _ := seg.idx.RankRange(from, until)
	return b.add(meta, seg.idx.AcqOf(lo), seg.file.Path())
}

// next gives a segment its place in the part.
func (b *backup) next(meta segmentMeta) segmentMeta {
	meta.ID = uint64(len(b.part.Files)) + 1
	meta.FirstIndex, meta.LastIndex = meta.ID, meta.ID
	return meta
}

func (b *backup) path(meta segmentMeta) string {
	return filepath.Join(b.dir, layout.SegmentName(meta.ID))
}

// extract writes the rows of a segment whose acq lies in a range into a segment of their own, for
// which place gives the path and what it is called. Without such rows it writes none.
func extract(
	s *Store, seg *sealedSegment, fromNs, untilNs int64,
	place func(rows segmentMeta) (string, segmentMeta),
) (segmentMeta, error) {
	lo, hi := seg.idx.RankRange(fromNs, untilNs)
	if lo >= hi {
		return segmentMeta{}, nil
	}
	dropped := make([]uint64, (seg.idx.Rows()+63)/64)
	for rank := range uint32(seg.idx.Rows()) {
		if rank < lo || rank >= hi {
			dropped[rank>>6] |= 1 << (rank & 63)
		}
	}
	m := &merger{store: s, run: []*sealedSegment{seg},
		acq: record.Range{From: fromNs, To: untilNs}}
	m.worker.copies = true
	var err error
	m.ranks, err = index.ConcatRanks([]*index.Segment{seg.idx}, [][]uint64{dropped})
	if err != nil {
		return segmentMeta{}, err
	}
	meta := seg.meta
	meta.Rows, meta.LastAcqNs = hi-lo, seg.idx.AcqOf(hi-1)
	path, meta := place(meta)
	return meta, m.write(path, meta)
}

// head backs up the rows of a head.
func (b *backup) head(shard uint32, head *index.Head) error {
	if head.Rows() == 0 {
		return nil
	}
	work := sealMemories.Get().(*sealMemory)
	defer work.giveBack()
	all := &work.rows
	rows, flags := cutRows(all, head.ReadAll(all), b.part.FromAcqNs, b.part.UntilAcqNs)
	b.done += int64(all.Len())
	if rows.Len() == 0 {
		return b.progress()
	}
	meta := b.next(segmentMeta{Shard: shard, Rows: uint32(rows.Len()),
		LastAcqNs: rows.AcqNs[rows.Len()-1]})
	first := rows.AcqNs[0]
	marks := index.AppendWatermarks(nil, head.Watermarks())
	if err := work.write(b.path(meta), meta, rows, flags, marks, b.store.opt.Index); err != nil {
		return err
	}
	if err := b.add(meta, first, b.path(meta)); err != nil {
		return err
	}
	return b.progress()
}

// cutRows returns the rows, which are in acq order, with an acq in a range, and their flags.
func cutRows(
	rows *record.Batch, flags []uint64, fromNs, untilNs int64,
) (*record.Batch, []uint64) {
	lo, hi := 0, rows.Len()
	for lo < hi && rows.AcqNs[lo] < fromNs {
		lo++
	}
	for hi > lo && rows.AcqNs[hi-1] >= untilNs {
		hi--
	}
	if lo == 0 && hi == rows.Len() {
		return rows, flags
	}
	out := &record.Batch{}
	kept := make([]uint64, (hi-lo+63)/64)
	for i := lo; i < hi; i++ {
		out.AppendRow(rows, i)
		k := i - lo
		kept[k>>6] |= flags[i>>6] >> (i & 63) & 1 << (k & 63)
	}
	return out, kept
}

// add reads back what was written and lists it in the part. source is named when it is damaged:
// what is copied keeps its damage.
func (b *backup) add(meta segmentMeta, firstAcqNs int64, source string) error {
	name := layout.SegmentName(meta.ID)
	before := b.report.Damages
	if _, err := b.checker.segment(filepath.Join(b.dir, name), &meta); err != nil {
		return err
	}
	if b.report.Damages > before {
		d := b.report.Damage[len(b.report.Damage)-1]
		return corrupt(source, d.Offset, d.Reason)
	}
	f := backupFile{Shard: meta.Shard, Rows: meta.Rows, FirstAcqNs: firstAcqNs,
		LastAcqNs: meta.LastAcqNs}
	if err := b.describe(&f, name); err != nil {
		return err
	}
	b.part.Files = append(b.part.Files, f)
	b.part.Rows += int64(f.Rows)
	return nil
}

// describe notes name, size and checksum of a file of the part.
func (b *backup) describe(f *backupFile, name string) error {
	var err error
	f.Name = name
	f.CRC32C, f.Bytes, err = checksumFile(filepath.Join(b.dir, name), b.read)
	b.part.Bytes += f.Bytes
	return err
}
