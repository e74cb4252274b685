package spill

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	// A block of a run has this many rows, or ends after the one that fills this many bytes of
	// payloads. It is what a merge holds of each run: some 100 KiB with what it was read from.
	blockRows  = 512
	blockBytes = 32 << 10
	// apartBytes is the most that payloads of a block have that are read with its keys: those of a
	// block with a larger payload are read one by one.
	apartBytes = 2 * blockBytes
	// stepBytes is how much is written before the room on the disk is looked at again.
	stepBytes = 16 << 20

	referenceBytes = 8

	kindWhole = 0 // a frame of rows
	kindApart = 1 // a frame of rows with references in place of payloads, and these behind it
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// file is a temporary file of a sorter.
//
// It has blocks, each a kind byte and a frame of rows as sdk/wire/PROTOCOL.md has it. With kind 1
// each payload of the frame is a reference, size u32 | crc u32 (CRC-32C), little-endian, and the
// payloads follow the frame, one after another.
type file struct {
	space *Space
	*os.File
	size int64
	room int64 // up to this size there was room
	runs int   // that are still needed
}

// run is a part of a file whose rows are in order.
type run struct {
	*file
	level    int // how often its rows were merged
	from, to int64
}

// runWriter writes a run behind what a file has.
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
	if need := f.size + int64(len(b)); need > f.room {
		step := max(stepBytes, int64(len(b)))
		if err := f.space.room(step); err != nil {
			return 0, err
		}
		f.room = f.size + step
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
		if b.Reset(); cap(b.Data) > apartBytes {
			b.Data = nil
		}
	}()
	kind, rows := byte(kindWhole), b
	if len(b.Data) > apartBytes {
		kind, rows = kindApart, &w.refs
		w.refs.Reset()
		for i := range b.Len() {
			p := b.Payload(i)
			ref := binary.LittleEndian.AppendUint32(nil, uint32(len(p)))
			ref = binary.LittleEndian.AppendUint32(ref, crc32.Checksum(p, castagnoli))
			appendRow(rows, b.Key(i), ref, b.Tomb(i))
		}
	}
	if w.frame, err = wire.AppendRows(append(w.frame[:0], kind), rows); err != nil {
		return fmt.Errorf("BUG: rows that came from a store do not fit a frame: %w", err)
	}
	_, err = w.out.Write(w.frame)
	for i := 0; kind == kindApart && i < b.Len() && err == nil; i++ {
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

// drop ends the use of a run, and of its file when it was the last one.
func (r run) drop() {
	if r.runs--; r.runs == 0 {
		r.remove()
	}
}

// remove removes the file.
func (f *file) remove() {
	_ = f.Close() // what it held is of no use any more
	f.space.disk.Add(-f.size)
}

// cursor is at a row of a run, in memory or in a file.
type cursor struct {
	batch *record.Batch
	at    int
	key   record.Key      // of the row
	next  []*record.Batch // of a run in memory

	from   *blockReader // nil of a run in memory
	apart  int64        // where in the file the payload of the row is; 0: in the batch
	holder record.Batch
}

// blockReader reads the blocks of a run.
type blockReader struct {
	run
	at     int64
	frames *wire.Reader
	// large holds a payload that was read apart; all runs that are merged have it in turn.
	large *[]byte
}

func (r run) cursor(large *[]byte) *cursor {
	c := &cursor{from: &blockReader{run: r, at: r.from, large: large}}
	c.from.frames = wire.NewReader(c.from, 2*apartBytes)
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

// payload returns the payload of the row, valid until that of another run is asked for.
func (c *cursor) payload() ([]byte, error) {
	p := c.batch.Payload(c.at)
	if c.apart == 0 || len(p) != referenceBytes {
		return p, nil
	}
	bytes := binary.LittleEndian.Uint32(p)
	if int64(bytes) > min(record.MaxPayloadBytes, c.from.to-c.apart) {
		return nil, c.from.damaged(errors.New("a payload lies beyond its run"))
	}
	if uint32(cap(*c.from.large)) < bytes {
		*c.from.large = make([]byte, bytes)
	}
	out := (*c.from.large)[:bytes]
	if _, err := c.from.ReadAt(out, c.apart); err != nil {
		return nil, c.from.damaged(err)
	}
	if crc32.Checksum(out, castagnoli) != binary.LittleEndian.Uint32(p[4:]) {
		return nil, c.from.damaged(errors.New("the checksum of a payload differs"))
	}
	return out, nil
}

// forward goes to the next row, and reports whether there is one.
func (c *cursor) forward() (bool, error) {
	if c.apart != 0 {
		if p := c.batch.Payload(c.at); len(p) == referenceBytes {
			c.apart += int64(binary.LittleEndian.Uint32(p))
		}
	}
	if c.at++; c.at < c.batch.Len() {
		c.key = c.batch.Key(c.at)
		return true, nil
	}
	if c.apart != 0 {
		c.from.at = c.apart
	}
	return c.load()
}

// load goes to the first row of the next block.
func (c *cursor) load() (bool, error) {
	c.at, c.apart = 0, 0
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
	case kind[0] > kindApart:
		err = fmt.Errorf("a block of kind %d", kind[0])
	case c.batch.AcqNs == nil:
		err = errors.New("rows have no acq")
	case kind[0] == kindApart:
		c.apart = c.from.at
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
