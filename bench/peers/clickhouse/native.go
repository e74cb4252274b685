package clickhouse

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pentad-db/pentad/bench/peers/sqltext"
	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

// Format Native is blocks of columns. A block is the number of columns and of rows as uvarints,
// then of each column its name and its type, as strings after a uvarint of their length, and its
// values, little-endian. An error in the midst of an answer comes as text instead of a block.
const (
	columnsMax   = 7 // cid, mid, moid, cap, acq, val, status; a block of them begins with that byte
	maxNameBytes = 1 << 10
	maxBlockRows = 1 << 24 // the server sends 65,536 of a table, and more of groups
	stepBytes    = 1 << 20 // that a column grows by before they are read
)

// appendBlock appends a batch, which is stamped, as a block.
func appendBlock(dst []byte, b *record.Batch, shape system.Shape) []byte {
	names := sqltext.Columns(shape)
	dst = binary.AppendUvarint(dst, uint64(len(names)))
	dst = binary.AppendUvarint(dst, uint64(b.Len()))
	head := func(i int, kind string) {
		dst = appendString(appendString(dst, names[i]), kind)
	}
	head(0, "Int32")
	dst = appendInt32s(dst, b.CID)
	head(1, "Int64")
	dst = appendInt64s(dst, b.MID)
	head(2, "Int32")
	dst = appendInt32s(dst, b.MOID)
	head(3, "Int64")
	dst = appendInt64s(dst, b.CapNs)
	head(4, "Int64")
	dst = appendInt64s(dst, b.AcqNs)
	head(5, "Float64")
	dst = appendWords(dst, b, 0)
	if shape.Status() {
		head(6, "Int64")
		dst = appendWords(dst, b, system.NumberBytes)
	}
	return dst
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendInt32s(dst []byte, values []int32) []byte {
	for _, v := range values {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(v))
	}
	return dst
}

func appendInt64s(dst []byte, values []int64) []byte {
	for _, v := range values {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(v))
	}
	return dst
}

// appendWords appends the 8 bytes at an offset of each payload.
func appendWords(dst []byte, b *record.Batch, offset int) []byte {
	for i := range b.Len() {
		dst = append(dst, b.Payload(i)[offset:offset+8]...)
	}
	return dst
}

// column is the values of a column of a block.
type column struct {
	width int // bytes of a value: 1, 4 or 8
	bytes []byte
}

// reader reads blocks of cid, mid, moid, cap, acq, val and, with status, status.
type reader struct {
	src     *bufio.Reader
	status  bool
	rows    int // of the block
	columns [columnsMax]column
	batch   record.Batch
}

// next reads a block and returns its rows; at the end of the answer it returns io.EOF.
func (r *reader) next() (int, error) {
	count, err := r.src.ReadByte()
	if err != nil {
		return 0, err
	}
	want := columnsMax
	if !r.status {
		want--
	}
	if int(count) != want {
		return 0, r.refusal(count)
	}
	rows, err := binary.ReadUvarint(r.src)
	if err != nil {
		return 0, cut(err)
	}
	if rows > maxBlockRows {
		return 0, fmt.Errorf("a block of %d rows", rows)
	}
	r.rows = int(rows)
	for i := range want {
		if err := r.readColumn(&r.columns[i]); err != nil {
			return 0, cut(err)
		}
	}
	return r.rows, nil
}

// refusal returns the error that comes in the place of a block.
func (r *reader) refusal(first byte) error {
	rest, err := io.ReadAll(io.LimitReader(r.src, maxTextBytes))
	if err != nil {
		return err
	}
	return fmt.Errorf("not a block of rows: %q", append([]byte{first}, rest...))
}

// cut returns the error of an answer that ends within a block.
func cut(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (r *reader) readColumn(c *column) error {
	name, err := r.readString()
	if err != nil {
		return err
	}
	kind, err := r.readString()
	if err != nil {
		return err
	}
	switch kind {
	case "UInt8":
		c.width = 1
	case "Int32":
		c.width = 4
	case "Int64", "Float64":
		c.width = 8
	default:
		return fmt.Errorf("column %s is of type %s", name, kind)
	}
	c.bytes = c.bytes[:0]
	for left := r.rows * c.width; left > 0; {
		had, step := len(c.bytes), min(left, stepBytes)
		c.bytes = slices.Grow(c.bytes, step)[:had+step]
		if _, err := io.ReadFull(r.src, c.bytes[had:]); err != nil {
			return err
		}
		left -= step
	}
	return nil
}

func (r *reader) readString() (string, error) {
	size, err := binary.ReadUvarint(r.src)
	if err != nil {
		return "", err
	}
	if size > maxNameBytes {
		return "", fmt.Errorf("a name of %d bytes", size)
	}
	var text strings.Builder
	_, err = io.CopyN(&text, r.src, int64(size))
	return text.String(), err
}

// handOut hands out the rows of the block.
func (r *reader) handOut(take func(b *record.Batch)) error {
	for _, c := range r.columns[5:] {
		if len(c.bytes) > 0 && c.width != 8 {
			return fmt.Errorf("a part of the payload has %d bytes", c.width)
		}
	}
	b := &r.batch
	for from := 0; from < r.rows; from += system.TakeRows {
		to := min(from+system.TakeRows, r.rows)
		b.Reset()
		b.CID = appendValues(b.CID, r.columns[0], from, to)
		b.MID = appendValues(b.MID, r.columns[1], from, to)
		b.MOID = appendValues(b.MOID, r.columns[2], from, to)
		b.CapNs = appendValues(b.CapNs, r.columns[3], from, to)
		b.AcqNs = appendValues(b.AcqNs[:0], r.columns[4], from, to)
		b.Stride = system.NumberBytes
		numbers := r.columns[5].bytes[from*8 : to*8]
		if !r.status {
			b.Data = append(b.Data, numbers...)
		} else {
			b.Stride = system.StatusBytes
			b.Data = weave(b.Data, numbers, r.columns[6].bytes[from*8:to*8])
		}
		take(b)
	}
	return nil
}

// appendValues appends the values of rows [from, to) of a column.
func appendValues[T int32 | int64](dst []T, c column, from, to int) []T {
	src := c.bytes[from*c.width : to*c.width]
	switch c.width {
	case 8:
		for ; len(src) >= 8; src = src[8:] {
			dst = append(dst, T(binary.LittleEndian.Uint64(src)))
		}
	case 4:
		for ; len(src) >= 4; src = src[4:] {
			dst = append(dst, T(int32(binary.LittleEndian.Uint32(src))))
		}
	default:
		for _, v := range src {
			dst = append(dst, T(v))
		}
	}
	return dst
}

// weave appends words of a and b in turn.
func weave(dst, a, b []byte) []byte {
	for ; len(a) >= 8; a, b = a[8:], b[8:] {
		dst = append(append(dst, a[:8]...), b[:8]...)
	}
	return dst
}
