package spill

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/pentad-db/pentad/sdk/crc32c"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	// A block of a run has this many rows, or ends after the row that reaches this many bytes of
	// payloads. A merge has one block of each run in memory: some 100 KiB with its buffer.
	blockRows  = 512
	blockBytes = 32 << 10
	// inlineBytes is the largest payload that is read together with the keys of its block: payloads
	// of a block with a larger one are read one by one.
	inlineBytes = 2 * blockBytes
	// stepBytes is how much is written between two checks of free disk space.
	stepBytes = 16 << 20

	referenceBytes = 8

	kindInline     = 0 // a frame of rows
	kindReferences = 1 // a frame with references in place of payloads, which follow it
)

// file is a temporary file of a sorter.
//
// It has blocks, each a kind byte and a frame of rows as sdk/wire/PROTOCOL.md has it. With kind 1
// each payload of the frame is a reference, size u32 | crc u32 (CRC-32C), little-endian, and the
// payloads follow the frame, one after another.
type file struct {
	space *Space
	*os.File
	size     int64
	reserved int64 // size up to which disk space was checked
	runs     int   // in use
}

// run is a section of a file with sorted rows.
type run struct {
	*file
	level    int // number of merges of its rows
	from, to int64
}

// runWriter appends a run to a file.
type runWriter struct {
	file  *file
	from  int64
	out   *bufio.Writer
	block record.Batch
	refs  record.Batch
	frame []byte
}

func newRunWriter(f *file) *runWriter {
	w := &runWriter{file: f, from: f.size}
	w.out = bufio.NewWriterSize(w, blockBytes)
	return w
}

// Write writes to the file itself.
func (w *runWriter) Write(b []byte) (int, error) {
	f := w.file
	if need := f.size + int64(len(b)); need > f.reserved {
		step := max(stepBytes, int64(len(b)))
		if err := f.space.checkFree(step); err != nil {
			return 0, err
		}
		f.reserved = f.size + step
	}
	n, err := f.WriteAt(b, f.size)
	f.size += int64(n)
	f.space.disk.Add(int64(n))
	f.space.spilled.Add(int64(n))
	if err != nil {
		err = f.space.failed(err)
	}
	return n, err
}

// add adds the next row of the run.
func (w *runWriter) add(k record.Key, payload []byte, tomb bool) error {
	appendRow(&w.block, k, payload, tomb)
	if w.block.Len() >= blockRows || len(w.block.Data) >= blockBytes {
		return w.flush()
	}
	return nil
}

func appendRow(b *record.Batch, k record.Key, payload []byte, tomb bool) {
	if tomb {
		b.AppendStampedTomb(k)
	} else {
		b.AppendStamped(k, payload)
	}
}

// flush writes the block.
func (w *runWriter) flush() (err error) {
	b := &w.block
	if b.Len() == 0 {
		return nil
	}
	defer func() {
		if b.Reset(); cap(b.Data) > inlineBytes {
			b.Data = nil
		}
	}()
	kind, rows := byte(kindInline), b
	if len(b.Data) > inlineBytes {
		kind, rows = kindReferences, &w.refs
		w.refs.Reset()
		for i := range b.Len() {
			p := b.Payload(i)
			ref := binary.LittleEndian.AppendUint32(nil, uint32(len(p)))
			ref = binary.LittleEndian.AppendUint32(ref, crc32c.Sum(p))
			appendRow(rows, b.Key(i), ref, b.Tomb(i))
		}
	}
	if w.frame, err = wire.AppendRows(append(w.frame[:0], kind), rows); err != nil {
		return fmt.Errorf("BUG: rows that came from a store do not fit a frame: %w", err)
	}
	_, err = w.out.Write(w.frame)
	for i := 0; kind == kindReferences && i < b.Len() && err == nil; i++ {
		_, err = w.out.Write(b.Payload(i))
	}
	return err
}

// end returns the run that was written.
func (w *runWriter) end(level int) (run, error) {
	err := w.flush()
	if err == nil {
		err = w.out.Flush()
	}
	w.file.runs++
	return run{w.file, level, w.from, w.file.size}, err
}

// drop releases a run, and its file with the last run.
func (r run) drop() {
	if r.runs--; r.runs == 0 {
		r.remove()
	}
}

// remove removes the file.
func (f *file) remove() {
	_ = f.Close() // its data is not needed any more
	f.space.disk.Add(-f.size)
}

// cursor is a position in a run, in memory or in a file.
type cursor struct {
	batch *record.Batch
	at    int
	key   record.Key      // of the row
	next  []*record.Batch // of a run in memory

	from      *blockReader // nil of a run in memory
	payloadAt int64        // offset of the row's payload in the file; 0: in the batch
	holder    record.Batch
}

// blockReader reads the blocks of a run.
type blockReader struct {
	run
	at     int64
	frames *wire.Reader
	// large is the buffer of a payload that was read separately; the runs of a merge share it.
	large *[]byte
}

