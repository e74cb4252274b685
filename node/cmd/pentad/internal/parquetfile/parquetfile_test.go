package parquetfile

import (
	"bytes"
	"errors"
	"io"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/exchange"
	"github.com/pentad-db/pentad/sdk/record"
)

// read returns all cells of a file by column, with nil for null and a string for a fault.
func read(t *testing.T, file []byte) (columns []exchange.Column, rows [][]any, err error) {
	t.Helper()
	table, err := NewTable(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return nil, nil, err
	}
	columns = table.Columns()
	cells := make([]exchange.Cells, len(columns))
	for {
		n, err := table.Next(cells)
		if err != nil || len(rows) > 1<<16 { // files without columns have as many as they say
			return columns, rows, err
		}
		for i := range n {
			row := make([]any, len(columns))
			for k, c := range columns {
				if c.Kind == exchange.Other {
					continue
				}
				fault, bad := cells[k].Faults[i]
				switch {
				case cells[k].Null(i):
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

// foreign is a row that another system may write.
type foreign struct {
	Small int8       `parquet:"a_small"`
	Large uint64     `parquet:"b_large"`
	Float *float32   `parquet:"c_float,optional"`
	Ms    int64      `parquet:"d_ms,timestamp(millisecond)"`
	Local int64      `parquet:"e_local,timestamp(microsecond:local)"`
	Day   int32      `parquet:"f_day,date"`
	Text  *string    `parquet:"g_text,optional,dict"`
	Flag  bool       `parquet:"h_flag"`
	Money int64      `parquet:"i_money,decimal(2:18)"`
	List  []int32    `parquet:"j_list"`
	Inner *innerPart `parquet:"k_inner,optional"`
}

type innerPart struct {
	Name *string `parquet:"name,optional"`
}

func foreignFile(t testing.TB) []byte {
	t.Helper()
	half, text := float32(0.5), "ä,\n"
	rows := []foreign{
		{-128, math.MaxInt64, &half, 3, 5, 1, &text, true, 1, []int32{1, 2}, &innerPart{&text}},
		{0, math.MaxUint64, nil, math.MaxInt64, 0, 0, nil, false, 2, nil, &innerPart{}},
		{},
	}
	var out bytes.Buffer
	w := parquet.NewGenericWriter[foreign](&out)
	_, err := w.Write(rows)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestForeignTypes(t *testing.T) {
	columns, rows, err := read(t, foreignFile(t))
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	zero := int64(0)
	want := [][]any{
		{int64(-128), int64(math.MaxInt64), 0.5, 3 * int64(time.Millisecond), int64(5000),
			int64(24 * time.Hour), "ä,\n", int64(1), nil, nil, "ä,\n"},
		{zero, "18446744073709551615 does not fit in int64", nil,
			"9223372036854775807 times 1000000 ns is outside the years that int64 ns can represent",
			zero, zero, nil, zero, nil, nil, nil},
		{zero, zero, nil, zero, zero, zero, nil, zero, nil, nil, nil},
	}
	if !reflect.DeepEqual(rows, want) {
		t.Errorf("%v", rows)
	}
	if columns[3].Local || !columns[4].Local || columns[8].Kind != exchange.Other ||
		columns[10].Name != "k_inner.name" {
		t.Errorf("%+v", columns)
	}
}

// export is a file of two records.
func export(t testing.TB) []byte {
	t.Helper()
	var b record.Batch
	b.AppendStamped(record.Key{CID: 1, MID: 2, MOID: 3, CapNs: 4, AcqNs: 5}, []byte("abcdefgh"))
	b.AppendStampedTomb(record.Key{CID: 1, MID: 2, MOID: 3, CapNs: math.MinInt64, AcqNs: 6})
	var out bytes.Buffer
	w := NewWriter(&out, &exchange.Header{Version: exchange.Version}, nil)
	if err := errors.Join(w.Write(&b), w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Lengths that no bytes follow must not be allocated, wherever they stand.
func TestLyingLengths(t *testing.T) {
	for _, whole := range [][]byte{export(t), foreignFile(t)} {
		step := 1
		if testing.Short() {
			step = 7
		}
		for at := 0; at < len(whole)-5; at += step {
			lying := bytes.Clone(whole)
			copy(lying[at:], "\xff\xff\xff\xff\x07") // the greatest in the compact form, too
			if _, _, err := read(t, lying); err == nil {
				t.Fatal("no error and no end")
			}
		}
	}
}

// FuzzTable wants every file to end in an end or an error of its own.
func FuzzTable(f *testing.F) {
	f.Add(export(f))
	f.Add(foreignFile(f))
	f.Fuzz(func(t *testing.T, file []byte) {
		_, _, err := read(t, file)
		if err != nil && !errors.Is(err, io.EOF) && !errors.As(err, new(*exchange.DamageError)) {
			t.Fatalf("%T: %v", err, err)
		}
	})
}
