package arrowfile

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"
	"reflect"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/exchange"
	"github.com/pentad-db/pentad/sdk/record"
)

// read returns all cells of a stream by column, with nil for null and a string for a fault.
func read(t *testing.T, stream []byte) (columns []exchange.Column, rows [][]any, err error) {
	t.Helper()
	table, err := NewTable(bufio.NewReader(bytes.NewReader(stream)))
	if err != nil {
		return nil, nil, err
	}
	columns = table.Columns()
	cells := make([]exchange.Cells, len(columns))
	for {
		n, err := table.Next(cells)
		if err != nil {
			return columns, rows, err
		}
		for i := range n {
			if len(rows) > 1<<16 { // a column of nulls has as many as it says
				return columns, rows, io.EOF
			}
			row := make([]any, len(columns))
			for k, c := range columns {
				fault, bad := cells[k].Faults[i]
				switch {
				case cells[k].Null(i) || c.Kind == exchange.Other:
				case bad:
					row[k] = fault
				case c.Kind == exchange.Float:
					row[k] = cells[k].Floats[i]
				case c.Kind == exchange.Text, c.Kind == exchange.Binary:
					row[k] = string(cells[k].Bytes[i])
				default:
					row[k] = cells[k].Ints[i]
				}
			}
			rows = append(rows, row)
		}
	}
}

// stream is what another system may write: a column for each type that is read, and one more.
func stream(t testing.TB, options ...ipc.Option) []byte {
	t.Helper()
	fields := []arrow.Field{
		{Name: "i8", Type: arrow.PrimitiveTypes.Int8, Nullable: true},
		{Name: "u64", Type: arrow.PrimitiveTypes.Uint64, Nullable: true},
		{Name: "f32", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
		{Name: "s", Type: &arrow.TimestampType{Unit: arrow.Second, TimeZone: "UTC"},
			Nullable: true},
		{Name: "us", Type: &arrow.TimestampType{Unit: arrow.Microsecond}, Nullable: true},
		{Name: "day", Type: arrow.FixedWidthTypes.Date32, Nullable: true},
		{Name: "text", Type: arrow.BinaryTypes.LargeString, Nullable: true},
		{Name: "coded", Type: &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8,
			ValueType: arrow.BinaryTypes.String}, Nullable: true},
		{Name: "flag", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
		{Name: "list", Type: arrow.ListOf(arrow.PrimitiveTypes.Int8), Nullable: true},
	}
	schema := arrow.NewSchema(fields, nil)
	b := array.NewRecordBuilder(memory.NewGoAllocator(), schema)
	b.Field(0).(*array.Int8Builder).AppendValues([]int8{-128, 0}, []bool{true, false})
	b.Field(1).(*array.Uint64Builder).AppendValues([]uint64{math.MaxInt64, math.MaxUint64}, nil)
	b.Field(2).(*array.Float32Builder).AppendValues([]float32{0.5, 0}, []bool{true, false})
	b.Field(3).(*array.TimestampBuilder).AppendValues([]arrow.Timestamp{-3, 1 << 40}, nil)
	b.Field(4).(*array.TimestampBuilder).AppendValues([]arrow.Timestamp{5, 0}, []bool{true, false})
	b.Field(5).(*array.Date32Builder).AppendValues([]arrow.Date32{1, 0}, []bool{true, false})
	b.Field(6).(*array.LargeStringBuilder).AppendValues([]string{"ä,\n", ""}, []bool{true, false})
	coded := b.Field(7).(*array.BinaryDictionaryBuilder)
	if err := errors.Join(coded.AppendString("x"), coded.AppendString("x")); err != nil {
		t.Fatal(err)
	}
	b.Field(8).(*array.BooleanBuilder).AppendValues([]bool{true, false}, []bool{true, false})
	b.Field(9).AppendNulls(2)
	var out bytes.Buffer
	w := ipc.NewWriter(&out, append(options, ipc.WithSchema(schema))...)
	if err := errors.Join(w.Write(b.NewRecordBatch()), w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestForeignTypes(t *testing.T) {
	want := [][]any{
		{int64(-128), int64(math.MaxInt64), 0.5, int64(-3e9), int64(5000), int64(86_400e9), "ä,\n",
			"x", int64(1), nil},
		{nil, "18446744073709551615 does not fit in int64", nil, "1099511627776 times " +
			"1000000000 ns is outside the years that int64 ns can represent", nil, nil, nil, "x",
			nil, nil},
	}
	for _, options := range [][]ipc.Option{nil, {ipc.WithZstd()}, {ipc.WithLZ4()}} {
		plain := stream(t, options...)
		file := append([]byte("ARROW1\x00\x00"), plain...)
		unended := plain[:len(plain)-8] // which other systems may leave out
		for _, s := range [][]byte{plain, append(file, "a footer"...), unended} {
			columns, rows, err := read(t, s)
			if !errors.Is(err, io.EOF) || !reflect.DeepEqual(rows, want) {
				t.Errorf("%v, %v", rows, err)
			}
			if !columns[4].Local || columns[3].Local {
				t.Errorf("of the times %v are local and %v not", columns[3], columns[4])
			}
		}
	}
}

// A length that no bytes follow must not be allocated.
func TestLyingLengths(t *testing.T) {
	whole := stream(t)
	for at := 0; at+8 <= len(whole); at++ {
		lying := bytes.Clone(whole)
		copy(lying[at:], "\xff\xff\xff\x7f\x00\x00\x00\x00")
		if _, _, err := read(t, lying); err == nil {
			t.Fatal("no error and no end")
		}
	}
}

// FuzzTable wants every stream to end in an end or an error of its own.
func FuzzTable(f *testing.F) {
	f.Add(stream(f))
	f.Add(stream(f, ipc.WithZstd()))
	var b record.Batch
	b.AppendStamped(record.Key{CID: 1, MID: 2, MOID: 3, CapNs: 4, AcqNs: 5}, []byte("abcdefgh"))
	b.AppendStampedTomb(record.Key{CID: 1, MID: 2, MOID: 3, CapNs: 4, AcqNs: 6})
	var out bytes.Buffer
	w := NewWriter(&out, &exchange.Header{Version: exchange.Version}, nil)
	if err := errors.Join(w.Write(&b), w.Close()); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Bytes())
	f.Fuzz(func(t *testing.T, stream []byte) {
		_, _, err := read(t, stream)
		if !errors.Is(err, io.EOF) && !errors.As(err, new(*exchange.DamageError)) {
			t.Fatalf("%T: %v", err, err)
		}
	})
}
