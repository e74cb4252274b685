package exchange

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
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
	names  Names
	buf    []byte
}

// Names are names of ids, by the dimensions of the key whose columns have names in place of ids.
type Names map[record.Dim]map[int64]string

// NameColumns are the columns of names, by the part of the key in whose place they are.
var NameColumns = [...]string{record.CID: "tenant", record.MID: "device", record.MOID: "quantity"}

// NewCSVWriter begins a file of comma-separated values. What has no name stays a number.
func NewCSVWriter(out io.Writer, values []Value, names Names) Writer {
	columns := strings.Split(Columns, ",")
	for d := range names {
		columns[d] = NameColumns[d]
	}
	w := &csvWriter{out: out, values: values, names: names,
		buf: []byte(strings.Join(columns, ","))}
	for i := range values {
		w.buf = appendCSVText(append(w.buf, ','), []byte(values[i].Name))
	}
	w.buf = append(w.buf, '\n')
	return w
}

func (w *csvWriter) Write(b *record.Batch) error {
	for i := range b.Len() {
		w.buf = append(w.appendPart(record.CID, int64(b.CID[i])), ',')
		w.buf = append(w.appendPart(record.MID, b.MID[i]), ',')
		w.buf = append(w.appendPart(record.MOID, int64(b.MOID[i])), ',')
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

// appendPart appends a part of the key, by its name if names are wanted and it has one.
func (w *csvWriter) appendPart(d record.Dim, id int64) []byte {
	if name := w.names[d][id]; name != "" {
		return appendCSVText(w.buf, []byte(name))
	}
	return strconv.AppendInt(w.buf, id, 10)
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
	find    FindNumber
	names   [len(NameColumns)]string // of the line, in place of parts
	payload []byte                   // reused
	record  []byte                   // of several lines, reused
	field   []byte                   // that was quoted, reused
}

// FindNumber returns the number of a text that is a number or a name, given the tenant of a device.
type FindNumber func(d record.Dim, cid int32, text string) (int64, error)

// NewCSVReader reads the names of the columns. find is for files with names in place of ids.
func NewCSVReader(in *bufio.Reader, find FindNumber) (Reader, error) {
	r := &csvReader{lines: &lineReader{in: in}, field: make([]byte, 0, 64), find: find}
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
		column := csvCells[name]
		if d := slices.Index(NameColumns[:], name); d >= 0 {
			part := record.Dim(d).String()
			if met[part] {
				return nil, &FormatError{"line 1 has columns " + part + " and " + name + "; " +
					"leave one out"}
			}
			if column, name = nameCell+cell(d), part; find == nil {
				return nil, &FormatError{"line 1 has names, which only a node knows"}
			}
		} else if met[name] && column != leftCell {
			return nil, &FormatError{"line 1 has two columns for " + name + "; leave one out"}
		}
		r.columns = append(r.columns, column)
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
	nameCell    cell = 20 // of the key: this and the dimension
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
		err = r.take(line, b)
		if unknown := (*nameError)(nil); errors.As(err, &unknown) {
			return fmt.Errorf("line %d: %w", from, unknown.error)
		}
		if err != nil {
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
	clear(r.names[:])
	for i, column := range r.columns {
		var field []byte
		if field, line = r.cut(line); field == nil || (line == nil) != (i == len(r.columns)-1) {
			return errFields
		}
		if err := r.cell(column, field); err != nil {
			return err
		}
	}
	if err := r.findNames(); err != nil {
		return err
	}
	r.row.hasPayload = !r.row.deleted
	return r.row.appendTo(b)
}

// nameError is a name without an id, or that there is no answer about one. The file is not damaged.
type nameError struct{ error }

// findNames puts numbers in place of the names of a line.
func (r *csvReader) findNames() error {
	for d, text := range r.names {
		if text == "" {
			continue
		}
		n, err := r.find(record.Dim(d), int32(r.row.parts[record.CID]), text)
		if err != nil {
			return &nameError{err}
		}
		r.row.set(record.Dim(d), &n)
	}
	return nil
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
	case nameCell, nameCell + cell(record.MID), nameCell + cell(record.MOID):
		if len(field) == 0 {
			return &cellError{NameColumns[column-nameCell], field, "empty"}
		}
		r.names[column-nameCell] = string(field)
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
