package arrowfile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/exchange"
)

const (
	maxMetadataBytes = 16 << 20 // of a message: a schema of ten thousand columns is 2 MB
	// maxBatchBytes bounds a batch, packed and unpacked. Writers make batches of some 64 Ki rows;
	// who writes a table as one batch can say how large batches shall be.
	maxBatchBytes = 1 << 30
	maxBatchRows  = 1 << 28
)

// table is a stream that is read batch by batch.
type table struct {
	in       *ipc.Reader
	messages *messages
	memory   *boundedMemory
	columns  []exchange.Column
	header   *exchange.Header

	batch   arrow.RecordBatch
	row     int64 // of the batch
	batches int
}

// NewTable reads the schema of a stream, or of a file, which is a stream behind eight bytes.
func NewTable(in *bufio.Reader) (t exchange.Table, err error) {
	defer func() { err = orDamaged(recover(), "schema", err) }()
	if magic, _ := in.Peek(8); bytes.HasPrefix(magic, []byte("ARROW1")) {
		_, _ = in.Discard(8) // they were seen
	}
	m := &messages{in: in}
	bounded := &boundedMemory{}
	reader, err := ipc.NewReaderFromMessageReader(m, ipc.WithAllocator(bounded))
	if err != nil {
		return nil, m.explain("schema", err)
	}
	out := &table{in: reader, messages: m, memory: bounded}
	schema := reader.Schema()
	for _, f := range schema.Fields() {
		out.columns = append(out.columns, columnOf(f))
	}
	if text, ok := schema.Metadata().GetValue(exchange.MetadataKey); ok {
		if out.header, err = exchange.ParseHeader([]byte(text)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (t *table) Columns() []exchange.Column { return t.columns }

func (t *table) Header() *exchange.Header { return t.header }

func (t *table) Next(cells []exchange.Cells) (rows int, err error) {
	defer func() { err = orDamaged(recover(), fmt.Sprintf("batch %d", t.batches), err) }()
	for t.batch == nil || t.row == t.batch.NumRows() {
		t.batches++
		t.row, t.memory.taken = 0, 0
		if !t.in.Next() {
			return 0, t.ended()
		}
		t.batch = t.in.RecordBatch()
		if t.batch.NumRows() > maxBatchRows {
			return 0, exchange.Damaged(fmt.Sprintf("batch %d", t.batches),
				"%d rows; the limit is %d", t.batch.NumRows(), maxBatchRows)
		}
	}
	rows = int(min(exchange.TableRows, t.batch.NumRows()-t.row))
	for i := range t.columns {
		if err := fillCells(&cells[i], t.columns[i].Kind, t.batch.Column(i), int(t.row),
			rows); err != nil {
			return 0, exchange.Damaged(fmt.Sprintf("batch %d", t.batches), "column %s: %v",
				t.columns[i].Name, err)
		}
	}
	t.row += int64(rows)
	return rows, nil
}

// ended says why there are no more batches.
func (t *table) ended() error {
	where := fmt.Sprintf("batch %d", t.batches)
	if err := t.in.Err(); err != nil {
		return t.messages.explain(where, err)
	}
	if t.messages.ended || t.header == nil {
		return io.EOF // other systems may end a stream by closing it
	}
	return exchange.Damaged(where, "no end of stream: the file is truncated")
}

// orDamaged turns what the library panics at into damage.
func orDamaged(panicked any, where string, err error) error {
	if panicked == nil {
		return err
	}
	return exchange.Damaged(where, "%v", panicked)
}

// messages reads the messages of a stream. The reader of the library allocates what a length says.
type messages struct {
	in    io.Reader
	ended bool  // the stream says that it ends
	read  error // why no more could be read, but for damage
}

// Retain and Release are there for the library; there is one owner.
func (m *messages) Retain()  {}
func (m *messages) Release() {}

const continuation = 0xffffffff

func (m *messages) Message() (*ipc.Message, error) {
	size, err := m.size()
	if err != nil {
		return nil, err
	}
	head, err := m.take(int64(size))
	if err != nil {
		return nil, err
	}
	verify(head)
	meta, none := memory.NewBufferBytes(head), memory.NewBufferBytes(nil)
	length := ipc.NewMessage(meta, none).BodyLen()
	if length < 0 || length > maxBatchBytes {
		return nil, fmt.Errorf("message of %d bytes, the limit is %d; write smaller batches",
			length, maxBatchBytes)
	}
	body, err := m.take(length)
	if err != nil {
		return nil, err
	}
	return ipc.NewMessage(meta, memory.NewBufferBytes(body)), nil
}

// size reads the length of the next metadata.
func (m *messages) size() (uint32, error) {
	head, err := m.take(4)
	if err != nil {
		if len(head) == 0 && errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, io.EOF
		}
		return 0, err
	}
	size := binary.LittleEndian.Uint32(head)
	if size == continuation {
		if head, err = m.take(4); err != nil {
			return 0, err
		}
		size = binary.LittleEndian.Uint32(head)
	}
	switch {
	case size == 0:
		m.ended = true
		return 0, io.EOF
	case size < 8 || size > maxMetadataBytes:
		return 0, fmt.Errorf("metadata of %d bytes; expected 8 to %d", size, maxMetadataBytes)
	}
	return size, nil
}

// take reads size bytes. Memory grows with what comes, and not by what a length says.
func (m *messages) take(size int64) ([]byte, error) {
	var buf bytes.Buffer
	buf.Grow(int(min(size, 1<<20)))
	n, err := io.CopyN(&buf, m.in, size)
	switch {
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	case err != nil:
		m.read = err
	}
	return buf.Bytes()[:n], err
}

// explain tells damage from a file that cannot be read.
func (m *messages) explain(where string, err error) error {
	if m.read != nil {
		return m.read
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return exchange.Damaged(where, "the file is truncated in it")
	}
	return exchange.Damaged(where, "%v", err)
}

// boundedMemory gives out what a batch unpacks to.
type boundedMemory struct {
	memory.GoAllocator
	taken int
}

// Allocate panics beyond the bound; the library turns that into an error.
func (b *boundedMemory) Allocate(size int) []byte {
	if b.taken += size; size < 0 || b.taken > maxBatchBytes {
		panic(fmt.Sprintf("more than %d bytes decompressed; write smaller batches", maxBatchBytes))
	}
	return b.GoAllocator.Allocate(size)
}

// Reallocate is bounded likewise.
func (b *boundedMemory) Reallocate(size int, old []byte) []byte {
	if b.taken += size - len(old); size < 0 || b.taken > maxBatchBytes {
		panic(fmt.Sprintf("more than %d bytes decompressed; write smaller batches", maxBatchBytes))
	}
	return b.GoAllocator.Reallocate(size, old)
}
