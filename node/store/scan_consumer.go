package store

import (
	"sync/atomic"

	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/record"
)

// Sink takes the rows of a scan, a few thousand at a time, stamped, in no order. The batch is
// valid during the call. An error ends the scan.
type Sink func(b *record.Batch) error

// Consumer receives the rows of one worker of a scan.
type Consumer struct {
	Rows    Sink
	Columns segment.Columns // of rows that Rows looks at
	// Partials gets rows of whole blocks one by one, see [PartialSink]; nil: Rows gets all.
	Partials PartialSink
	// PayloadBuffer, unless it is nil, is called before a batch is gathered, and returns a buffer
	// for its payloads, or nil. The buffer belongs to the worker until Rows has returned. nested:
	// the buffer of the last call is still in use, so another one is needed. Payloads that do not
	// fit are stored elsewhere. In a view that resolves versions the buffer may contain payloads of
	// rows that are dropped.
	PayloadBuffer func(nested bool) []byte
	// Done, unless it is nil, is called after a worker other than the first has delivered its last
	// row. The scan does not wait for it to return.
	Done func()
}

// discard makes the consumer of scans that only count.
func discard(int) (Consumer, error) {
	return Consumer{Rows: func(*record.Batch) error { return nil }}, nil
}

// attach gets the worker its consumer, unless it has one from a pass before. A worker whose scan
// was stopped gets none: whatever one failed to make, others would fail to make again.
func (w *worker) attach(
	newConsumer func(worker int) (Consumer, error), stopped *atomic.Bool,
) (err error) {
	if w.consumer.Rows != nil {
		return nil
	}
	w.scan.attaching.Lock()
	defer w.scan.attaching.Unlock()
	if stopped.Load() {
		return nil
	}
	if w.consumer, err = newConsumer(w.number); err != nil {
		stopped.Store(true)
	}
	w.columns = w.scan.columnsRead(w.consumer.Columns)
	return err
}

// columnsRead returns which parts of rows are read for who looks at some. Views that resolve
// versions look at whole keys.
func (sc *scan) columnsRead(parts segment.Columns) segment.Columns {
	if sc.keysOnly {
		parts &= segment.Keys
	}
	if sc.view != record.ViewAll {
		parts |= segment.Keys
	}
	return parts
}

// keysOnly reports whether no payload is read.
func (w *worker) keysOnly() bool { return w.columns&segment.Payloads == 0 }

// lentBuffer is memory of a consumer in which the payloads of a batch are put together.
type lentBuffer struct {
	bytes int    // 0: there is none
	own   []byte // of the batch
}

// begin lets the payloads of an empty batch lie in a room.
func (l *lentBuffer) begin(b *record.Batch, room []byte) {
	if l.bytes == 0 && len(room) > 0 {
		l.bytes, l.own = len(room), b.Data
		b.Data = room[:0:len(room)]
	}
}

// end gives a batch, which is empty, its own memory back, and reports whether the payloads did not
// fit into what was lent.
func (l *lentBuffer) end(b *record.Batch) (outgrown bool) {
	if l.bytes == 0 {
		return false
	}
	outgrown = cap(b.Data) != l.bytes
	if !outgrown {
		b.Data = l.own[:0]
	}
	*l = lentBuffer{}
	return outgrown
}
