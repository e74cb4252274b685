package arrowfile

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/exchange"
)

// columnOf says what the cells of a field are.
func columnOf(f arrow.Field) exchange.Column {
	c := exchange.Column{Name: f.Name, Type: f.Type.String()}
	t := f.Type
	if d, ok := t.(*arrow.DictionaryType); ok {
		t = d.ValueType
	}
	switch t := t.(type) {
	case *arrow.Int8Type, *arrow.Int16Type, *arrow.Int32Type, *arrow.Int64Type, *arrow.Uint8Type,
		*arrow.Uint16Type, *arrow.Uint32Type, *arrow.Uint64Type:
		c.Kind = exchange.Int
	case *arrow.Float32Type, *arrow.Float64Type:
		c.Kind = exchange.Float
	case *arrow.StringType, *arrow.LargeStringType, *arrow.StringViewType:
		c.Kind = exchange.Text
	case *arrow.BinaryType, *arrow.LargeBinaryType, *arrow.BinaryViewType,
		*arrow.FixedSizeBinaryType:
		c.Kind = exchange.Binary
	case *arrow.BooleanType:
		c.Kind = exchange.Bool
	case *arrow.TimestampType:
		c.Kind, c.Local = exchange.Time, t.TimeZone == ""
	case *arrow.Date32Type, *arrow.Date64Type:
		c.Kind, c.Local = exchange.Time, true
	}
	return c
}

// fillCells puts rows of an array into cells.
func fillCells(c *exchange.Cells, kind exchange.Kind, a arrow.Array, from, rows int) error {
	if c.Skip || kind == exchange.Other {
		return nil
	}
	*c = exchange.Cells{Ints: c.Ints[:0], Floats: c.Floats[:0], Bytes: c.Bytes[:0]}
	if a.NullN() > 0 {
		c.Nulls = make([]bool, rows)
		for i := range c.Nulls {
			c.Nulls[i] = a.IsNull(from + i)
		}
	}
	dictionary, coded := a.(*array.Dictionary)
	values := a
	if coded {
		values = dictionary.Dictionary()
	}
	var one exchange.Cells // an entry, for what is fetched by its number
	for i := range rows {
		at := from + i
		if coded && !c.Null(i) {
			if at = dictionary.GetValueIndex(at); at < 0 || at >= values.Len() {
				return fmt.Errorf("row %d: index %d is outside a dictionary of %d entries", from+i,
					at, values.Len())
			}
		}
		if c.Null(i) || coded && values.IsNull(at) {
			if c.Nulls == nil {
				c.Nulls = make([]bool, rows)
			}
			c.Nulls[i], at = true, -1
		}
		if fault := appendCell(c, kind, values, at); fault != "" {
			if one.Faults == nil {
				one.Faults = map[int]string{}
			}
			one.Faults[i] = fault
		}
	}
	c.Faults = one.Faults
	return nil
}

// appendCell appends the cell of one row, or of none for -1.
func appendCell(c *exchange.Cells, kind exchange.Kind, a arrow.Array, row int) (fault string) {
	switch kind {
	case exchange.Float:
		f := 0.0
		if row >= 0 {
			f = float(a, row)
		}
		c.Floats = append(c.Floats, f)
	case exchange.Text, exchange.Binary:
		var b []byte
		if row >= 0 {
			b = text(a, row)
		}
		c.Bytes = append(c.Bytes, b)
	default:
		n := int64(0)
		if row >= 0 {
			n, fault = whole(a, row)
		}
		c.Ints = append(c.Ints, n)
	}
	return fault
}

func float(a arrow.Array, row int) float64 {
	if f, ok := a.(*array.Float32); ok {
		return float64(f.Value(row))
	}
	return a.(*array.Float64).Value(row)
}

func text(a arrow.Array, row int) []byte {
	switch a := a.(type) {
	case *array.Binary:
		return a.Value(row)
	case *array.LargeBinary:
		return a.Value(row)
	case *array.BinaryView:
		return a.Value(row)
	case *array.FixedSizeBinary:
		return a.Value(row)
	case interface{ Value(int) string }: // the kinds of strings
		return []byte(a.Value(row))
	}
	panic(fmt.Sprintf("BUG: a column of texts is a %T", a))
}

func whole(a arrow.Array, row int) (n int64, fault string) {
	switch a := a.(type) {
	case *array.Int32:
		return int64(a.Value(row)), ""
	case *array.Int64:
		return a.Value(row), ""
	case *array.Timestamp:
		unit := a.DataType().(*arrow.TimestampType).Unit.Multiplier()
		return exchange.Scaled(int64(a.Value(row)), int64(unit))
	case *array.Boolean:
		if a.Value(row) {
			return 1, ""
		}
		return 0, ""
	case *array.Int8:
		return int64(a.Value(row)), ""
	case *array.Int16:
		return int64(a.Value(row)), ""
	case *array.Uint8:
		return int64(a.Value(row)), ""
	case *array.Uint16:
		return int64(a.Value(row)), ""
	case *array.Uint32:
		return int64(a.Value(row)), ""
	case *array.Uint64:
		if a.Value(row) > math.MaxInt64 {
			return 0, fmt.Sprintf("%d does not fit in int64", a.Value(row))
		}
		return int64(a.Value(row)), ""
	case *array.Date32:
		return exchange.Scaled(int64(a.Value(row)), 86_400_000_000_000)
	case *array.Date64:
		return exchange.Scaled(int64(a.Value(row)), 1_000_000)
	}
	panic(fmt.Sprintf("BUG: a column of whole numbers is a %T", a))
}
