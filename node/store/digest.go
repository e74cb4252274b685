package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"sort"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/zeebo/xxh3"
)

const (
	// MaxSlices is how many slices one digest has at most.
	MaxSlices = 1024
	// digestScratch is how large a row may be for its memory to be kept.
	digestScratch = 1 << 20
)

// Digest is the same for the same rows, wherever and in whatever order they lie, and differs for
// others but by chance of 1 in 2^128: the sum, mod 2^128, of the XXH3-128 of each row. It tells
// accidents; someone who makes up rows can make it lie.
type Digest struct {
	FromNs, ToNs int64 // of the acqs of the rows
	Rows, Bytes  uint64
	Sum          [2]uint64 // the lower half first
}

// add takes a row in; scratch is memory for it. What is hashed is its cid i32, mid i64, moid i32,
// cap i64, acq i64, 1 for a tombstone or 0, and the payload.
func (d *Digest) add(b *record.Batch, i int, scratch []byte) []byte {
	payload := b.Payload(i)
	scratch = binary.LittleEndian.AppendUint32(scratch[:0], uint32(b.CID[i]))
	scratch = binary.LittleEndian.AppendUint64(scratch, uint64(b.MID[i]))
	scratch = binary.LittleEndian.AppendUint32(scratch, uint32(b.MOID[i]))
	scratch = binary.LittleEndian.AppendUint64(scratch, uint64(b.CapNs[i]))
	scratch = binary.LittleEndian.AppendUint64(scratch, uint64(b.AcqNs[i]))
	tomb := byte(0)
	if b.Tomb(i) {
		tomb = 1
	}
	scratch = append(append(scratch, tomb), payload...)
	h := xxh3.Hash128(scratch)
	d.Rows++
	d.Bytes += uint64(len(payload))
	d.sum(h.Lo, h.Hi)
	return scratch
}

func (d *Digest) sum(lo, hi uint64) {
	var carry uint64
	d.Sum[0], carry = bits.Add64(d.Sum[0], lo, 0)
	d.Sum[1] += hi + carry
}

// Digest returns the digests of the rows of a box, all versions, in slices of acq between cuts,
// which ascend up to the horizon at most. The box must not constrain acq. Purged says how far
// purges and retentions have changed the box, as in [ScanStats].
//
// Errors: *record.InvalidError; as with [Store.Scan].
// Cost: a scan, and some 20 ns a row.
func (s *Store) Digest(
	ctx context.Context, box record.Box, cuts []int64,
) (slicesOf []Digest, purgedAcqNs int64, err error) {
	q := &record.Query{Box: box, Verify: true} // it says that another store has the same
	if err := s.checkCuts(ctx, &box, cuts); err != nil {
		return nil, 0, err
	}
	q.Box[record.Acq] = record.RangeSet{{From: cuts[0], To: cuts[len(cuts)-1]}}
	if err := q.Normalize(); err != nil {
		return nil, 0, err
	}
	var all [][]Digest
	stats, err := s.Scan(ctx, q, func(int) (Sink, error) {
		d := &digester{slices: emptySlices(cuts)}
		all = append(all, d.slices)
		return d.sink, nil
	})
	if err != nil {
		return nil, 0, err
	}
	slicesOf = emptySlices(cuts)
	for _, part := range all {
		for i := range part {
			slicesOf[i].Rows += part[i].Rows
			slicesOf[i].Bytes += part[i].Bytes
			slicesOf[i].sum(part[i].Sum[0], part[i].Sum[1])
		}
	}
	return slicesOf, stats.PurgedAcqNs, nil
}

