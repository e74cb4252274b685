package store

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/sdk/record"
)

// Export is a store whose rows are written to segments in another directory. Close ends it; until
// then the store is not closed. It is used by one goroutine.
type Export struct{ store *Store }

// Export begins an export, which the caller closes. Writes go on.
//
// Errors: ErrClosed.
func (s *Store) Export() (*Export, error) {
	s.scanning.RLock()
	if s.closed.Load() {
		s.scanning.RUnlock()
		return nil, ErrClosed
	}
	return &Export{s}, nil
}

// Close lets the store be closed.
func (x *Export) Close() { x.store.scanning.RUnlock() }

// Origin is the store that an export is of, at one time.
type Origin struct {
	Store     string // identity: which history of rows it holds
	Shards    int
	HorizonNs int64 // up to which rows can be exported, durably logged
	NowNs     int64
	State     manifest.Edit // what the manifest says besides segments
}

// Origin returns what the store is now.
//
// Errors: ErrClosed, ctx.Err(); a log that failed.
func (x *Export) Origin(ctx context.Context) (o Origin, err error) {
	s := x.store
	o.Store = s.identity() // first: a store that becomes a copy meanwhile is another one
	if o.HorizonNs, err = s.DurableHorizon(ctx); err != nil {
		return o, err
	}
	o.Shards, o.NowNs = len(s.shards), s.opt.Now()
	o.State, err = x.state()
	return o, err
}

// Writers returns the content of the file WRITERS, with the results of records below an acq.
func (x *Export) Writers(untilNs int64) []byte { return x.store.writers.Encode(untilNs) }

// ExportOptions say what is exported, and where to.
type ExportOptions struct {
	Dir                   string   // gets the segments
	FromAcqNs, UntilAcqNs int64    // from <= acq < until; until is at most the horizon
	Aside                 []uint64 // what the caller has of the backdated rows; nil: nothing
	// Take is called with each segment, once it was read back and found right.
	Take func(Exported) error
	// Progress is called now and then with the rows written and those there are; may be nil.
	Progress func(done, total int64) error
}

// Exported is a segment that an export wrote.
type Exported struct {
	Name                  string
	Shard                 uint32 // from the number of shards on, it is one of backdated rows
	Rows                  uint32
	FirstAcqNs, LastAcqNs int64
}

// Write writes the rows of a range of acqs, and all backdated rows if some came since those that
// the caller has. Segments that hold no other rows are copied, the rest is written again.
//
// Returns: up to which LSN, by shard, all backdated rows were written; nil when none were.
// Errors: what a callback returns; *durable.CorruptError for damage of the store; ErrClosed,
// ctx.Err(), and those of the file system.
func (x *Export) Write(ctx context.Context, opt ExportOptions) (aside []uint64, err error) {
	e := &exporter{Checker: check.New(ctx, check.Options{}), store: x.store, opt: opt}
	e.Shards = len(x.store.shards)
	if err = e.writeShards(); err == nil {
		aside, err = e.backdated()
	}
	return aside, x.store.damaged.Note(err)
}

// exporter is one run of Write.
type exporter struct {
	*check.Checker
	store       *Store
	opt         ExportOptions
	written     uint64 // segments
	done, total int64  // rows
}

// identity returns which history of rows the store holds now.
func (s *Store) identity() string {
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	return s.manifest.Store
}

// state returns what the manifest says besides segments.
func (x *Export) state() (manifest.Edit, error) {
	s := x.store
	s.manifestMu.Lock()
	defer s.manifestMu.Unlock()
	m := *s.manifest
	m.Live, m.Lineage = nil, m.Timelines()
	return manifest.ParseEdit(bytes.TrimSuffix(m.Snapshot(), []byte("\n")))
}

// writeShards writes the rows of every shard. All rows below the horizon are in what the shards
// hold now.
func (e *exporter) writeShards() error {
	var sources []*shards.State
	for _, sh := range e.store.shards {
		state := sh.Pin()
		defer state.Unpin()
		sources = append(sources, state)
		for _, seg := range state.Sealed {
			e.total += int64(seg.Meta.Rows)
		}
		for _, immutable := range state.Immutable {
			e.total += int64(immutable.Head.Rows())
		}
		e.total += int64(state.Head.Rows())
	}
	for shard, state := range sources {
		if err := e.shard(uint32(shard), state); err != nil {
			return err
		}
	}
	return nil
}

func (e *exporter) shard(shard uint32, state *shards.State) error {
	for _, seg := range state.Sealed {
		if err := e.segment(seg); err != nil {
			return err
		}
		e.done += int64(seg.Meta.Rows)
		if err := e.progress(); err != nil {
			return err
		}
	}
	for _, immutable := range state.Immutable {
		if err := e.head(shard, immutable.Head); err != nil {
			return err
		}
	}
	return e.head(shard, state.Head)
}

