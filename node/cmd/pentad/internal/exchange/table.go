package exchange

import (
	"fmt"
	"math"
	"slices"

	"github.com/pentad-db/pentad/sdk/record"
)

// Column is a column of a table.
type Column struct {
	Name string
	Kind Kind
	Type string // as the file calls it, for errors
	// Local says that the times are of a clock on the wall, in a zone that the file does not name;
	// they are read as UTC.
	Local bool
}

// Cells are the cells of a column in some rows; which slices are there depends on the kind.
type Cells struct {
	Skip   bool           // set by the caller: the column is not needed
	Nulls  []bool         // nil: none is null
	Ints   []int64        // Int, Time, and Bool as 0 and 1
	Floats []float64      // Float
	Bytes  [][]byte       // Text and Binary; valid until the next rows
	Faults map[int]string // rows whose cell cannot be had, and why
}

// Scaled is a time in ns, or why there is none.
func Scaled(n, unitNs int64) (ns int64, fault string) {
	if n > math.MaxInt64/unitNs || n < math.MinInt64/unitNs {
		return 0, fmt.Sprintf("%d times %d ns is outside the years that int64 ns can represent", n,
			unitNs)
	}
	return n * unitNs, ""
}

// Null reports whether there is no value in a row.
func (c *Cells) Null(row int) bool { return c.Nulls != nil && c.Nulls[row] }

// Table is a file of columns.
type Table interface {
	Columns() []Column
	// Header is that of an export, nil for other files.
	Header() *Header
	// Next fills one Cells per column with the next rows, at most TableRows, and returns how many
	// there are. After the last it returns io.EOF. What is damaged is a *DamageError.
	Next(cells []Cells) (rows int, err error)
}

// TableRows is how many rows a table hands out at once.
const TableRows = 4096

// tableReader turns rows with the columns of an export into records.
type tableReader struct {
	filler
	table     Table
	cells     []Cells
	rows, row int
	total     int64
	parts     [4]int // columns of cid, mid, moid, cap
	payload   int
	deleted   int // -1: there is none
}

// NewTableReader reads a table that has the columns of an export.
func NewTableReader(t Table) (Reader, error) {
	columns := t.Columns()
	r := &tableReader{table: t, cells: make([]Cells, len(columns)), deleted: -1}
	find := func(name string, kinds ...Kind) (int, error) {
		for i, c := range columns {
			if c.Name != name {
				continue
			}
			for _, k := range kinds {
				if c.Kind == k {
					return i, nil
				}
			}
			return 0,
				&FormatError{fmt.Sprintf("column %s is of type %s, unlike in an export; files of "+
					"other systems need a mapping", name, c.Type)}
		}
		return -1, nil
	}
	var err error
	for _, one := range []struct {
		at    *int
		name  string
		kinds []Kind
	}{{&r.parts[0], "cid", []Kind{Int}}, {&r.parts[1], "mid", []Kind{Int}},
		{&r.parts[2], "moid", []Kind{Int}}, {&r.parts[3], "cap", []Kind{Time, Int}},
		{&r.payload, "payload", []Kind{Binary, Text}}, {&r.deleted, "deleted", []Kind{Bool}}} {
		if *one.at, err = find(one.name, one.kinds...); err != nil {
			return nil, err
		}
		if *one.at < 0 && one.name != "deleted" {
			return nil, &FormatError{"there is no column " + one.name + ", which an export has; " +
				"files of other systems need a mapping"}
		}
	}
	for i := range r.cells {
		r.cells[i].Skip = i != r.payload && i != r.deleted && !slices.Contains(r.parts[:], i)
	}
	return r, nil
}

func (r *tableReader) Next(b *record.Batch) error {
	return r.fill(b, func() error {
		if r.row == r.rows {
			var err error
			if r.rows, err = r.table.Next(r.cells); err != nil {
				return err
			}
			r.row = 0
			return nil
		}
		r.row++
		r.total++
		if err := r.take(r.row-1, b); err != nil {
			return damaged(fmt.Sprintf("row %d", r.total), "%v", err)
		}
		return nil
	})
}

// take adds one row to a batch.
func (r *tableReader) take(i int, b *record.Batch) error {
	var one row
	for d, column := range r.parts {
		c := &r.cells[column]
		if fault, bad := c.Faults[i]; bad {
			return fmt.Errorf("%s: %s", record.Dim(d), fault)
		}
		if !c.Null(i) {
			one.set(record.Dim(d), &c.Ints[i])
		}
	}
	if r.deleted >= 0 {
		c := &r.cells[r.deleted]
		one.deleted = !c.Null(i) && c.Ints[i] != 0
	}
	if c := &r.cells[r.payload]; !c.Null(i) {
		one.payload, one.hasPayload = c.Bytes[i], true
	}
	return one.appendTo(b)
}
