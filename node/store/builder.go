package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/node/store/writers"
	"github.com/pentad-db/pentad/node/wal"
)

// Builder writes the directory of a store out of segments that exports wrote. What it writes is
// whole when Finish has returned. It is used by one goroutine.
type Builder struct {
	dir     string
	untilNs int64
	rows    int64
	live    []manifest.Segment
	next    []uint64 // per shard the LSN of its next segment
	source  *Store   // of nothing but options, for extracting rows
}

// NewBuilder begins a store of some shards, with the rows below an acq, in a directory that is
// made.
func NewBuilder(dir string, shards int, untilNs int64) (*Builder, error) {
	opt, err := Options{Dir: dir}.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := durable.MakeDir(filepath.Join(dir, layout.LogDir)); err != nil {
		return nil, err
	}
	return &Builder{dir: dir, untilNs: untilNs, next: make([]uint64, 2*shards),
		source: &Store{opt: opt}}, nil
}

// Rows returns how many rows were added.
func (b *Builder) Rows() int64 { return b.rows }

// Add adds a segment of a directory, those of a shard in the order of their rows: a copy, or the
// rows below the end.
//
// Errors: that of ended, which is asked meanwhile; *durable.CorruptError, also when the segment is
// not the one that was exported.
func (b *Builder) Add(dir string, f Exported, ended func() error) error {
	seg, err := openExported(filepath.Join(dir, f.Name), f)
	if err != nil {
		return err
	}
	defer seg.Unpin()
	meta := seg.Meta
	if f.LastAcqNs < b.untilNs {
		meta = b.numberSegment(meta)
		text, err := json.Marshal(meta)
		if err == nil {
			err = segment.CopySealed(b.source.segmentPath(meta.ID), seg.File, text, ended)
		}
		if err != nil {
			return err
		}
	} else {
		meta, err = extract(b.source, seg, math.MinInt64, b.untilNs, ended,
			func(rows manifest.Segment) (string, manifest.Segment) {
				rows = b.numberSegment(rows)
				return b.source.segmentPath(rows.ID), rows
			})
		if err != nil {
			return err
		}
	}
	b.live = append(b.live, meta)
	b.rows += int64(meta.Rows)
	return nil
}

// numberSegment gives a segment its number, and an LSN after those of its shard.
func (b *Builder) numberSegment(meta manifest.Segment) manifest.Segment {
	b.next[meta.Shard]++
	meta.ID = uint64(len(b.live)) + 1
	meta.FirstLSN, meta.LastLSN = b.next[meta.Shard], b.next[meta.Shard]
	return meta
}

// openExported opens a segment, checking that it is the one that was exported.
func openExported(path string, f Exported) (*shards.Segment, error) {
	file, err := segment.OpenSealed(path, nil)
	if err != nil {
		return nil, err
	}
	var meta manifest.Segment
	err = json.Unmarshal(file.Meta(), &meta)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil || meta.Shard != f.Shard || meta.Rows != f.Rows || meta.LastAcqNs != f.LastAcqNs {
		return nil, corrupt(path, 0, "it describes another segment than the part does")
	}
	return shards.Open(path, meta, nil)
}

// Finish writes the results of puts that a file WRITERS in another directory has, an empty log
// and, last, the manifest. It then opens the store and counts its rows. The store is one of its
// own: of the state that its manifest begins with stays what concerns rows.
func (b *Builder) Finish(ctx context.Context, state manifest.Edit, writersDir string) error {
	w := writers.New[putRequest]()
	if err := w.Load(writersDir); err != nil {
		return err
	}
	if err := writers.Replace(b.dir, w.Encode(b.untilNs)); err != nil {
		return err
	}
	log, _, err := wal.Open(filepath.Join(b.dir, layout.LogDir), wal.Options{},
		func(uint64, wal.Entry) error { return nil })
	if err != nil {
		return err
	}
	_, err = log.Append([]wal.Entry{layout.NextAcqEntry(b.untilNs, true)})
	if err = errors.Join(err, log.Close()); err != nil {
		return err
	}
	state.Format, state.Shards = manifest.FormatVersion, len(b.next)/2
	state.Store = manifest.NewStoreID()
	state.Number, state.SyncedAppend, state.FirstLogFile = 1, 0, 1
	state.NextAcqNs, state.Add, state.EmptyLSNRanges = b.untilNs, b.live, nil
	state.Replicated, state.Applied = false, nil
	state.Slots, state.IndexBase = nil, 0
	// Purges that stay may be newer.
	state.Lineage = state.Lineage.With(manifest.NewTimeline(b.untilNs))
	// Its events may be newer than its rows, which no copy may have.
	state.Copy = nil
	state.Events = eventsUntil(state.Events, b.untilNs)
	name := filepath.Join(b.dir, layout.ManifestFile)
	if err := durable.ReplaceFile(name, manifest.AppendEdit(nil, state)); err != nil {
		return err
	}
	return b.verify(ctx)
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

// verify opens the store that was written and counts its rows.
func (b *Builder) verify(ctx context.Context) error {
	s, _, err := OpenSnapshot(ctx, b.dir)
	if err != nil {
		return err
	}
	rows := s.Stats().Rows
	err = s.Close()
	if err == nil && rows != b.rows {
		err = fmt.Errorf("the store holds %d rows; %d were restored", rows, b.rows)
	}
	return err
}
