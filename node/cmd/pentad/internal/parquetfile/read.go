package parquetfile

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/exchange"
)

// batchBytes bounds rows that are handed out at once by what they take in the file.
const batchBytes = 8 << 20

// table is a file that is read row group by row group.
type table struct {
	in      io.ReaderAt
	file    *parquet.File
	header  *exchange.Header
	columns []exchange.Column
	leaves  []leaf

	group int   // the next row group
	left  int64 // rows of the present one
	chunk int   // rows to hand out at once
}

// leaf is a column and where it is being read.
type leaf struct {
	index  int // in the file
	level  int // of definition, at which a value is there
	unitNs int64
	above  bool // whole numbers are not negative: half of them look so

	pages  parquet.Pages
	page   parquet.Page // whose values, which cells alias, are being read
	done   []parquet.Page
	values parquet.ValueReader
	buf    []parquet.Value
}

// NewTable reads the footer of a file.
func NewTable(in io.ReaderAt, size int64) (t exchange.Table, err error) {
	defer func() { err = orDamaged(recover(), "footer", err) }()
	if err := verifyFooter(in, size); err != nil {
		return nil, explain("footer", err)
	}
	file, err := parquet.OpenFile(in, size, parquet.SkipPageIndex(true),
		parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, explain("footer", err)
	}
	out := &table{in: in, file: file}
	for _, path := range file.Schema().Columns() {
		c, _ := file.Schema().Lookup(path...)
		column, unitNs := columnOf(strings.Join(path, "."), &c)
		out.columns = append(out.columns, column)
		one := leaf{index: c.ColumnIndex, level: c.MaxDefinitionLevel, unitNs: unitNs}
		if l := c.Node.Type().LogicalType(); l != nil {
			whole, ok := l.Value.(*format.IntType)
			one.above = ok && !whole.IsSigned
		}
		out.leaves = append(out.leaves, one)
	}
	if text, ok := file.Lookup(exchange.MetadataKey); ok {
		if out.header, err = exchange.ParseHeader([]byte(text)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// orDamaged turns what the library panics at into damage.
func orDamaged(panicked any, where string, err error) error {
	if panicked == nil {
		return err
	}
	return exchange.Damaged(where, "%v", panicked)
}

// explain tells damage from a file that cannot be read.
func explain(where string, err error) error {
	if pathError := (interface{ Timeout() bool })(nil); errors.As(err, &pathError) {
		return err // of the operating system
	}
	return exchange.Damaged(where, "%v", err)
}

// columnOf says what the cells of a column are, and of times the unit.
func columnOf(name string, c *parquet.LeafColumn) (_ exchange.Column, unitNs int64) {
	t := c.Node.Type()
	out := exchange.Column{Name: name, Type: t.String()}
	if c.MaxRepetitionLevel > 0 {
		out.Type = "repeated " + out.Type
		return out, 0
	}
	var logical format.LogicalTypeValue
	if l := t.LogicalType(); l != nil {
		logical = l.Value
	}
	switch t.Kind() {
	case parquet.Boolean:
		out.Kind = exchange.Bool
	case parquet.Int96:
		out.Kind, out.Local, unitNs = exchange.Time, true, 1
	case parquet.Float, parquet.Double:
		out.Kind = exchange.Float
	case parquet.ByteArray, parquet.FixedLenByteArray:
		out.Kind = exchange.Binary
	default:
		out.Kind = exchange.Int
	}
	switch l := logical.(type) {
	case nil:
		if old := t.ConvertedType(); old != nil && *old == deprecated.UTF8 {
			out.Kind = exchange.Text
		}
	case *format.IntType:
	case *format.StringType, *format.EnumType, *format.JsonType:
		out.Kind = exchange.Text
	case *format.TimestampType:
		out.Kind, out.Local, unitNs = exchange.Time, !l.IsAdjustedToUTC, 1
		if l.Unit.Value != nil {
			unitNs = int64(l.Unit.Value.Duration())
		}
	case *format.DateType:
		out.Kind, out.Local, unitNs = exchange.Time, true, int64(24*time.Hour)
	default:
		out.Kind = exchange.Other // decimals and the like, whose bytes mean something else
	}
	return out, unitNs
}

func (t *table) Columns() []exchange.Column { return t.columns }

func (t *table) Header() *exchange.Header { return t.header }

func (t *table) Next(cells []exchange.Cells) (rows int, err error) {
	defer func() {
		err = orDamaged(recover(), fmt.Sprintf("row group %d", t.group), err)
	}()
	for t.left == 0 {
		if t.group == len(t.file.RowGroups()) {
			return 0, io.EOF
		}
		if err := t.open(cells); err != nil {
			return 0, explain(fmt.Sprintf("row group %d", t.group), err)
		}
	}
	rows = int(min(int64(t.chunk), t.left))
	for i := range t.leaves {
		if cells[i].Skip || t.columns[i].Kind == exchange.Other {
			continue
		}
		if err := t.leaves[i].fill(&cells[i], t.columns[i].Kind, rows); err != nil {
			return 0, explain(fmt.Sprintf("row group %d", t.group), fmt.Errorf("column %s: %w",
				t.columns[i].Name, err))
		}
	}
	t.left -= int64(rows)
	return rows, nil
}

// open begins the next row group.
func (t *table) open(cells []exchange.Cells) error {
	g := t.file.RowGroups()[t.group]
	meta := &t.file.Metadata().RowGroups[t.group]
	t.group++
	t.left = g.NumRows()
	size := int64(0)
	for i := range t.leaves {
		l := &t.leaves[i]
		if cells[i].Skip || t.columns[i].Kind == exchange.Other {
			continue
		}
		if err := verifyPages(t.in, &meta.Columns[l.index].MetaData, t.left); err != nil {
			return fmt.Errorf("column %s: %w", t.columns[i].Name, err)
		}
		size += meta.Columns[l.index].MetaData.TotalUncompressedSize
		l.freePages()
		l.pages = g.ColumnChunks()[l.index].Pages()
		l.values = nil
	}
	t.chunk = int(max(1, min(exchange.TableRows, batchBytes/max(size/max(t.left, 1), 1))))
	return nil
}

// freePages gives back the pages that cells no longer alias.
func (l *leaf) freePages() {
	for _, p := range l.done {
		parquet.Release(p)
	}
	l.done = l.done[:0]
}

// fill reads the cells of some rows.
func (l *leaf) fill(c *exchange.Cells, kind exchange.Kind, rows int) error {
	l.freePages()
	*c = exchange.Cells{Ints: c.Ints[:0], Floats: c.Floats[:0], Bytes: c.Bytes[:0]}
	if cap(l.buf) < exchange.TableRows {
		l.buf = make([]parquet.Value, exchange.TableRows)
	}
	for at := 0; at < rows; {
		if l.values == nil {
			page, err := l.pages.ReadPage()
			if err != nil {
				return err
			}
			l.page, l.values = page, page.Values()
		}
		n, err := l.values.ReadValues(l.buf[:rows-at])
		for i, v := range l.buf[:n] {
			l.append(c, kind, v, at+i, rows)
		}
		at += n
		if errors.Is(err, io.EOF) {
			l.done = append(l.done, l.page)
			l.page, l.values = nil, nil
		} else if err != nil {
			return err
		} else if n == 0 {
			return errors.New("a page is truncated")
		}
	}
	return nil
}

// append adds the value of one of a number of rows.
func (l *leaf) append(c *exchange.Cells, kind exchange.Kind, v parquet.Value, row, rows int) {
	null := v.IsNull() || v.DefinitionLevel() < l.level
	if null {
		if c.Nulls == nil {
			c.Nulls = make([]bool, rows)
		}
		c.Nulls[row] = true
	}
	switch kind {
	case exchange.Float:
		f := 0.0
		if !null && v.Kind() == parquet.Float {
			f = float64(v.Float())
		} else if !null {
			f = v.Double()
		}
		c.Floats = append(c.Floats, f)
	case exchange.Text, exchange.Binary:
		var b []byte
		if !null {
			b = v.ByteArray()
		}
		c.Bytes = append(c.Bytes, b)
	default:
		n, fault := int64(0), ""
		if !null {
			n, fault = l.whole(v)
		}
		if fault != "" {
			if c.Faults == nil {
				c.Faults = map[int]string{}
			}
			c.Faults[row] = fault
		}
		c.Ints = append(c.Ints, n)
	}
}

// whole is a whole number, a time in ns, or 0 and 1.
func (l *leaf) whole(v parquet.Value) (n int64, fault string) {
	switch v.Kind() {
	case parquet.Boolean:
		if v.Boolean() {
			return 1, ""
		}
		return 0, ""
	case parquet.Int32:
		if n = int64(v.Int32()); l.above {
			n = int64(uint32(n))
		}
	case parquet.Int96:
		// Ns of the day, and the day as astronomers count it.
		i := v.Int96()
		const epochDay = 2_440_588
		n, fault = exchange.Scaled(int64(i[2])-epochDay, int64(24*time.Hour))
		day := int64(uint64(i[1])<<32 | uint64(i[0]))
		if fault == "" && (day < 0 || n > math.MaxInt64-day) {
			fault = "it is outside the years that int64 ns can represent"
		}
		return n + day, fault
	default:
		n = v.Int64()
	}
	switch {
	case l.above && n < 0:
		return 0, fmt.Sprintf("%d does not fit in int64", uint64(n))
	case l.unitNs > 1:
		return exchange.Scaled(n, l.unitNs)
	}
	return n, ""
}
