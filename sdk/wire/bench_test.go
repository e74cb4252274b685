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

func BenchmarkRows(b *testing.B) {
	batch := meterBatch()
	frame, err := AppendRows(nil, batch)
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%.2f bytes per row", float64(len(frame))/float64(batch.Len()))
	perRow := func(b *testing.B) {
		b.ReportAllocs()
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(batch.Len()),
			"ns/row")
	}
	b.Run("write", func(b *testing.B) {
		buf := make([]byte, 0, 2*len(frame))
		for b.Loop() {
			if _, err := AppendRows(buf, batch); err != nil {
				b.Fatal(err)
			}
		}
		perRow(b)
	})
	b.Run("read", func(b *testing.B) {
		var got record.Batch
		for b.Loop() {
			if err := ParseRows(frame[frameHeaderBytes:], &got); err != nil {
				b.Fatal(err)
			}
		}
		perRow(b)
	})
}
