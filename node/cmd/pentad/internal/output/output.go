// Package output renders what commands answer: rows of typed values as an aligned table, JSON,
// NDJSON or CSV.
//
// It decides how a value looks in each form and nothing else: it knows no queries, no flags and
// no terminals. Its main type is [Writer]. It starts no goroutines.
package output

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Format is one form of output.
type Format uint8

// Formats. The zero value is none of them.
const (
	Table  Format = 1 // for people: aligned, thousands separated, UTC without the T
	JSON   Format = 2 // one array, or one object where an answer is one thing
	NDJSON Format = 3 // one object per line
	CSV    Format = 4 // RFC 4180 with a header line
	// GeoJSON is for devices, which are not written by a [Writer].
	GeoJSON Format = 5
)

// Formats is the list for help and errors.
const Formats = "table, json, ndjson or csv"

// ParseFormat reads a format by its name.
func ParseFormat(name string) (Format, error) {
	f, ok := map[string]Format{"table": Table, "json": JSON, "ndjson": NDJSON, "csv": CSV}[name]
	if !ok {
		return 0, fmt.Errorf("output %q is unknown; use %s", name, Formats)
	}
	return f, nil
}

// Column heads one value of a row. Its name is the key in JSON, the header in CSV, and in upper
// case the header in a table. Right aligns a table's cells to the right, as numbers are.
type Column struct {
	Name  string
	Right bool
	Unit  string // behind the header of a table
	Omit  bool   // left out of a table
}

// Options of a Writer.
type Options struct {
	Format Format
	Color  bool // bold headers, in tables only
	Single bool // the answer is one thing: JSON is an object, not an array of one
	// Names are written in place of numbers of [Int], by column; one without a name is written as
	// it is.
	Names map[string]map[int64]string
}

// Writer writes rows. A table is held until Close, so its caller bounds the rows.
type Writer struct {
	opt     Options
	columns []Column
	out     *bufio.Writer
	line    []byte // reused
	rows    uint64
	table   table.Writer
	names   []map[int64]string // by column; nil: there are none
	named   []Value            // reused
}

// NewWriter returns a writer for rows of the given columns.
func NewWriter(w io.Writer, opt Options, columns ...Column) *Writer {
	out := &Writer{opt: opt, columns: slices.Clone(columns),
		out: bufio.NewWriterSize(w, 1<<16)}
	for i := range out.columns {
		names := opt.Names[out.columns[i].Name]
		if names == nil {
			continue
		}
		if out.names == nil {
			out.names = make([]map[int64]string, len(columns))
		}
		out.names[i], out.columns[i].Right = names, false
	}
	return out
}

// withNames returns values with names in place of ids, valid until the next call.
func (w *Writer) withNames(values []Value) []Value {
	w.named = append(w.named[:0], values...)
	for i, names := range w.names {
		if name, ok := names[values[i].number]; ok && values[i].kind == kindInt {
			w.named[i] = Text(name)
		}
	}
	return w.named
}

// Rows returns the number of rows written so far.
func (w *Writer) Rows() uint64 { return w.rows }

// Row writes one row, with one value per column.
func (w *Writer) Row(values ...Value) error {
	if len(values) != len(w.columns) {
		panic(fmt.Sprintf("BUG: %d values for %d columns", len(values), len(w.columns)))
	}
	if w.names != nil {
		values = w.withNames(values)
	}
	w.line = w.line[:0]
	switch w.opt.Format {
	case Table:
		w.tableRow(values)
	case JSON:
		switch {
		case w.opt.Single:
		case w.rows == 0:
			w.line = append(w.line, "[\n"...)
		default:
			w.line = append(w.line, ",\n"...)
		}
		w.appendObject(values)
	case NDJSON:
		w.appendObject(values)
		w.line = append(w.line, '\n')
	case CSV:
		if w.rows == 0 {
			w.appendHeader()
		}
		for i, v := range values {
			if i > 0 {
				w.line = append(w.line, ',')
			}
			w.line = appendCSV(w.line, v.plain())
		}
		w.line = append(w.line, '\n')
	}
	w.rows++
	_, err := w.out.Write(w.line)
	return err
}

