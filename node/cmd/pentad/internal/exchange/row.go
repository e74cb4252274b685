package exchange

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/record"
)

// row is one record as a file says it.
type row struct {
	parts      [4]int64 // cid, mid, moid, cap
	has        [4]bool
	payload    []byte
	hasPayload bool
	deleted    bool
}

// set notes a part of the key, if it is there.
func (r *row) set(d record.Dim, n *int64) {
	if n != nil {
		r.parts[d], r.has[d] = *n, true
	}
}

// appendTo checks the record and adds it to a batch, copying the payload.
func (r *row) appendTo(b *record.Batch) error {
	for i, n := range r.parts {
		d := record.Dim(i)
		switch {
		case !r.has[i]:
			return fmt.Errorf("%s is missing", d)
		case n < d.Min() || n >= d.Max():
			return fmt.Errorf("%s: %d is outside %d to %d", d, n, d.Min(), d.Max()-1)
		}
	}
	k := record.Key{CID: int32(r.parts[0]), MID: r.parts[1], MOID: int32(r.parts[2]),
		CapNs: r.parts[3]}
	switch {
	case r.deleted && len(r.payload) > 0:
		return errors.New("a deleted record must not have a payload")
	case r.deleted:
		b.AppendTomb(k)
	case !r.hasPayload:
		return errors.New("payload is missing, and the record is not deleted")
	case len(r.payload) > record.MaxPayloadBytes:
		return fmt.Errorf("payload: %d bytes, at most %d", len(r.payload), record.MaxPayloadBytes)
	default:
		b.Append(k, r.payload)
	}
	return nil
}

// parseTime reads a time. What AppendTime writes is nearly always RFC 3339, which the standard
// library reads at once.
func parseTime(layout *timeparse.Layout, text []byte) (int64, error) {
	if len(text) >= len("2006-01-02T15:04:05Z") && text[len(text)-1] == 'Z' {
		t, err := time.Parse(time.RFC3339Nano, string(text))
		if year := t.Year(); err == nil && year >= 1678 && year <= 2261 {
			return t.UnixNano(), nil
		}
	}
	return layout.Parse(text)
}

// filler gathers records into batches, and keeps an error back until what came before it is out.
type filler struct{ failed error }

// fill empties a batch and calls one, which adds at most one record, until the batch is full.
func (f *filler) fill(b *record.Batch, one func() error) error {
	b.Reset()
	for f.failed == nil && !full(b) {
		f.failed = one()
	}
	if b.Len() > 0 {
		return nil
	}
	return f.failed
}

// maxLineBytes bounds a line: the largest payload in base64, and decoded to text once more with
// every byte escaped.
const maxLineBytes = record.MaxPayloadBytes/3*4 + 6*record.MaxPayloadBytes + 4096

// lineReader yields lines without their ends and without a byte order mark.
type lineReader struct {
	in     *bufio.Reader
	number int // of the line that was read last, from 1
	long   []byte
}

func (l *lineReader) damaged(format string, args ...any) error {
	return damaged(fmt.Sprintf("line %d", l.number), format, args...)
}

// next returns a line that is valid until the next call, and io.EOF after the last.
func (l *lineReader) next() ([]byte, error) {
	line, err := l.in.ReadSlice('\n')
	if l.number++; errors.Is(err, bufio.ErrBufferFull) {
		line, err = l.readLong(line)
	}
	if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
		return nil, l.readError(err)
	}
	if l.number == 1 {
		line = bytes.TrimPrefix(line, []byte(byteOrderMark))
	}
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), nil
}

// readError tells a file that is packed badly from one that cannot be read.
func (l *lineReader) readError(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum) {
		return l.damaged("%v", err)
	}
	return err
}

func (l *lineReader) readLong(start []byte) ([]byte, error) {
	l.long = append(l.long[:0], start...)
	for {
		more, err := l.in.ReadSlice('\n')
		if len(l.long)+len(more) > maxLineBytes {
			return nil, l.damaged("it is longer than %d bytes", maxLineBytes)
		}
		l.long = append(l.long, more...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return l.long, err
		}
	}
}
