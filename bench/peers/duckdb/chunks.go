//go:build cgo

package duckdb

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	bind "github.com/duckdb/duckdb-go-bindings"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

// vectorOf returns the values of a column of a chunk. They belong to the chunk.
func vectorOf[T any](chunk bind.DataChunk, column, rows int) []T {
	vector := bind.DataChunkGetVector(chunk, bind.IdxT(column))
	return unsafe.Slice((*T)(bind.VectorGetData(vector)), rows)
}

// Put appends a batch by columns.
func (d *db) Put(_ context.Context, b *record.Batch) (err error) {
	types := []bind.LogicalType{
		bind.CreateLogicalType(bind.TypeInteger), bind.CreateLogicalType(bind.TypeBigInt),
		bind.CreateLogicalType(bind.TypeInteger), bind.CreateLogicalType(bind.TypeBigInt),
		bind.CreateLogicalType(bind.TypeBigInt), bind.CreateLogicalType(bind.TypeDouble)}
	if d.shape.Status() {
		types = append(types, bind.CreateLogicalType(bind.TypeBigInt))
	}
	defer func() {
		for i := range types {
			bind.DestroyLogicalType(&types[i])
		}
	}()
	chunk := bind.CreateDataChunk(types)
	defer bind.DestroyDataChunk(&chunk)
	var appender bind.Appender
	if bind.AppenderCreate(d.conn, "", "r", &appender) != bind.StateSuccess {
		return errors.New("duckdb: no appender: " + bind.AppenderError(appender))
	}
	defer func() {
		if bind.AppenderClose(appender) != bind.StateSuccess && err == nil {
			err = errors.New("duckdb: append: " + bind.AppenderError(appender))
		}
		bind.AppenderDestroy(&appender)
	}()
	for from, rows := 0, int(bind.VectorSize()); from < b.Len(); from += rows {
		rows = min(rows, b.Len()-from)
		d.fill(chunk, b, from, rows)
		if bind.AppendDataChunk(appender, chunk) != bind.StateSuccess {
			return errors.New("duckdb: append: " + bind.AppenderError(appender))
		}
	}
	return nil
}

func (d *db) fill(chunk bind.DataChunk, b *record.Batch, from, rows int) {
	to := from + rows
	bind.DataChunkReset(chunk)
	copy(vectorOf[int32](chunk, 0, rows), b.CID[from:to])
	copy(vectorOf[int64](chunk, 1, rows), b.MID[from:to])
	copy(vectorOf[int32](chunk, 2, rows), b.MOID[from:to])
	copy(vectorOf[int64](chunk, 3, rows), b.CapNs[from:to])
	copy(vectorOf[int64](chunk, 4, rows), b.AcqNs[from:to])
	numbers := vectorOf[float64](chunk, 5, rows)
	for i := range numbers {
		numbers[i] = system.Number(b.Payload(from + i))
	}
	if d.shape.Status() {
		status := vectorOf[int64](chunk, statusColumn, rows)
		for i := range status {
			status[i] = int64(binary.LittleEndian.Uint64(b.Payload(from + i)[system.NumberBytes:]))
		}
	}
	bind.DataChunkSetSize(chunk, bind.IdxT(rows))
}

// statusColumn is the column of the status word, where there is one.
const statusColumn = 6

func countOf(result bind.Result) (uint64, error) {
	chunk := bind.FetchChunk(result)
	if chunk.Ptr == nil {
		return 0, errors.New("duckdb: no count")
	}
	defer bind.DestroyDataChunk(&chunk)
	return uint64(vectorOf[int64](chunk, 0, 1)[0]), nil
}

// batches hands an answer out, a chunk of DuckDB as a batch.
func batches(
	result bind.Result, status bool, take func(b *record.Batch),
) (count uint64, err error) {
	var c columns
	for {
		chunk := bind.FetchChunk(result)
		if chunk.Ptr == nil {
			return count, nil
		}
		rows := int(bind.DataChunkGetSize(chunk))
		if rows > 0 {
			if err = c.read(chunk, rows, status); err == nil {
				take(&c.batch)
				count += uint64(rows)
			}
		}
		bind.DestroyDataChunk(&chunk)
		if err != nil {
			return count, err
		}
	}
}

// columns are those of a chunk, as whole numbers of 64 bits where they are narrower.
type columns struct {
	keys  [5][]int64
	batch record.Batch
}

func (c *columns) read(chunk bind.DataChunk, rows int, status bool) error {
	for i := range c.keys {
		wide, err := wholes(c.keys[i][:0], chunk, i, rows)
		if err != nil {
			return err
		}
		c.keys[i] = wide
	}
	numbers := vectorOf[float64](chunk, len(c.keys), rows)
	var words []int64
	if status {
		words = vectorOf[int64](chunk, statusColumn, rows)
	}
	c.batch.Reset()
	var payload []byte
	for i := range rows {
		payload = system.AppendNumber(payload[:0], numbers[i])
		if status {
			payload = binary.LittleEndian.AppendUint64(payload, uint64(words[i]))
		}
		c.batch.AppendStamped(record.Key{CID: int32(c.keys[0][i]), MID: c.keys[1][i],
			MOID: int32(c.keys[2][i]), CapNs: c.keys[3][i], AcqNs: c.keys[4][i]}, payload)
	}
	return nil
}

// wholes appends a column of whole numbers to dst.
func wholes(dst []int64, chunk bind.DataChunk, column, rows int) ([]int64, error) {
	kind := bind.VectorGetColumnType(bind.DataChunkGetVector(chunk, bind.IdxT(column)))
	defer bind.DestroyLogicalType(&kind)
	switch id := bind.GetTypeId(kind); id {
	case bind.TypeBigInt:
		return append(dst, vectorOf[int64](chunk, column, rows)...), nil
	case bind.TypeInteger:
		for _, v := range vectorOf[int32](chunk, column, rows) {
			dst = append(dst, int64(v))
		}
		return dst, nil
	default:
		return dst, fmt.Errorf("duckdb: column %d has type %d", column, id)
	}
}
