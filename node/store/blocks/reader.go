// Package blocks reads the rows of sealed segments: the one way in which scans, last readings,
// diffs, merges and purges open blocks.
//
// It owns the plan of a box on a segment, the choice of rows in a block, what range tombstones hide
// of it, and what is asked of memory and disk ahead. Rows come out as batches, for a [Consumer] or
// for a caller that looks at them itself. It knows neither heads nor newer versions of a row nor
// the store. Its main types are [PlannedSegment], [Reader] and [Gatherer]. It starts no goroutines:
// a reader belongs to one at a time.
package blocks

import (
	"context"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/cpushare"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/record"
)

// Counts say what a reader did.
type Counts struct {
	Rows           uint64 // rows given to the consumer, or counted
	Blocks         uint64 // blocks opened
	Inside         uint64 // of these, blocks that are taken whole
	Examined       uint64 // rows of the opened blocks
	Bytes          uint64 // bytes of the opened blocks
	HeadRows       uint64 // rows that came from heads; the user of the reader counts them
	SkippedBlocks  uint64 // of the blocks opened, those of which no payload can meet Gatherer.Where
	SupersededRows uint64 // rows left out for a newer version; the user counts them
	Planned        int    // segments planned; the user counts them where it plans by itself
}

// Reader opens blocks of segments and chooses rows of them. It is used by one goroutine.
type Reader struct {
	readerState
	readerBuffers
}

// readerState is what a reader works at, and what it has done.
type readerState struct {
	Counts     Counts
	Ctx        context.Context // of the task whose CPU time is shared; nil: it is not
	CPU        cpushare.Worker // the share of the query in the processors, if it has one
	steps      int             // blocks opened, see step
	Verify     bool            // every block that is opened is verified
	CopyBlocks bool            // blocks are verified in a copy: their rows are kept
	CountOnly  bool            // rows are counted, and not taken
	// CountShown: rows of whole blocks are counted, and not taken, where RowHider finds which are
	// superseded.
	CountShown   bool
	Box          *record.Box    // what rows are chosen by
	outsideSlots bool           // the last of coveredDevices is in slots of another group
	searched     bool           // devices can be searched for
	Block        *segment.Block // that is open
}

type readerBuffers struct {
	own    segment.Block
	Chosen []uint32 // what Choose returned, and TakeChosen takes; memory for it
	// prefetchSpans are the rows of a block whose first residual column is prefetched.
	prefetchSpans  []segment.Span
	covered        []uint32       // rows of a block that a range tombstone hides
	coveredDevices record.Batch   // devices of such rows
	devices        []segment.MIDs // of the box, in the open block
}

// reset forgets everything but memory, and of that what only unusual rows need.
func (r *Reader) reset() {
	if r.Block != nil {
		r.own.Close()
	}
	r.readerState = readerState{}
	Empty(&r.coveredDevices)
}

// Open checks and parses a block, which is r.Block then.
//
// Errors: *durable.CorruptError, ctx.Err().
func (r *Reader) Open(seg *PlannedSegment, c index.Candidate) (*index.BlockInfo, error) {
	return r.openAs(seg, c, &r.own)
}

// openAs is Open in the memory of a block.
func (r *Reader) openAs(
	seg *PlannedSegment, c index.Candidate, b *segment.Block,
) (*index.BlockInfo, error) {
	if err := r.step(seg); err != nil {
		return nil, err
	}
	r.Block = b
	info, err := seg.OpenBlock(c.Block, b, r.CopyBlocks || r.Verify)
	if err != nil {
		return nil, err
	}
	r.Counts.Blocks++
	r.Counts.Bytes += uint64(info.Size)
	r.Counts.Examined += uint64(info.Rows)
	if c.Residual == 0 {
		r.Counts.Inside++
	}
	return info, nil
}

// Reopen opens a block once more, which counts nothing.
//
// Errors: *durable.CorruptError.
func (r *Reader) Reopen(seg *PlannedSegment, number uint32) error {
	r.Block = &r.own
	_, err := seg.OpenBlock(number, &r.own, r.CopyBlocks || r.Verify)
	return err
}

// Keys opens a block and makes a batch hold the keys, with acqs, of its rows that are in the box
// and not hidden.
//
// Errors: *durable.CorruptError, ctx.Err().
func (r *Reader) Keys(seg *PlannedSegment, c index.Candidate, to *record.Batch) error {
	info, err := r.Open(seg, c)
	if err != nil {
		return err
	}
	r.Chosen = r.Choose(seg, info, c.Residual)
	to.Reset()
	if err := r.Block.Gather(r.Chosen, true, to); err != nil {
		return err
	}
	return seg.RanksToAcqs(to.AcqNs)
}

// stepBlocks is after how many blocks a worker looks whether its time slice is over, and refreshes
// the clock by which blocks are verified again: to look at a clock takes half as long as to open a
// small block.
const stepBlocks = 16

// step is called for each block; merges have no time slices.
func (r *Reader) step(seg *PlannedSegment) error {
	if r.steps++; r.steps%stepBlocks != 0 {
		return nil
	}
	seg.File.RefreshClock()
	if r.Ctx == nil {
		return nil
	}
	return r.CPU.Yield(r.Ctx)
}

// Empty leaves a batch without rows, and without memory that only unusual rows need.
func Empty(batch *record.Batch) {
	batch.Reset()
	if cap(batch.Data) > BatchBytes {
		*batch = record.Batch{}
	}
}