func (e *exporter) progress() error {
	if e.store.closed.Load() {
		return ErrClosed
	}
	if e.opt.Progress != nil {
		if err := e.opt.Progress(e.done, e.total); err != nil {
			return err
		}
	}
	return e.Err()
}

// segment exports the rows of a sealed segment.
func (e *exporter) segment(seg *shards.Segment) error {
	from, until := e.opt.FromAcqNs, e.opt.UntilAcqNs
	first := seg.Index.AcqOf(0)
	if seg.Meta.LastAcqNs < from || first >= until {
		return nil
	}
	if first >= from && seg.Meta.LastAcqNs < until {
		meta := e.numberSegment(seg.Meta)
		text, err := json.Marshal(meta)
		if err != nil {
			return err
		}
		if err := segment.CopySealed(e.path(meta), seg.File, text, e.Err); err != nil {
			return err
		}
		return e.add(meta, first, seg.File.Path())
	}
	meta, err := extract(e.store, seg, from, until, e.Err,
		func(rows manifest.Segment) (string, manifest.Segment) {
			meta := e.numberSegment(rows)
			return e.path(meta), meta
		})
	if err != nil || meta.Rows == 0 {
		return err
	}
	lo, _ := seg.Index.RankRange(from, until)
	return e.add(meta, seg.Index.AcqOf(lo), seg.File.Path())
}

// numberSegment gives a segment its number in the directory.
func (e *exporter) numberSegment(meta manifest.Segment) manifest.Segment {
	meta.ID = e.written + 1
	meta.FirstLSN, meta.LastLSN = meta.ID, meta.ID
	return meta
}

func (e *exporter) path(meta manifest.Segment) string {
	return filepath.Join(e.opt.Dir, layout.SegmentName(meta.ID))
}

// extract writes the rows of a segment whose acq lies in a range into a segment of their own, for
// which destination gives the path and the description. Without such rows it writes none.
func extract(
	s *Store, seg *shards.Segment, fromNs, untilNs int64, ended func() error,
	destination func(rows manifest.Segment) (string, manifest.Segment),
) (manifest.Segment, error) {
	lo, hi := seg.Index.RankRange(fromNs, untilNs)
	if lo >= hi {
		return manifest.Segment{}, nil
	}
	dropped := make([]uint64, (seg.Index.Rows()+63)/64)
	for rank := range uint32(seg.Index.Rows()) {
		if rank < lo || rank >= hi {
			dropped[rank>>6] |= 1 << (rank & 63)
		}
	}
	m := &merger{store: s, run: []*shards.Segment{seg},
		acq: record.Range{From: fromNs, To: untilNs}, ended: ended}
	m.reader.CopyBlocks = true
	var err error
	m.ranks, err = index.ConcatRanks([]*index.Segment{seg.Index}, [][]uint64{dropped})
	if err != nil {
		return manifest.Segment{}, err
	}
	meta := seg.Meta
	meta.Rows, meta.LastAcqNs = hi-lo, seg.Index.AcqOf(hi-1)
	path, meta := destination(meta)
	return meta, m.write(path, meta)
}

// head exports the rows of a head.
func (e *exporter) head(shard uint32, head shards.Head) error {
	if head.Rows() == 0 {
		return nil
	}
	work := sealBufferPool.Get().(*sealBuffers)
	defer work.giveBack()
	all := &work.rows
	rows, flags := cutRows(all, head.ReadAll(all), e.opt.FromAcqNs, e.opt.UntilAcqNs)
	e.done += int64(all.Len())
	if rows.Len() == 0 {
		return e.progress()
	}
	meta := e.numberSegment(manifest.Segment{Shard: shard, Rows: uint32(rows.Len()),
		LastAcqNs: rows.AcqNs[rows.Len()-1]})
	first := rows.AcqNs[0]
	watermarks := index.AppendWatermarks(nil, head.Watermarks())
	err := work.write(e.path(meta), meta, rows, flags, watermarks, e.store.opt.Index, nil)
	if err != nil {
		return err
	}
	if err := e.add(meta, first, e.path(meta)); err != nil {
		return err
	}
	return e.progress()
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

// add reads back what was written and hands it out. source is named when it is damaged:
// what is copied keeps its damage.
func (e *exporter) add(meta manifest.Segment, firstAcqNs int64, source string) error {
	name := layout.SegmentName(meta.ID)
	before := e.Report.Damages
	if err := e.Segment(filepath.Join(e.opt.Dir, name), &meta); err != nil {
		return err
	}
	if e.Report.Damages > before {
		d := e.Report.Damage[len(e.Report.Damage)-1]
		return corrupt(source, d.Offset, d.Reason)
	}
	e.written++
	return e.opt.Take(Exported{Name: name, Shard: meta.Shard, Rows: meta.Rows,
		FirstAcqNs: firstAcqNs, LastAcqNs: meta.LastAcqNs})
}
