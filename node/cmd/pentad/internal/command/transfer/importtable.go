package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/csvimport"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/exchange"
)

// importMappedFile imports a file of any format that a mapping can read.
func importMappedFile(ctx context.Context, im *csvimport.Importer, m *csvimport.Mapping,
	format exchange.Format, name string, in io.Reader) error {
	plain, err := exchange.Plain(in)
	if err == nil && format == "" {
		format, err = exchange.Recognise(plain)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	switch format {
	case exchange.CSV:
		return im.File(ctx, name, plain)
	case exchange.NDJSON:
		return cli.Usagef("%s: a mapping reads CSV, Arrow and Parquet; use pentad put for lines "+
			"of JSON", name)
	}
	table, err := openTable(in, plain, format)
	if err == nil {
		err = im.Table(ctx, name, newTextRows(table, m.Cap.Zone.IsSet()))
	}
	if errors.As(err, new(*exchange.DamageError)) {
		return fmt.Errorf("%s: %w", name, err)
	}
	return err
}

// textRows are the rows of a table as a mapping reads them.
type textRows struct {
	table     exchange.Table
	columns   []exchange.Column
	wall      bool // times without a zone are those of the mapping's zone
	cells     []exchange.Cells
	rows, row int
	texts     [][]byte
	buf       []byte
}

func newTextRows(table exchange.Table, wall bool) *textRows {
	columns := table.Columns()
	return &textRows{table: table, columns: columns, wall: wall,
		cells: make([]exchange.Cells, len(columns)), texts: make([][]byte, len(columns))}
}

func (r *textRows) Columns() []string {
	names := make([]string, len(r.columns))
	for i, c := range r.columns {
		names[i] = c.Name
	}
	return names
}

func (r *textRows) Use(columns []bool) {
	for i, used := range columns {
		r.cells[i].Skip = !used
	}
}

func (r *textRows) Typed(column int) bool {
	kind := r.columns[column].Kind
	return kind != exchange.Text && kind != exchange.Binary
}

func (r *textRows) Next() ([][]byte, error) {
	for r.row == r.rows {
		var err error
		if r.rows, err = r.table.Next(r.cells); err != nil {
			return nil, err
		}
		r.row = 0
	}
	r.buf = r.buf[:0]
	for i := range r.cells {
		r.texts[i] = r.text(&r.columns[i], &r.cells[i], r.row)
	}
	r.row++
	return r.texts, nil
}

// text is one cell; what cannot be read becomes a text that is refused where it is used.
func (r *textRows) text(column *exchange.Column, c *exchange.Cells, row int) []byte {
	from := len(r.buf)
	switch {
	case c.Skip:
		return nil
	case column.Kind == exchange.Other:
		r.buf = append(r.buf, "a cell of unsupported type "+column.Type...)
	case c.Null(row):
		return nil
	case c.Faults[row] != "":
		r.buf = append(r.buf, c.Faults[row]...)
	case column.Kind == exchange.Text, column.Kind == exchange.Binary:
		return c.Bytes[row]
	case column.Kind == exchange.Float:
		r.buf = strconv.AppendFloat(r.buf, c.Floats[row], 'g', -1, 64)
	case column.Kind == exchange.Bool:
		r.buf = strconv.AppendBool(r.buf, c.Ints[row] != 0)
	case column.Kind == exchange.Time && column.Local && r.wall:
		r.buf = time.Unix(0, c.Ints[row]).UTC().AppendFormat(r.buf, csvimport.WallClock)
	case column.Kind == exchange.Time:
		r.buf = exchange.AppendTime(r.buf, c.Ints[row])
	default:
		r.buf = strconv.AppendInt(r.buf, c.Ints[row], 10)
	}
	return r.buf[from:]
}
