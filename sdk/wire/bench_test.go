package wire

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// meterBatch is what meters send: 10,000 readings with a value and a status each.
func meterBatch() *record.Batch {
	rng, b := rand.New(rand.NewPCG(1, 1)), new(record.Batch)
	for i := range int64(10_000) {
		payload := binary.LittleEndian.AppendUint64(nil,
			math.Float64bits(float64(rng.IntN(5000))/10))
		b.AppendStamped(record.Key{CID: int32(i % 4), MID: 4_000_000_000 + i*7%10_000, MOID: 3,
			CapNs: 1_700_000_000_000_000_000 + rng.Int64N(5000)*1_000_000,
			AcqNs: 1_700_000_001_000_000_000 + i}, append(payload, 0, 0, 0, 0, 0, 0, 0, 0))
	}
	return b
}

// textBatch has payloads that vary: 10,000 short texts.
func textBatch() *record.Batch {
	rng, b := rand.New(rand.NewPCG(1, 1)), new(record.Batch)
	for i := range int64(10_000) {
		text := []byte("status ok, battery at 3.6 V, signal good")
		b.AppendStamped(record.Key{CID: 1, MID: i, MOID: 9, CapNs: i * 1_000_000_000, AcqNs: i},
			text[:10+rng.IntN(len(text)-10)])
	}
	return b
}

// perRow reports what a row costs.
func perRow(b *testing.B, rows int) {
	b.Helper()
	b.ReportAllocs()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/row")
}

func BenchmarkRows(b *testing.B) { benchmarkRows(b, meterBatch()) }

func BenchmarkTexts(b *testing.B) { benchmarkRows(b, textBatch()) }

func benchmarkRows(b *testing.B, batch *record.Batch) {
	frame, err := AppendRows(nil, batch)
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%.2f bytes per row", float64(len(frame))/float64(batch.Len()))
	b.Run("write", func(b *testing.B) {
		buf := make([]byte, 0, 2*len(frame))
		for b.Loop() {
			if _, err := AppendRows(buf, batch); err != nil {
				b.Fatal(err)
			}
		}
		perRow(b, batch.Len())
	})
	b.Run("read", func(b *testing.B) {
		var got record.Batch
		for b.Loop() {
			if err := ParseRows(frame[frameHeaderBytes:], &got); err != nil {
				b.Fatal(err)
			}
		}
		perRow(b, batch.Len())
	})
}

func BenchmarkPut(b *testing.B) {
	batch := meterBatch()
	batch.AcqNs = nil
	put := Put{Writer: [16]byte{1}, Seq: 1, Batch: batch}
	frame, err := AppendPut(nil, &put)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("write", func(b *testing.B) {
		buf := make([]byte, 0, 2*len(frame))
		for b.Loop() {
			if _, err := AppendPut(buf, &put); err != nil {
				b.Fatal(err)
			}
		}
		perRow(b, batch.Len())
	})
	b.Run("read", func(b *testing.B) {
		var got Put
		for b.Loop() {
			if err := ParsePut(frame, &got); err != nil {
				b.Fatal(err)
			}
		}
		perRow(b, batch.Len())
	})
}
