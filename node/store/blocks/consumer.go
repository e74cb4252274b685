package blocks

import (
	"context"

	"github.com/pentad-db/pentad/node/internal/partials"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/record"
)

// Sink takes the rows of a scan, a few thousand at a time, in no order. They have the columns that
// the consumer names, and maybe others. The batch is valid during the call. An error ends the scan.
type Sink func(b *record.Batch) error

// Consumer receives the rows of one worker of a scan.
type Consumer struct {
	Rows    Sink
	Columns segment.Columns // of rows that Rows looks at
	// Partials gets rows of whole blocks one by one, see [PartialSink]; nil: Rows gets all.
	Partials PartialSink
	// PayloadBuffer, unless it is nil, is called before a batch is gathered, and returns a buffer
	// for its payloads, or nil. The buffer belongs to the worker until Rows has returned. inUse:
	// the buffer of the last call is still in use, so another one is needed. Payloads that do not
	// fit are stored elsewhere. In a view that resolves versions the buffer may contain payloads of
	// rows that are dropped.
	PayloadBuffer func(inUse bool) []byte
	// Done, unless it is nil, is called after a worker other than the first has delivered its last
	// row. The scan does not wait for it to return.
	Done func()
}

// BlockPartial is the rows that a box selects of one sealed block. An equal one has the same rows
// in every query.
type BlockPartial struct {
	partials.Partial
	HasState bool // set by PartialSink.LookUp: the sink has its state and needs no rows
}

// PartialSink is the half of a consumer that aggregates sealed blocks one by one, so that the state
// of each can be cached. Which partials a scan has depends only on what is stored and on the query.
type PartialSink interface {
	// Wants is called before blocks of a segment with this number of blocks. If it returns false,
	// their rows come with all others.
	Wants(seg *partials.SegmentTables, blocks int) bool
	// BeginMorsel says of which morsel all is that comes until EndMorsel. Morsels have the same
	// rows, in the same batches, in whatever worker and in whatever order they are done; their
	// numbers ascend, not one by one.
	BeginMorsel(number int)
	EndMorsel() error
	// LookUp looks for the states of the next partials of the segment, in the cache too, and sets
	// HasState. The partials are valid until the next LookUp.
	LookUp(ctx context.Context, partials []BlockPartial) error
	// Begin is called for each partial in turn. If it returns true, the consumer gets its rows, and
	// then End is called.
	Begin() (rows bool)
	End()
}

// consumerBuffer is a buffer of the consumer that is in use: the payloads of a batch are gathered
// in it.
type consumerBuffer struct {
	size      int    // of the buffer; 0: none is in use
	batchData []byte // the memory of the batch, which it gets back
}

// begin makes an empty batch gather payloads in a buffer of the consumer.
func (c *consumerBuffer) begin(b *record.Batch, buffer []byte) {
	if c.size == 0 && len(buffer) > 0 {
		c.size, c.batchData = len(buffer), b.Data
		b.Data = buffer[:0:len(buffer)]
	}
}

// end gives a batch, which is empty, its own memory back, and reports whether the payloads did not
// fit into the buffer.
func (c *consumerBuffer) end(b *record.Batch) (outgrown bool) {
	if c.size == 0 {
		return false
	}
	outgrown = cap(b.Data) != c.size
	if !outgrown {
		b.Data = c.batchData[:0]
	}
	*c = consumerBuffer{}
	return outgrown
}
