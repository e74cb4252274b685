// Package arrowfile writes exports as Arrow IPC streams and reads such streams, and files of the
// Arrow file form, as tables.
//
// It is where the Arrow library lives, of which it uses the arrays and the IPC form alone. What it
// reads may be hostile: lengths in a file are believed only as far as bytes follow, and what the
// library panics at becomes a *exchange.DamageError. It starts no goroutines.
package arrowfile

import (
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/exchange"
	"github.com/pentad-db/pentad/sdk/record"
)

// Bounds of a batch of the stream: large enough that its metadata cost nothing, small enough to
// keep several in memory.
const (
	batchRows  = 1 << 16
	batchBytes = 16 << 20
)

// writer gathers records into Arrow batches.
type writer struct {
	out    *ipc.Writer
	schema *arrow.Schema
	rows   *array.RecordBuilder
	values []exchange.Value
	bytes  int
}

// NewWriter begins a stream.
func NewWriter(out io.Writer, h *exchange.Header, values []exchange.Value) exchange.Writer {
	ns := &arrow.TimestampType{Unit: arrow.Nanosecond, TimeZone: "UTC"}
	fields := []arrow.Field{
		{Name: "cid", Type: arrow.PrimitiveTypes.Int32},
		{Name: "mid", Type: arrow.PrimitiveTypes.Int64},
		{Name: "moid", Type: arrow.PrimitiveTypes.Int32},
		{Name: "cap", Type: ns},
		{Name: "acq", Type: ns},
		{Name: "payload", Type: arrow.BinaryTypes.Binary, Nullable: true},
		{Name: "deleted", Type: arrow.FixedWidthTypes.Boolean},
	}
	types := map[exchange.Kind]arrow.DataType{exchange.Int: arrow.PrimitiveTypes.Int64,
		exchange.Float: arrow.PrimitiveTypes.Float64, exchange.Text: arrow.BinaryTypes.String}
	for i := range values {
		fields = append(fields, arrow.Field{Name: values[i].Name, Type: types[values[i].Kind],
			Nullable: true})
	}
	meta := arrow.NewMetadata([]string{exchange.MetadataKey}, []string{string(h.Text())})
	w := &writer{schema: arrow.NewSchema(fields, &meta), values: values}
	w.out = ipc.NewWriter(out, ipc.WithSchema(w.schema))
	w.rows = array.NewRecordBuilder(memory.NewGoAllocator(), w.schema)
	return w
}

func (w *writer) Write(b *record.Batch) error {
	for from := 0; from < b.Len(); {
		to := min(b.Len(), from+batchRows-w.rows.Field(0).Len())
		w.append(b, from, to)
		from = to
		if w.rows.Field(0).Len() >= batchRows || w.bytes >= batchBytes {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// append adds the records [from, to) to the columns.
func (w *writer) append(b *record.Batch, from, to int) {
	w.rows.Field(0).(*array.Int32Builder).AppendValues(b.CID[from:to], nil)
	w.rows.Field(1).(*array.Int64Builder).AppendValues(b.MID[from:to], nil)
	w.rows.Field(2).(*array.Int32Builder).AppendValues(b.MOID[from:to], nil)
	for column, times := range map[int][]int64{3: b.CapNs, 4: b.AcqNs} {
		builder := w.rows.Field(column).(*array.TimestampBuilder)
		builder.Reserve(to - from)
		for _, ns := range times[from:to] {
			builder.UnsafeAppend(arrow.Timestamp(ns))
		}
	}
	payloads := w.rows.Field(5).(*array.BinaryBuilder)
	deleted := w.rows.Field(6).(*array.BooleanBuilder)
	for i := from; i < to; i++ {
		tomb := b.Tomb(i)
		if deleted.Append(tomb); tomb {
			payloads.AppendNull()
			w.appendNulls()
			continue
		}
		payload := b.Payload(i)
		payloads.Append(payload)
		w.bytes += len(payload)
		w.appendValues(payload)
	}
}

// firstValue is the column of the first value.
const firstValue = 7

func (w *writer) appendNulls() {
	for i := range w.values {
		w.rows.Field(firstValue + i).AppendNull()
	}
}

func (w *writer) appendValues(payload []byte) {
	for i := range w.values {
		v := &w.values[i]
		ok := false
		switch builder := w.rows.Field(firstValue + i).(type) {
		case *array.Int64Builder:
			var n int64
			if n, ok = v.Int(payload); ok {
				builder.Append(n)
			}
		case *array.Float64Builder:
			var f float64
			if f, ok = v.Float(payload); ok {
				builder.Append(f)
			}
		case *array.StringBuilder:
			var text []byte
			if text, ok = v.Text(payload); ok {
				builder.Append(string(text))
				w.bytes += len(text)
			}
		}
		if !ok {
			w.rows.Field(firstValue + i).AppendNull()
		}
	}
}

// flush writes the batch that was gathered.
func (w *writer) flush() error {
	batch := w.rows.NewRecordBatch()
	defer batch.Release()
	w.bytes = 0
	return w.out.Write(batch)
}

func (w *writer) Close() error {
	if w.rows.Field(0).Len() > 0 {
		if err := w.flush(); err != nil {
			return err
		}
	}
	return w.out.Close()
}
