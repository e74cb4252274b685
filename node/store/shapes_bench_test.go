package store

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// BenchmarkShapes asks the same of a million rows of the same devices and times whose ids differ:
// neighbours of few tenants, random 64-bit numbers, and ten thousand tenants with ten devices each.
func BenchmarkShapes(b *testing.B) {
	const devices, rows = 100_000, 1 << 20
	ids := make([]int64, devices)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range ids {
		ids[i] = rng.Int64()
	}
	for _, shape := range []struct {
		name   string
		device func(i int) (cid int32, mid int64)
	}{
		{"near", func(i int) (int32, int64) { return int32(i % 4), int64(i) }},
		{"random", func(i int) (int32, int64) { return int32(i % 4), ids[i] }},
		{"tenants", func(i int) (int32, int64) { return int32(i / 10), int64(i % 10) }},
	} {
		b.Run(shape.name, func(b *testing.B) {
			clock := new(atomic.Int64)
			s := openTest(b, Options{Now: clock.Load})
			var batch record.Batch
			payload := make([]byte, 16)
			for n := 0; n < rows; n += benchBatch {
				batch.Reset()
				for r := n; r < n+benchBatch; r++ {
					i := r * 7919 % devices
					payload[0] = byte(r)
					cid, mid := shape.device(i)
					batch.Append(record.Key{CID: cid, MID: mid, MOID: int32(r / devices % 2),
						CapNs: int64(r/devices) * 15 * int64(time.Minute)}, payload)
				}
				clock.Store(batch.CapNs[benchBatch-1] + int64(time.Second))
				mustPut(b, s, &batch, WriterSeq{})
			}
			if err := s.WaitForMerges(b.Context()); err != nil {
				b.Fatal(err)
			}
			cid, mid := shape.device(4321)
			for name, box := range map[string]record.Box{
				"device": {record.CID: {record.At(int64(cid))}, record.MID: {record.At(mid)}},
				"moment": {record.Cap: {{From: int64(time.Hour), To: int64(time.Hour) + 1}}},
				"tenant": {record.CID: {record.At(int64(cid))}, record.MOID: {record.At(1)}},
			} {
				b.Run(name, func(b *testing.B) { benchScan(b, s, box) })
			}
		})
	}
}

func benchScan(b *testing.B, s *Store, box record.Box) {
	b.Helper()
	q := record.Query{Box: box}
	if err := q.Normalize(); err != nil {
		b.Fatal(err)
	}
	var stats ScanStats
	b.ReportAllocs()
	for b.Loop() {
		var err error
		stats, err = s.Scan(b.Context(), &q, func(int) (Sink, error) {
			return func(*record.Batch) error { return nil }, nil
		})
		if err != nil || stats.Rows == 0 {
			b.Fatalf("%d rows, %v", stats.Rows, err)
		}
	}
	perRow(b, stats.Rows)
	b.ReportMetric(float64(stats.BlocksScanned), "blocks")
	st := s.Stats()
	b.ReportMetric(float64(st.SegmentBytes)/float64(st.Rows), "B/row")
}
