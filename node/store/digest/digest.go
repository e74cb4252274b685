// Package digest tells whether two stores have the same rows, without comparing them.
//
// It does not know stores: it is given rows. Its main type is [Slice]. It starts no goroutine.
package digest

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"sort"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/zeebo/xxh3"
)

const (
	// MaxSlices is how many slices one digest has at most.
	MaxSlices = 1024
	// digestScratch is how large a row may be for its memory to be kept.
	digestScratch = 1 << 20
)

// Slice is the same for the same rows, wherever and in whatever order they lie, and differs for
// others but by chance of 1 in 2^128: the sum, mod 2^128, of the XXH3-128 of each row. It tells
// accidents; someone who makes up rows can make it lie.
type Slice struct {
	FromNs, ToNs int64 // of the acqs of the rows
	Rows, Bytes  uint64
	Sum          [2]uint64 // the lower half first
}

// Add takes a row in; scratch is memory for it. What is hashed is its cid i32, mid i64, moid i32,
// cap i64, acq i64, 1 for a tombstone or 0, and the payload.
func (d *Slice) Add(b *record.Batch, i int, scratch []byte) []byte {
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

// Merge takes the rows of another digest in.
func (d *Slice) Merge(o *Slice) {
	d.Rows += o.Rows
	d.Bytes += o.Bytes
	d.sum(o.Sum[0], o.Sum[1])
}

func (d *Slice) sum(lo, hi uint64) {
	var carry uint64
	d.Sum[0], carry = bits.Add64(d.Sum[0], lo, 0)
	d.Sum[1] += hi + carry
}

// CheckCuts wants a box without acqs, and cuts that ascend and are not too many.
//
// Errors: *record.InvalidError.
func CheckCuts(box *record.Box, cuts []int64) error {
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
	return nil
}

// Slices returns the digests between cuts, of no rows.
func Slices(cuts []int64) []Slice {
	all := make([]Slice, len(cuts)-1)
	for i := range all {
		all[i].FromNs, all[i].ToNs = cuts[i], cuts[i+1]
	}
	return all
}

// Adder adds up the rows that one goroutine is given.
type Adder struct {
	Slices  []Slice // what to add to, by ascending acq
	last    int     // slice of the row before
	scratch []byte
}

// Add takes rows in that lie in one of the slices each. It returns nil.
func (d *Adder) Add(b *record.Batch) error {
	for i, acq := range b.AcqNs {
		at := &d.Slices[d.last]
		if acq < at.FromNs || acq >= at.ToNs {
			d.last = sort.Search(len(d.Slices), func(k int) bool { return d.Slices[k].ToNs > acq })
			at = &d.Slices[d.last]
		}
		d.scratch = at.Add(b, i, d.scratch)
	}
	if cap(d.scratch) > digestScratch {
		d.scratch = nil
	}
	return nil
}
