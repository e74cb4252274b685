package rowjson

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pentad-db/pentad/node/internal/params"
)

// Form is how rows are written.
type Form uint8

const (
	Document Form = iota // one JSON document, with the end in it
	// Lines are NDJSON of rows alone: each line is a row of a table. The end is told apart, unless
	// the answer is not complete.
	Lines
	CSV // with a header; the end is told apart
)

// contentTypes by form.
var contentTypes = [...]string{"application/json", "application/x-ndjson",
	"text/csv; charset=utf-8; header=present"}

// ContentType returns the content type of a form.
func (f Form) ContentType() string { return contentTypes[f] }

// EndsApart reports whether the end is not a part of the rows.
func (f Form) EndsApart() bool { return f == Lines || f == CSV }

// ParseForm returns the form that the parameter format or the header Accept asks for.
func ParseForm(format, accept string) (Form, error) {
	switch format {
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
			params.Clip(format)))
	}
}

// Writer writes rows in a form.
type Writer struct {
	W    *bufio.Writer
	Name string // of the member with the rows of a document
	Form Form
	Rows int // that were written

	table *table // of CSV
	buf   []byte // of a record
}

// Begin writes what is before the rows; row is of the type of all rows.
func (o *Writer) Begin(row any) error {
	if o.Form != CSV {
		return nil
	}
	o.table = newTable(o.W, row)
	return o.table.head()
}

// Row writes a row.
func (o *Writer) Row(row any) error {
	if o.Form == CSV {
		o.Rows++
		return o.table.row(row)
	}
	text, err := json.Marshal(row)
	if err != nil {
		return err
	}
	o.buf = append(o.before(o.buf[:0]), text...)
	if o.Form != Document {
		o.buf = append(o.buf, '\n')
	}
	o.Rows++
	_, err = o.W.Write(o.buf)
	return err
}

// before appends what is before a row in JSON.
func (o *Writer) before(dst []byte) []byte {
	switch {
	case o.Form != Document:
		return dst
	case o.Rows == 0:
		return append(dst, `{"`+o.Name+`":[`+"\n"...)
	}
	return append(dst, ",\n"...)
}

// End writes the end of the answer, unless it is told apart.
func (o *Writer) End(end End) error {
	if o.Form == CSV || o.Form == Lines && end.Complete {
		return nil
	}
	text, err := json.Marshal(end)
	if err != nil {
		return err
	}
	opening := `{"end":`
	if o.Form == Document {
		opening = "\n],\"end\":"
		if o.Rows == 0 {
			opening = `{"` + o.Name + `":[],"end":`
		}
	}
	_, err = o.W.WriteString(opening + string(text) + "}\n")
	return err
}
