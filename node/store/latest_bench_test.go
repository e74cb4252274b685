package store

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// BenchmarkLatestView scans the latest view of 360,000 readings that several writers put at once,
// so that batches do not come in the order of their caps: from heads, and sealed.
func BenchmarkLatestView(b *testing.B) {
	const devices, quantities, batches = 1000, 3, 36
	for _, writers := range []int{1, 4} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			clock := new(atomic.Int64)
			s := openTest(b, Options{Now: clock.Load})
			for i := range batches {
				batch := &record.Batch{}
				first := (i/writers*writers + writers - 1 - i%writers) * benchBatch
				for r := first; r < first+benchBatch; r++ {
					batch.Append(record.Key{CID: 1, MID: int64(r / quantities % devices),
						MOID: int32(r % quantities), CapNs: int64(r/quantities/devices) *
							int64(time.Second)}, make([]byte, 16))
				}
				clock.Store(int64(i+1) * int64(time.Minute))
				mustPut(b, s, batch, WriterSeq{})
			}
			ask := func(name string, view record.View) {
				b.Run(name, func(b *testing.B) {
					q := record.Query{View: view}
					for b.Loop() {
						stats, err := s.Scan(b.Context(), &q, func(int) (Sink, error) {
							return func(*record.Batch) error { return nil }, nil
						})
						if err != nil || stats.Rows != batches*benchBatch {
							b.Fatalf("%d rows, %v", stats.Rows, err)
						}
					}
					perRow(b, batches*benchBatch)
				})
			}
			ask("head all", record.ViewAll)
			ask("head latest", record.ViewLatest)
			if err := s.Seal(b.Context()); err != nil {
				b.Fatal(err)
			}
			ask("sealed all", record.ViewAll)
			ask("sealed latest", record.ViewLatest)
		})
	}
}
