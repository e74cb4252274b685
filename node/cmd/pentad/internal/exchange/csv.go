package exchange

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/pentad-db/pentad/node/internal/timeparse"
	"github.com/pentad-db/pentad/sdk/record"
)

// Columns are the columns of an export; those of values follow them.
const Columns = "cid,mid,moid,cap,acq,payload,deleted"

// csvWriter writes a line with the names of the columns and one per record. The format has no place
// for a header and none for an end.
type csvWriter struct {
	out    io.Writer
	values []Value
	buf    []byte
}

// NewCSVWriter begins a file of comma-separated values.
func NewCSVWriter(out io.Writer, values []Value) Writer {
	w := &csvWriter{out: out, values: values, buf: []byte(Columns)}
	for i := range values {
		w.buf = appendCSVText(append(w.buf, ','), []byte(values[i].Name))
	}
	w.buf = append(w.buf, '\n')
	return w
}

func (w *csvWriter) Write(b *record.Batch) error {
	for i := range b.Len() {
		w.buf = append(strconv.AppendInt(w.buf, int64(b.CID[i]), 10), ',')
		w.buf = append(strconv.AppendInt(w.buf, b.MID[i], 10), ',')
		w.buf = append(strconv.AppendInt(w.buf, int64(b.MOID[i]), 10), ',')
		w.buf = append(AppendTime(w.buf, b.CapNs[i]), ',')
		w.buf = append(AppendTime(w.buf, b.AcqNs[i]), ',')
		payload, tomb := b.Payload(i), b.Tomb(i)
		w.buf = append(base64.StdEncoding.AppendEncode(w.buf, payload), ',')
		w.buf = strconv.AppendBool(w.buf, tomb)
		for k := range w.values {
			w.buf = append(w.buf, ',')
			if v := &w.values[k]; tomb {
				continue
			} else if v.Kind != Text {
				w.buf, _ = v.appendNumber(w.buf, payload)
			} else if text, ok := v.Text(payload); ok {
				w.buf = appendCSVText(w.buf, text)
			}
		}
		w.buf = append(w.buf, '\n')
		if len(w.buf) >= writeBytes {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func appendCSVText(dst, text []byte) []byte {
	if !bytes.ContainsAny(text, "\",\r\n") {
		return append(dst, text...)
	}
	dst = append(dst, '"')
	for _, c := range text {
		if c == '"' {
			dst = append(dst, '"')
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}

func (w *csvWriter) flush() error {
	_, err := w.out.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}

func (w *csvWriter) Close() error { return w.flush() }

// csvReader reads what csvWriter writes, with the columns in any order.
type csvReader struct {
	filler
	lines   *lineReader
	times   *timeparse.Layout
	columns []cell
	row     row
	payload []byte // reused
	record  []byte // of several lines, reused
	field   []byte // that was quoted, reused
}

// NewCSVReader reads the names of the columns.
func NewCSVReader(in *bufio.Reader) (Reader, error) {
	r := &csvReader{lines: &lineReader{in: in}, field: make([]byte, 0, 64)}
	var err error
	if r.times, err = timeparse.Compile("rfc3339"); err != nil {
		return nil, err
	}
	line, err := r.lines.next()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	met := map[string]bool{}
	for name := range strings.SplitSeq(string(line), ",") {
		name = strings.Trim(name, `"`)
		r.columns = append(r.columns, csvCells[name])
		met[name] = true
	}
	for name := range strings.SplitSeq(Columns, ",") {
		if name != "acq" && !met[name] {
			return nil, &FormatError{"line 1 has no column " + name + ", which an export has; " +
				"files of other systems need a mapping"}
		}
	}
	return r, nil
}

// cell is what a column of a CSV file holds.
type cell uint8

const (
	leftCell    cell = 0 // left aside
	partCell    cell = 1 // of the key: this and the dimension
	capCell     cell = partCell + cell(record.Cap)
	payloadCell cell = 10
	deletedCell cell = 11
)

var csvCells = map[string]cell{"cid": partCell + cell(record.CID),
	"mid": partCell + cell(record.MID), "moid": partCell + cell(record.MOID), "cap": capCell,
	"payload": payloadCell, "deleted": deletedCell}

func (r *csvReader) Next(b *record.Batch) error {
	return r.fill(b, func() error {
		line, err := r.lines.next()
		if err != nil || len(line) == 0 {
			return err
		}
		from := r.lines.number
		if line, err = r.whole(line); err != nil {
			return err
		}
		if err := r.take(line, b); err != nil {
			at := lineReader{number: from}
			return at.damaged("%v", err)
		}
		return nil
	})
}

// whole adds the lines that follow when a quoted field goes on there.
func (r *csvReader) whole(line []byte) ([]byte, error) {
	if bytes.Count(line, []byte(`"`))%2 == 0 {
		return line, nil
	}
	from := r.lines.number
	for r.record = append(r.record[:0], line...); ; {
		more, err := r.lines.next()
		if err != nil {
			return nil, r.lines.damaged("the quote of line %d is not closed: %v", from, err)
		}
		r.record = append(append(r.record, '\n'), more...)
		switch {
		case bytes.Count(more, []byte(`"`))%2 == 1:
			return r.record, nil
		case len(r.record) > maxLineBytes:
			return nil, r.lines.damaged("the quote of line %d is not closed", from)
		}
	}
}

var errFields = errors.New("the number of fields differs from line 1")

func (r *csvReader) take(line []byte, b *record.Batch) error {
	r.row = row{}
	for i, column := range r.columns {
		var field []byte
		if field, line = r.cut(line); field == nil || (line == nil) != (i == len(r.columns)-1) {
			return errFields
		}
		if err := r.cell(column, field); err != nil {
			return err
		}
	}
	r.row.hasPayload = !r.row.deleted
	return r.row.appendTo(b)
}

// cut takes one field; rest is nil after the last.
func (r *csvReader) cut(line []byte) (field, rest []byte) {
	if len(line) == 0 || line[0] != '"' {
		i := bytes.IndexByte(line, ',')
		if i < 0 {
			return line, nil
		}
		return line[:i], line[i+1:]
	}
	r.field = r.field[:0]
	for line = line[1:]; ; {
		i := bytes.IndexByte(line, '"')
		if i < 0 {
			return nil, nil
		}
		r.field = append(r.field, line[:i]...)
		line = line[i+1:]
		switch {
		case len(line) == 0:
			return r.field, nil
		case line[0] == ',':
			return r.field, line[1:]
		case line[0] != '"':
			return nil, nil
		}
		r.field = append(r.field, '"')
		line = line[1:]
	}
}

func (r *csvReader) cell(column cell, field []byte) (err error) {
	switch column {
	case leftCell:
	case capCell:
		ns, err := parseTime(r.times, field)
		if err != nil {
			return err
		}
		r.row.set(record.Cap, &ns)
	case payloadCell:
		if r.payload, err = base64.StdEncoding.AppendDecode(r.payload[:0], field); err != nil {
			return &cellError{"payload", field, "not base64"}
		}
		r.row.payload = r.payload
	case deletedCell:
		if r.row.deleted = string(field) == "true"; !r.row.deleted && len(field) > 0 &&
			string(field) != "false" {
			return &cellError{"deleted", field, "neither true nor false"}
		}
	default:
		d := record.Dim(column - partCell)
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return &cellError{d.String(), field, "not an integer"}
		}
		r.row.set(d, &n)
	}
	return nil
}

// cellError is a cell that cannot be read.
type cellError struct {
	name string
	cell []byte
	want string
}

func (e *cellError) Error() string {
	const maxShown = 40
	shown := string(e.cell[:min(len(e.cell), maxShown)])
	return e.name + ": " + strconv.Quote(shown) + " is " + e.want
}
