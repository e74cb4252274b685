package shards

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/partials"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/node/store/manifest"
	"github.com/pentad-db/pentad/node/store/mergepolicy"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/node/store/tombstone"
	"github.com/pentad-db/pentad/sdk/record"
)

// Segment is an open sealed segment and its index. It is unmapped when its last use ends: those of
// read states, of snapshots and of merges that read it.
type Segment struct {
	Meta     manifest.Segment
	File     *segment.File
	Index    *index.Segment
	Series   *index.SeriesTable     // nil when the segment has none
	Partials partials.SegmentTables // what sinks know of its blocks

	Superseded    SupersededTable    // what scans know of its blocks
	PayloadBounds PayloadBoundsTable // the same of payloads

	users atomic.Int64 // what Pin counts; the first use is that of the caller of Open

	Damaged atomic.Bool // damage of it is known; no merge reads it in vain

	PurgedTo atomic.Int64 // no row is concerned by a purge with this acq or a smaller one
	Expiring Expiring     // the merger's

	// Window says with which neighbours it may be merged, as the merger has found; nil: with any,
	// or not known yet.
	Window atomic.Pointer[mergepolicy.Window]
}

// Pin begins a use of the segment.
func (seg *Segment) Pin() { seg.users.Add(1) }

// Unpin ends a use of the segment; the last one unmaps it.
func (seg *Segment) Unpin() {
	if seg.users.Add(-1) == 0 {
		seg.Partials.Drop()
		_ = seg.File.Close() // unmaps what was only read
	}
}

// Expiring is what the merger knows of a segment and of policies.
type Expiring struct {
	WindowOf *tombstone.Set // Segment.Window is by this
	Contains map[retention.ScopeKey]bool
	Checks   map[retention.RemovalKey]RemovalCheck
	// With the tombstones of CheckedSet nothing is due before NextNs.
	CheckedSet *tombstone.Set
	NextNs     int64
}

// RemovalCheck is what the merger found in a segment for a removal.
type RemovalCheck struct {
	NoRowsForAcqNs int64 // no row is concerned by the removal with this acq
	FloorNs        int64 // no row has rested for long enough before the floor is here
}

// OpenBlock opens a block of a segment in the memory of b; nothing else in the store does. With
// privateCopy it reads from a copy that was verified, for what writes the rows elsewhere.
//
// Errors: *durable.CorruptError.
func (seg *Segment) OpenBlock(
	number uint32, b *segment.Block, privateCopy bool,
) (*index.BlockInfo, error) {
	info := seg.Index.Block(number)
	if !seg.File.RecentlyVerified(int(number)) {
		seg.File.WillNeed(info.Offset, uint64(info.Size))
	}
	open := seg.File.Block
	if privateCopy {
		open = seg.File.BlockCopy
	}
	if err := open(int(number), info.Offset, info.Size, b); err != nil {
		return nil, err
	}
	if b.Rows() != int(info.Rows) {
		return nil, &durable.CorruptError{File: seg.File.Path(), Offset: int64(info.Offset),
			Reason: fmt.Sprintf("block %d holds %d rows, the directory says %d", number,
				b.Rows(), info.Rows)}
	}
	return info, nil
}

// VerifyBlock compares a block with its checksum, after its rows were read.
//
// Errors: *durable.CorruptError.
func (seg *Segment) VerifyBlock(number uint32) error {
	info := seg.Index.Block(number)
	return seg.File.VerifyBlock(int(number), info.Offset, info.Size)
}

// PrunedBy reports whether a segment is pruned: a box misses its bounds. It returns the first
// dimension in which it does.
func PrunedBy(sealed *Segment, box *record.Box) (record.Dim, bool) {
	bounds := sealed.Index.Bounds()
	for d := range record.NumDims {
		if !box[d].Intersects(bounds[d].Min, bounds[d].Max) {
			return record.Dim(d), true
		}
	}
	return 0, false
}

// BoxInRanks returns a box with acq as ranks of the segment; ok is false where the segment has no
// rows in it.
func (seg *Segment) BoxInRanks(box *record.Box) (ranked record.Box, ok bool) {
	bounds := seg.Index.Bounds()
	for d := range record.NumDims {
		if !box[d].Intersects(bounds[d].Min, bounds[d].Max) {
			return ranked, false
		}
	}
	ranked = *box
	ranked[record.Acq] = seg.Index.AppendRankRanges(nil, box)
	return ranked, len(box[record.Acq]) == 0 || len(ranked[record.Acq]) > 0
}

// HasNoneOf reports whether the segment is known to hold no row that a tombstone covers.
func (seg *Segment) HasNoneOf(t *tombstone.Range) bool {
	return t.AcqNs <= seg.Meta.PurgesAppliedAcqNs ||
		t.Kind == event.Purge && t.AcqNs <= seg.PurgedTo.Load()
}

// LiesIn reports whether a box holds every row.
func (seg *Segment) LiesIn(box *record.Box) bool {
	bounds := seg.Index.Bounds()
	for d := range record.NumDims {
		if !box[d].Covers(bounds[d].Min, bounds[d].Max) {
			return false
		}
	}
	return true
}

// Open maps a segment file and loads its index, checking that it is the one meant. The caller
// unpins it.
//
// Errors: *durable.CorruptError, and those of the file system; os.ErrNotExist for a missing file.
func Open(
	path string, want manifest.Segment, clock *segment.VerifyClock,
) (*Segment, error) {
	file, err := segment.OpenSealed(path, clock)
	if err != nil {
		return nil, err
	}
	var meta manifest.Segment
	if err := json.Unmarshal(file.Meta(), &meta); err != nil || meta != want {
		_ = file.Close()
		return nil, &durable.CorruptError{File: path,
			Reason: "describes another segment than the manifest does"}
	}
	idx, err := index.Parse(file.Section(layout.SectionDirectory),
		file.Section(layout.SectionPostings), file.Section(layout.SectionRanks))
	if err != nil {
		_ = file.Close()
		return nil, layout.BadSection(path, "index sections", err)
	}
	if err := meta.CheckAcqs(idx); err != nil {
		_ = file.Close()
		return nil, &durable.CorruptError{File: path, Reason: err.Error()}
	}
	seg := &Segment{Meta: meta, File: file, Index: idx}
	seg.PurgedTo.Store(meta.PurgesAppliedAcqNs)
	seg.Pin()
	if src := file.Section(layout.SectionSeries); src != nil {
		if seg.Series, err = index.ParseSeries(src); err != nil {
			_ = file.Close()
			return nil, layout.BadSection(path, "series table", err)
		}
	}
	return seg, nil
}

// WithAffectedRows adds to the error of Open, where the file of a segment is damaged or missing,
// which rows that concerns.
func WithAffectedRows(path string, m manifest.Segment, err error) error {
	if errors.Is(err, os.ErrNotExist) {
		err = &durable.CorruptError{File: path, Reason: "the manifest names it", Err: err}
	}
	if !errors.As(err, new(*durable.CorruptError)) {
		return err
	}
	return fmt.Errorf("%w: it has %d records, up to acq %s", err, m.Rows,
		record.FormatNs(m.LastAcqNs))
}