// Flush hands what is buffered to the writer below; a table has nothing to hand over.
func (w *Writer) Flush() error { return w.out.Flush() }

// Close ends the answer: an empty one is "[]" in JSON, a header in CSV, nothing elsewhere.
func (w *Writer) Close() error {
	w.line = w.line[:0]
	switch {
	case w.opt.Format == Table && w.table != nil:
		w.renderTable()
	case w.opt.Format == CSV && w.rows == 0:
		w.appendHeader()
	case w.opt.Format == JSON && w.opt.Single:
		w.line = append(w.line, '\n')
	case w.opt.Format == JSON && w.rows == 0:
		w.line = append(w.line, "[]\n"...)
	case w.opt.Format == JSON:
		w.line = append(w.line, "\n]\n"...)
	}
	if _, err := w.out.Write(w.line); err != nil {
		return err
	}
	return w.out.Flush()
}

func (w *Writer) appendHeader() {
	for i, c := range w.columns {
		if i > 0 {
			w.line = append(w.line, ',')
		}
		w.line = appendCSV(w.line, c.Name)
	}
	w.line = append(w.line, '\n')
}

func (w *Writer) appendObject(values []Value) {
	w.line = append(w.line, '{')
	for i, v := range values {
		if i > 0 {
			w.line = append(w.line, ',')
		}
		w.line = v.appendMember(w.line, w.columns[i].Name)
	}
	w.line = append(w.line, '}')
}

func (w *Writer) tableRow(values []Value) {
	if w.table == nil {
		w.table = table.NewWriter()
	}
	row := make(table.Row, len(values))
	for i, v := range values {
		row[i] = v.people()
	}
	w.table.AppendRow(row)
}

// Column returns a column.
func (w *Writer) Column(i int) Column { return w.columns[i] }

// SetColumn replaces a column of a table, whose header is written by Close.
func (w *Writer) SetColumn(i int, c Column) {
	if w.opt.Format == Table {
		w.columns[i] = c
	}
}

// tableHeader sets the header and the form of the columns.
func (w *Writer) tableHeader() {
	header := make(table.Row, len(w.columns))
	configs := make([]table.ColumnConfig, len(w.columns))
	for i, c := range w.columns {
		header[i] = strings.ToUpper(strings.ReplaceAll(c.Name, "_", " "))
		if c.Unit != "" {
			header[i] = fmt.Sprintf("%s (%s)", header[i], c.Unit)
		}
		configs[i] = table.ColumnConfig{Number: i + 1, Align: text.AlignLeft,
			AlignHeader: text.AlignLeft, Hidden: c.Omit}
		if c.Right {
			configs[i].Align, configs[i].AlignHeader = text.AlignRight, text.AlignRight
		}
	}
	w.table.AppendHeader(header)
	w.table.SetColumnConfigs(configs)
	w.table.SetStyle(plainStyle(w.opt.Color))
}

func plainStyle(color bool) table.Style {
	style := table.StyleDefault
	style.Box = table.BoxStyle{PaddingRight: "  "}
	style.Options = table.Options{}
	style.Format = table.FormatOptions{}
	if color {
		style.Color.Header = text.Colors{text.Bold}
	}
	return style
}

// renderTable drops the padding after the last column, which go-pretty keeps.
func (w *Writer) renderTable() {
	w.tableHeader()
	for line := range strings.SplitSeq(w.table.Render(), "\n") {
		w.line = append(w.line, strings.TrimRight(line, " ")...)
		w.line = append(w.line, '\n')
	}
}

// appendCSV appends one field, quoted where RFC 4180 asks for it.
func appendCSV(dst []byte, field string) []byte {
	if !strings.ContainsAny(field, ",\"\r\n") && !strings.HasPrefix(field, " ") &&
		!strings.HasSuffix(field, " ") {
		return append(dst, field...)
	}
	dst = append(dst, '"')
	dst = append(dst, strings.ReplaceAll(field, `"`, `""`)...)
	return append(dst, '"')
}
