package store

import (
	"encoding/json"
	"runtime"
	"slices"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/shards"
)

// backdated exports all backdated rows, if some came since those that the caller has.
func (e *exporter) backdated() ([]uint64, error) {
	sources := e.store.pinBackdated()
	for _, state := range sources {
		defer state.Unpin()
	}
	known := e.opt.Aside
	if known == nil {
		known = make([]uint64, len(sources))
	}
	var marks []uint64
	for _, state := range sources {
		marks = append(marks, state.LastBackdated())
	}
	if slices.Equal(marks, known) {
		return nil, nil
	}
	for shard, state := range sources {
		if err := e.backdatedShard(uint32(len(sources)+shard), state); err != nil {
			return nil, err
		}
	}
	return marks, nil
}

// pinBackdated returns what the backdated shards hold at one time, to be unpinned by the
// caller: of a put all rows, or none.
func (s *Store) pinBackdated() []*shards.State {
	for {
		var all []*shards.State
		puts := s.backdatedSeq.Load()
		for _, sh := range s.shards {
			all = append(all, sh.Backdated.Pin())
		}
		if puts&1 == 0 && s.backdatedSeq.Load() == puts {
			return all
		}
		for _, state := range all {
			state.Unpin()
		}
		runtime.Gosched() // the committer is in the midst of it
	}
}

func (e *exporter) backdatedShard(shard uint32, state *shards.State) error {
	for _, seg := range state.Sealed {
		meta := e.numberSegment(seg.Meta)
		text, err := json.Marshal(meta)
		if err == nil {
			err = segment.CopySealed(e.path(meta), seg.File, text, e.Err)
		}
		if err == nil {
			err = e.add(meta, seg.Index.AcqOf(0), seg.File.Path())
		}
		if err == nil {
			err = e.progress()
		}
		if err != nil {
			return err
		}
	}
	for _, immutable := range state.Immutable {
		if err := e.backdatedHead(shard, immutable.Head, immutable.Info.PutNs); err != nil {
			return err
		}
	}
	return e.backdatedHead(shard, state.Head, state.Info.PutNs)
}

func (e *exporter) backdatedHead(shard uint32, head shards.Head, putNs int64) error {
	if head.Rows() == 0 {
		return nil
	}
	work := sealBufferPool.Get().(*sealBuffers)
	defer work.giveBack()
	rows := &work.rows
	flags := head.ReadAll(rows)
	meta := e.numberSegment(manifest.Segment{Shard: shard, Rows: uint32(rows.Len()),
		PutAcqNs:  putNs,
		LastAcqNs: rows.AcqNs[rows.Len()-1]})
	watermarks := index.AppendWatermarks(nil, head.Watermarks())
	err := work.write(e.path(meta), meta, rows, flags, watermarks, e.store.opt.Index, nil)
	if err != nil {
		return err
	}
	if err := e.add(meta, rows.AcqNs[0], e.path(meta)); err != nil {
		return err
	}
	return e.progress()
}
