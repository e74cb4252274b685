package rowjson

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pentad-db/pentad/node/internal/params"
)

// Format is how rows are written: the parameter format, or by the header Accept.
type Format uint8

const (
	Document Format = iota // one JSON document, with the end in it
	// Lines are NDJSON of rows alone: each line is a row of a table. The end is told apart, unless
	// the answer is not complete.
	Lines
	CSV // with a header; the end is told apart
)

// contentTypes by format.
var contentTypes = [...]string{"application/json", "application/x-ndjson",
	"text/csv; charset=utf-8; header=present"}

// ContentType returns the content type of a format.
func (f Format) ContentType() string { return contentTypes[f] }

// EndsOutside reports whether the end of the answer is not among its rows.
func (f Format) EndsOutside() bool { return f == Lines || f == CSV }

// ParseFormat returns the format that the parameter format or the header Accept asks for.
func ParseFormat(name, accept string) (Format, error) {
	switch name {
	case "":
		if strings.Contains(accept, "text/csv") {
			return CSV, nil
		}
		if strings.Contains(accept, "application/x-ndjson") {
			return Lines, nil
		}
		return Document, nil
	case "json":
		return Document, nil
	case "ndjson":
		return Lines, nil
	case "csv":
		return CSV, nil
	default:
		return 0, params.Bad("format", fmt.Errorf("%q is not json, ndjson or csv",
			params.Clip(name)))
	}
}

// Writer writes rows in a format.
type Writer struct {
	W      *bufio.Writer
	Name   string // of the member with the rows of a document
	Format Format
	Rows   int // that were written

	table *table // of CSV
	buf   []byte // of a record
}

// Begin writes what is before the rows; row is of the type of all rows.
func (o *Writer) Begin(row any) error {
	if o.Format != CSV {
		return nil
	}
	o.table = newTable(o.W, row)
	return o.table.head()
}

// Row writes a row.
func (o *Writer) Row(row any) error {
	if o.Format == CSV {
		o.Rows++
		return o.table.row(row)
	}
	text, err := json.Marshal(row)
	if err != nil {
		return err
	}
	o.buf = append(o.before(o.buf[:0]), text...)
	if o.Format != Document {
		o.buf = append(o.buf, '\n')
	}
	o.Rows++
	_, err = o.W.Write(o.buf)
	return err
}

// before appends what is before a row in JSON.
func (o *Writer) before(dst []byte) []byte {
	switch {
	case o.Format != Document:
		return dst
	case o.Rows == 0:
		return append(dst, `{"`+o.Name+`":[`+"\n"...)
	}
	return append(dst, ",\n"...)
}

// End writes the end of the answer, unless it is told apart.
func (o *Writer) End(end End) error {
	if o.Format == CSV || o.Format == Lines && end.Complete {
		return nil
	}
	text, err := json.Marshal(end)
	if err != nil {
		return err
	}
	opening := `{"end":`
	if o.Format == Document {
		opening = "\n],\"end\":"
		if o.Rows == 0 {
			opening = `{"` + o.Name + `":[],"end":`
		}
	}
	_, err = o.W.WriteString(opening + string(text) + "}\n")
	return err
}
