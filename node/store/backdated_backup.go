package store

import (
	"encoding/json"
	"runtime"
	"slices"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
)

// newestBackdated returns the newest part that has backdated rows, nil when
// none has. It has all of them up to then: such rows have no place among acqs that were backed up.
func newestBackdated(parts []*BackupPart) *BackupPart {
	for _, p := range slices.Backward(parts) {
		if p.Aside != nil {
			return p
		}
	}
	return nil
}

// backupBackdated backs up all backdated rows, if some were since the last
// part that has them.
func (b *backup) backupBackdated() error {
	sources := b.store.acquireBackdated()
	for _, now := range sources {
		defer now.release()
	}
	known := b.known
	if known == nil {
		known = make([]uint64, len(sources))
	}
	var marks []uint64
	for _, now := range sources {
		marks = append(marks, now.lastBackdated())
	}
	if slices.Equal(marks, known) {
		return nil
	}
	b.part.Aside = marks
	for shard, now := range sources {
		if err := b.backupBackdatedShard(uint32(len(sources)+shard), now); err != nil {
			return err
		}
	}
	return nil
}

// acquireBackdated returns what the backdated shards hold at one moment, to be released by the
// caller: of a put all rows, or none.
func (s *Store) acquireBackdated() []*readState {
	for {
		var all []*readState
		puts := s.backdatedSeq.Load()
		for _, sh := range s.shards {
			all = append(all, sh.backdated.acquire())
		}
		if puts&1 == 0 && s.backdatedSeq.Load() == puts {
			return all
		}
		for _, now := range all {
			now.release()
		}
		runtime.Gosched() // the committer is in the midst of it
	}
}

// lastBackdated returns the log index up to which a read state of a backdated shard holds
// everything.
func (s *readState) lastBackdated() uint64 {
	if s.head.Rows() > 0 {
		return s.info.last
	}
	return s.first - 1
}

func (b *backup) backupBackdatedShard(shard uint32, now *readState) error {
	for _, seg := range now.sealed {
		meta := b.next(seg.meta)
		text, err := json.Marshal(meta)
		if err == nil {
			err = segment.CopySealed(b.path(meta), seg.file, text)
		}
		if err == nil {
			err = b.add(meta, seg.idx.AcqOf(0), seg.file.Path())
		}
		if err == nil {
			err = b.progress()
		}
		if err != nil {
			return err
		}
	}
	for _, f := range now.immutable {
		if err := b.backupBackdatedHead(shard, f.head, f.info.putNs); err != nil {
			return err
		}
	}
	return b.backupBackdatedHead(shard, now.head, now.info.putNs)
}

func (b *backup) backupBackdatedHead(shard uint32, head *index.Head, putNs int64) error {
	if head.Rows() == 0 {
		return nil
	}
	work := sealMemories.Get().(*sealMemory)
	defer work.giveBack()
	rows := &work.rows
	flags := head.ReadAll(rows)
	meta := b.next(segmentMeta{Shard: shard, Rows: uint32(rows.Len()), PutAcqNs: putNs,
		LastAcqNs: rows.AcqNs[rows.Len()-1]})
	marks := index.AppendWatermarks(nil, head.Watermarks())
	if err := work.write(b.path(meta), meta, rows, flags, marks, b.store.opt.Index); err != nil {
		return err
	}
	if err := b.add(meta, rows.AcqNs[0], b.path(meta)); err != nil {
		return err
	}
	return b.progress()
}

// isBackdated reports whether a file of the part holds backdated rows.
func (p *BackupPart) isBackdated(f *backupFile) bool { return int64(f.Shard) >= int64(p.Shards) }

// files returns the files of a restore, and the parts that they are in, in the order in which
// their rows are restored.
func (r *restore) files(visit func(p *BackupPart, f *backupFile) error) error {
	for _, p := range r.parts {
		for i := range p.Files {
			if f := &p.Files[i]; !p.isBackdated(f) {
				if err := visit(p, f); err != nil {
					return err
				}
			}
		}
	}
	if r.backdated == nil {
		return nil
	}
	for i := range r.backdated.Files {
		if f := &r.backdated.Files[i]; r.backdated.isBackdated(f) {
			if err := visit(r.backdated, f); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *restore) rowsOfParts() (rows int64) {
	divided := false
	_ = r.files(func(p *BackupPart, f *backupFile) error {
		if p.isBackdated(f) {
			divided = divided || f.FirstAcqNs < r.until && f.LastAcqNs >= r.until
		} else {
			divided = divided || p.UntilAcqNs > r.until
		}
		if f.LastAcqNs < r.until {
			rows += int64(f.Rows)
		}
		return nil
	})
	if divided {
		return RowsUnknown
	}
	return rows
}
