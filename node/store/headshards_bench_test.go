package store

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/record"
)

// BenchmarkHeadShards asks heads of a million rows, divided into some head shards, for a device, a
// count of half of them and an hour of all; and reads all of them for a seal.
func BenchmarkHeadShards(b *testing.B) {
	hour := int64(time.Hour)
	for _, count := range []int{1, 2, 8} {
		clock := new(atomic.Int64)
		s := openTest(b, Options{Now: clock.Load, HeadShards: count, SealRows: 2 * benchRows})
		var batch record.Batch
		for i := range benchRows / benchBatch {
			clock.Store(benchFill(&batch, i) + int64(time.Second))
			mustPut(b, s, &batch, WriterSeq{})
		}
		for _, ask := range []struct {
			name string
			box  record.Box
		}{
			{"device", record.Box{record.CID: {record.At(3)}, record.MID: {record.At(1003)}}},
			{"half", record.Box{record.MID: {{From: 500, To: 1500}}}},
			{"hour", record.Box{record.Cap: {{From: 4 * hour, To: 5 * hour}}}},
		} {
			b.Run(fmt.Sprintf("%s/%d", ask.name, count), func(b *testing.B) {
				q := record.Query{Box: ask.box}
				if err := q.Normalize(); err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					stats, err := s.Scan(b.Context(), &q, func(int) (Sink, error) {
						return func(*record.Batch) error { return nil }, nil
					})
					if err != nil || stats.Rows == 0 {
						b.Fatalf("%d rows, %v", stats.Rows, err)
					}
				}
			})
		}
		b.Run(fmt.Sprintf("read all/%d", count), func(b *testing.B) {
			rows := &record.Batch{}
			for b.Loop() {
				s.shards[0].State.Load().Head.ReadAllUnconfirmed(rows)
			}
			perRow(b, benchRows)
		})
	}
}