func (r run) cursor(large *[]byte) *cursor {
	c := &cursor{from: &blockReader{run: r, at: r.from, large: large}}
	c.from.frames = wire.NewReader(c.from, 2*inlineBytes)
	c.batch = &c.holder
	return c
}

// Read reads on in the file.
func (r *blockReader) Read(b []byte) (int, error) {
	if r.at >= r.to {
		return 0, io.EOF
	}
	n, err := r.ReadAt(b[:min(int64(len(b)), r.to-r.at)], r.at)
	r.at += int64(n)
	return n, err
}

// payload returns the payload of the row, valid until payload is called for another run.
func (c *cursor) payload() ([]byte, error) {
	p := c.batch.Payload(c.at)
	if c.payloadAt == 0 || len(p) != referenceBytes {
		return p, nil
	}
	bytes := binary.LittleEndian.Uint32(p)
	if int64(bytes) > min(record.MaxPayloadBytes, c.from.to-c.payloadAt) {
		return nil, c.from.damaged(errors.New("a payload lies beyond its run"))
	}
	if uint32(cap(*c.from.large)) < bytes {
		*c.from.large = make([]byte, bytes)
	}
	out := (*c.from.large)[:bytes]
	if _, err := c.from.ReadAt(out, c.payloadAt); err != nil {
		return nil, c.from.damaged(err)
	}
	if crc32c.Sum(out) != binary.LittleEndian.Uint32(p[4:]) {
		return nil, c.from.damaged(errors.New("the checksum of a payload differs"))
	}
	return out, nil
}

// forward moves to the next row, and reports whether there is one.
func (c *cursor) forward() (bool, error) {
	if c.payloadAt != 0 {
		if p := c.batch.Payload(c.at); len(p) == referenceBytes {
			c.payloadAt += int64(binary.LittleEndian.Uint32(p))
		}
	}
	if c.at++; c.at < c.batch.Len() {
		c.key = c.batch.Key(c.at)
		return true, nil
	}
	if c.payloadAt != 0 {
		c.from.at = c.payloadAt
	}
	return c.load()
}

// load goes to the first row of the next block.
func (c *cursor) load() (bool, error) {
	c.at, c.payloadAt = 0, 0
	if c.from == nil {
		if len(c.next) == 0 {
			return false, nil
		}
		c.batch, c.next = c.next[0], c.next[1:]
		c.key = c.batch.Key(0)
		return true, nil
	}
	if c.from.at == c.from.to {
		return false, nil
	}
	kind := []byte{0}
	_, err := io.ReadFull(c.from, kind)
	if err == nil {
		var frame []byte
		if _, frame, err = c.from.frames.Next(); err == nil {
			err = wire.ParseRows(frame, c.batch)
		}
	}
	switch {
	case err != nil:
	case kind[0] > kindReferences:
		err = fmt.Errorf("a block of kind %d", kind[0])
	case c.batch.AcqNs == nil:
		err = errors.New("rows have no acq")
	case kind[0] == kindReferences:
		c.payloadAt = c.from.at
	}
	if err != nil {
		return false, c.from.damaged(err)
	}
	c.key = c.batch.Key(0)
	return true, nil
}

// inMemory returns a cursor at the first row of a run in memory.
func inMemory(batches ...*record.Batch) *cursor {
	return &cursor{batch: batches[0], key: batches[0].Key(0), next: batches[1:]}
}

// damaged is the error of a file that has not what was written to it. Kinds of the causes mean
// something else to clients.
func (r *blockReader) damaged(cause error) error {
	return fmt.Errorf("read a temporary file in %s: %v", r.space.dir, cause)
}

// merge hands the rows of cursors, each at its first row, to emit in order.
func merge(
	ctx context.Context, compare func(a, b record.Key) int, cursors []*cursor, limit uint64,
	emit func(c *cursor) error,
) error {
	h := heap{compare: compare, all: cursors}
	for i := len(cursors)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
	for rows := uint64(0); len(h.all) > 0 && (limit == 0 || rows < limit); rows++ {
		if rows%blockRows == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		first := h.all[0]
		if err := emit(first); err != nil {
			return err
		}
		more, err := first.forward()
		if err != nil {
			return err
		}
		if !more {
			last := len(h.all) - 1
			h.all[0], h.all = h.all[last], h.all[:last]
		}
		h.down(0)
	}
	return nil
}

// heap has the cursor with the least key first.
type heap struct {
	compare func(a, b record.Key) int
	all     []*cursor
}

func (h *heap) less(i, k int) bool { return h.compare(h.all[i].key, h.all[k].key) < 0 }

func (h *heap) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h.all); child++ {
			if h.less(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		h.all[i], h.all[least] = h.all[least], h.all[i]
		i = least
	}
}
