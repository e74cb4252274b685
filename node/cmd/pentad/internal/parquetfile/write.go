// Package parquetfile writes exports as Parquet files and reads such files as tables.
//
// It is where the Parquet library lives. What it reads may be hostile: the footer and the headers
// of pages are verified before the library allocates what they say, and what it panics at becomes a
// *exchange.DamageError. It starts no goroutines.
package parquetfile

import (
	"io"

	"github.com/parquet-go/parquet-go"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/exchange"
	"github.com/pentad-db/pentad/sdk/record"
)

// Bounds of a row group, which the writer holds packed in memory until it is whole, and which
// readers take as a unit.
const (
	groupRows  = 1 << 20
	groupBytes = 64 << 20
)

// writer gathers records into row groups.
type writer struct {
	out     *parquet.GenericWriter[any]
	columns []*parquet.ColumnWriter
	values  []exchange.Value
	cells   []parquet.Value // of one column, reused
	rows    int
	bytes   int
}

// Columns of an export, in their order; those of values follow.
const (
	cidColumn = iota
	midColumn
	moidColumn
	capColumn
	acqColumn
	payloadColumn
	deletedColumn
	firstValue
)

// group is a group whose fields have an order of their own.
type group struct {
	parquet.Group
	fields []parquet.Field
}

// Fields implements parquet.Node.
func (g *group) Fields() []parquet.Field { return g.fields }

// schema is the schema of an export.
func schema(values []exchange.Value) *parquet.Schema {
	mid := parquet.Encoded(parquet.Int(64), &parquet.DeltaBinaryPacked)
	id := parquet.Encoded(parquet.Int(32), &parquet.RLEDictionary)
	ns := parquet.Encoded(parquet.Timestamp(parquet.Nanosecond), &parquet.DeltaBinaryPacked)
	names := []string{"cid", "mid", "moid", "cap", "acq", "payload", "deleted"}
	nodes := []parquet.Node{id, mid, id, ns, ns,
		parquet.Optional(parquet.Leaf(parquet.ByteArrayType)), parquet.Leaf(parquet.BooleanType)}
	kinds := map[exchange.Kind]parquet.Node{exchange.Int: parquet.Int(64),
		exchange.Float: parquet.Leaf(parquet.DoubleType), exchange.Text: parquet.String()}
	for i := range values {
		names = append(names, values[i].Name)
		nodes = append(nodes, parquet.Optional(kinds[values[i].Kind]))
	}
	g := &group{Group: parquet.Group{}}
	for i, name := range names {
		g.Group[name] = parquet.Compressed(nodes[i], &parquet.Zstd)
	}
	byName := map[string]parquet.Field{}
	for _, f := range g.Group.Fields() {
		byName[f.Name()] = f
	}
	for _, name := range names {
		g.fields = append(g.fields, byName[name])
	}
	return parquet.NewSchema("record", g)
}

// NewWriter begins a file.
func NewWriter(out io.Writer, h *exchange.Header, values []exchange.Value) exchange.Writer {
	// Bounds of payloads would be as large as the payloads.
	w := &writer{values: values, out: parquet.NewGenericWriter[any](out, schema(values),
		parquet.KeyValueMetadata(exchange.MetadataKey, string(h.Text())),
		parquet.CreatedBy("pentad", "", ""), parquet.SkipPageBounds("payload"),
		parquet.DataPageStatistics(false))}
	w.columns = w.out.ColumnWriters()
	return w
}

func (w *writer) Write(b *record.Batch) error {
	for column := range w.columns {
		w.cells = w.cells[:0]
		for i := range b.Len() {
			w.cells = append(w.cells, w.cell(column, b, i))
		}
		if _, err := w.columns[column].WriteRowValues(w.cells); err != nil {
			return err
		}
	}
	w.rows += b.Len()
	w.bytes += len(b.Data)
	if w.rows >= groupRows || w.bytes >= groupBytes {
		w.rows, w.bytes = 0, 0
		return w.out.Flush()
	}
	return nil
}

// cell is the cell of a record in a column.
func (w *writer) cell(column int, b *record.Batch, i int) parquet.Value {
	switch column {
	case cidColumn:
		return parquet.Int32Value(b.CID[i])
	case midColumn:
		return parquet.Int64Value(b.MID[i])
	case moidColumn:
		return parquet.Int32Value(b.MOID[i])
	case capColumn:
		return parquet.Int64Value(b.CapNs[i])
	case acqColumn:
		return parquet.Int64Value(b.AcqNs[i])
	case deletedColumn:
		return parquet.BooleanValue(b.Tomb(i))
	}
	null := parquet.NullValue().Level(0, 0, column)
	if b.Tomb(i) {
		return null
	}
	payload := b.Payload(i)
	if column == payloadColumn {
		return parquet.ByteArrayValue(payload).Level(0, 1, column)
	}
	switch v := &w.values[column-firstValue]; v.Kind {
	case exchange.Int:
		if n, ok := v.Int(payload); ok {
			return parquet.Int64Value(n).Level(0, 1, column)
		}
	case exchange.Float:
		if f, ok := v.Float(payload); ok {
			return parquet.DoubleValue(f).Level(0, 1, column)
		}
	default:
		if text, ok := v.Text(payload); ok {
			return parquet.ByteArrayValue(text).Level(0, 1, column)
		}
	}
	return null
}

func (w *writer) Close() error { return w.out.Close() }
