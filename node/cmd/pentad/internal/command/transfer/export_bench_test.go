package transfer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"testing"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/exchange"
	"github.com/pentad-db/pentad/sdk/record"
)

// meterBatch are readings of 1,000 meters as an export gets them, in one batch.
func meterBatch() *record.Batch {
	var b record.Batch
	var payload [8]byte
	for i := range int64(exchange.BatchRecords) {
		value := 20 + math.Round(1000*math.Sin(float64(i)/700))/100
		binary.LittleEndian.PutUint64(payload[:], math.Float64bits(value))
		b.AppendStamped(record.Key{CID: 1, MID: 1000 + i%1000, MOID: 1,
			CapNs: 1_767_225_600_000_000_000 + i/1000*900_000_000_000,
			AcqNs: 1_767_225_900_000_000_000 + i}, payload[:])
	}
	return &b
}

// batches of one file of the benchmarks: 400,000 records.
const benchBatches = 100

func writeFormat(
	out io.Writer, format exchange.Format, b *record.Batch, values []exchange.Value,
) error {
	w := newExportWriter(out, format, &exchange.Header{Version: exchange.Version}, values, nil)
	for range benchBatches {
		if err := w.Write(b); err != nil {
			return err
		}
	}
	return w.Close()
}

// BenchmarkForms writes and reads files of 400,000 readings of 8 bytes, without a node.
func BenchmarkForms(b *testing.B) {
	batch := meterBatch()
	value, err := exchange.NewValue("f64")
	if err != nil {
		b.Fatal(err)
	}
	values := []exchange.Value{value}
	records := float64(benchBatches * batch.Len())
	for _, format := range exportFormats() {
		var file bytes.Buffer
		if err := writeFormat(&file, format, batch, values); err != nil {
			b.Fatal(err)
		}
		b.Run("write/"+string(format), func(b *testing.B) {
			for b.Loop() {
				if err := writeFormat(io.Discard, format, batch, values); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(records*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrecords/s")
		})
		b.Run("read/"+string(format), func(b *testing.B) {
			for b.Loop() {
				r, err := openExport(bytes.NewReader(file.Bytes()), format, nil)
				var one record.Batch
				n := 0
				for ; err == nil; n += one.Len() {
					err = r.Next(&one)
				}
				if !errors.Is(err, io.EOF) || n != int(records) {
					b.Fatal(n, err)
				}
			}
			b.ReportMetric(records*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrecords/s")
		})
	}
}