func (s *Store) checkCuts(ctx context.Context, box *record.Box, cuts []int64) error {
	bad := func(format string, args ...any) error {
		return &record.InvalidError{Part: "acq", Reason: record.OutOfRange, Row: -1,
			Detail: fmt.Sprintf(format, args...)}
	}
	if len(box[record.Acq]) > 0 {
		return bad("the box of a digest has none; its slices do")
	}
	if len(cuts) < 2 || len(cuts) > MaxSlices+1 {
		return bad("%d cuts are not 1 to %d slices", len(cuts), MaxSlices)
	}
	for i := 1; i < len(cuts); i++ {
		if cuts[i] <= cuts[i-1] {
			return bad("cut %d follows cut %d", cuts[i], cuts[i-1])
		}
	}
	h, err := s.Horizon(ctx)
	if err == nil && cuts[len(cuts)-1] > h {
		return bad("the last slice ends at %d, above the horizon %d: it is not closed yet",
			cuts[len(cuts)-1], h)
	}
	return err
}

func emptySlices(cuts []int64) []Digest {
	all := make([]Digest, len(cuts)-1)
	for i := range all {
		all[i].FromNs, all[i].ToNs = cuts[i], cuts[i+1]
	}
	return all
}

// digester adds up what one worker of a scan finds.
type digester struct {
	slices  []Digest
	last    int // slice of the row before
	scratch []byte
}

func (d *digester) sink(b *record.Batch) error {
	for i, acq := range b.AcqNs {
		at := &d.slices[d.last]
		if acq < at.FromNs || acq >= at.ToNs {
			d.last = sort.Search(len(d.slices), func(k int) bool { return d.slices[k].ToNs > acq })
			at = &d.slices[d.last]
		}
		d.scratch = at.add(b, i, d.scratch)
	}
	if cap(d.scratch) > digestScratch {
		d.scratch = nil
	}
	return nil
}

// Cut divides the acqs of a range so that each slice holds about so many stored rows at most: those
// of all devices, and also those that events hide. It returns the cuts, from the first acq to the
// last. Where MaxSlices would not do, the last cut lies before the end.
//
// Errors: ErrBelow, because a copy goes on from the last cut; ErrClosed, ctx.Err().
// Cost: some 100 us a slice; no block is read.
func (s *Store) Cut(ctx context.Context, fromNs, toNs int64, rows uint64) ([]int64, error) {
	s.scanning.RLock()
	defer s.scanning.RUnlock()
	if s.closed.Load() {
		return nil, ErrClosed
	}
	rows = max(rows, 1)
	cuts := []int64{fromNs}
	if fromNs >= toNs {
		return cuts, nil
	}
	var all stored
	for _, sh := range s.shards {
		now := sh.Acquire()
		defer now.Release()
		if !sh.Backdated.State.Load().IsEmpty() {
			return nil, ErrBelow
		}
		for _, seg := range now.Sealed {
			all.segments = append(all.segments, seg.Index)
		}
		for _, f := range now.Immutable {
			all.heads = append(all.heads, f.Head)
		}
		all.heads = append(all.heads, now.Head)
	}
	end, done := all.below(toNs), all.below(fromNs)
	for done+rows < end && len(cuts) < MaxSlices {
		last := cuts[len(cuts)-1]
		// The first acq with which the slice would have more rows.
		low, high := last+1, toNs-1
		for low < high { // the range may be wider than an int
			middle := low + int64(uint64(high-low)/2)
			if all.below(middle+1) > done+rows {
				high = middle
			} else {
				low = middle + 1
			}
		}
		cuts, done = append(cuts, low), all.below(low)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	if end-done > rows {
		return slices.Clip(cuts), nil
	}
	return append(cuts, toNs), nil
}

// stored is everything that holds rows.
type stored struct {
	segments []*index.Segment
	heads    []*index.Head
}

// below returns how many rows have an acq below a moment.
func (s *stored) below(acqNs int64) (rows uint64) {
	for _, seg := range s.segments {
		_, hi := seg.RankRange(acqNs, acqNs)
		rows += uint64(hi)
	}
	for _, h := range s.heads {
		rows += uint64(h.CountBelow(acqNs))
	}
	return rows
}
