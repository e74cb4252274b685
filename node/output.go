package node

import (
	"cmp"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// output brings the rows of all workers into the order and limit of the query.
type output struct {
	q      *record.Query
	emit   func(b *record.Batch) error
	write  func(frames []byte) error // see [Node.queryFrames]; nil where emit takes batches
	budget int64

	mu     sync.Mutex // guards all below
	rows   uint64
	chosen []record.Record // with an order: the rows so far
	bytes  int64
}

// add takes a batch from a worker.
func (o *output) add(b *record.Batch) error {
	if o.write != nil && o.q.Order == record.OrderNone && o.q.Limit == 0 {
		return o.addFrames(b)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.q.Order != record.OrderNone {
		return o.collect(b)
	}
	if o.q.Limit > 0 && o.rows+uint64(b.Len()) > o.q.Limit {
		b = b.Head(int(o.q.Limit - o.rows))
	}
	if b.Len() > 0 {
		o.rows += uint64(b.Len())
		if err := o.emit(o.projected(b)); err != nil {
			return err
		}
	}
	if o.q.Limit > 0 && o.rows >= o.q.Limit {
		return errEnough
	}
	return nil
}

// addFrames is add where rows stay as they come: workers make frames of them side by side.
func (o *output) addFrames(b *record.Batch) error {
	frames, err := rowFrames(o.projected(b))
	if err != nil {
		return err
	}
	defer freeFrames(frames)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rows += uint64(b.Len())
	return o.write(*frames)
}

// rowFrames makes frames of rows.
//
// Ownership: they go to freeFrames.
func rowFrames(b *record.Batch) (*[]byte, error) {
	frames := frameBuffers.Get().(*[]byte)
	out := (*frames)[:0]
	for b.Len() > 0 {
		part := b.Head(min(b.Len(), wire.MaxRows))
		var err error
		if out, err = wire.AppendRows(out, part); err != nil {
			return nil, err
		}
		b = tail(b, part.Len())
	}
	*frames = out
	return frames, nil
}

func freeFrames(frames *[]byte) {
	if cap(*frames) <= maxPooledBytes {
		frameBuffers.Put(frames)
	}
}

// projected leaves payloads out when the query asks for keys, also after a filter that saw them.
func (o *output) projected(b *record.Batch) *record.Batch {
	if !o.q.KeysOnly || len(b.Data) == 0 {
		return b
	}
	return &record.Batch{CID: b.CID, MID: b.MID, MOID: b.MOID, CapNs: b.CapNs, AcqNs: b.AcqNs,
		Tombs: b.Tombs}
}

// rowBytes is what a collected row takes beside its payload.
const rowBytes = 64

func (o *output) collect(b *record.Batch) error {
	data := slices.Clone(b.Data)
	if o.q.KeysOnly {
		data = nil
	}
	for i := range b.Len() {
		r := record.Record{Key: b.Key(i), Tomb: b.Tomb(i)}
		if data != nil && !r.Tomb {
			at, end := i*b.Stride, (i+1)*b.Stride
			if b.Offsets != nil {
				at, end = int(b.Offsets[i]), int(b.Offsets[i+1])
			}
			r.Payload = data[at:end:end]
		}
		o.chosen = append(o.chosen, r)
		o.bytes += rowBytes + int64(len(r.Payload))
	}
	if limit := o.q.Limit; limit > 0 && uint64(len(o.chosen)) > 4*limit+sortSlack {
		o.cut()
	}
	if o.bytes > o.budget {
		return errTooLarge
	}
	return nil
}

// sortSlack keeps small limits from sorting after every batch.
const sortSlack = 1 << 16

// cut sorts what was collected and drops what lies beyond the limit.
func (o *output) cut() {
	compare := record.Key.Compare
	if o.q.Order == record.OrderAcq {
		compare = func(a, b record.Key) int {
			return cmp.Or(cmp.Compare(a.AcqNs, b.AcqNs), a.Compare(b))
		}
	}
	slices.SortFunc(o.chosen, func(a, b record.Record) int { return compare(a.Key, b.Key) })
	if o.q.Limit == 0 || uint64(len(o.chosen)) <= o.q.Limit {
		return
	}
	// Payloads are copied: they alias the whole batches that they came with.
	o.chosen = slices.Clone(o.chosen[:o.q.Limit])
	o.bytes = 0
	for i := range o.chosen {
		o.chosen[i].Payload = slices.Clone(o.chosen[i].Payload)
		o.bytes += rowBytes + int64(len(o.chosen[i].Payload))
	}
}

// emitRows is how many ordered rows are emitted at once.
const emitRows = 4096

func (o *output) finish() error {
	if o.q.Order == record.OrderNone {
		return nil
	}
	o.cut()
	var b record.Batch
	for i, r := range o.chosen {
		if r.Tomb {
			b.AppendStampedTomb(r.Key)
		} else {
			b.AppendStamped(r.Key, r.Payload)
		}
		if b.Len() == emitRows || len(b.Data) > record.MaxPayloadBytes/2 || i == len(o.chosen)-1 {
			o.rows += uint64(b.Len())
			if err := o.emit(&b); err != nil {
				return err
			}
			b.Reset()
		}
	}
	return nil
}
