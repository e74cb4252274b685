package store

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/record"
)

// BenchmarkVerified asks for some rows of a million: again within [segment.VerifyAfter], when all
// blocks have to be verified again, and of copies, as exports and merges do.
func BenchmarkVerified(b *testing.B) {
	clock, age := new(atomic.Int64), new(atomic.Int64)
	s := openTest(b, Options{Now: clock.Load, blockNow: func() time.Time {
		return time.Unix(age.Load(), 0)
	}})
	var batch record.Batch
	for i := range benchRows / benchBatch {
		clock.Store(benchFill(&batch, i) + int64(time.Second))
		mustPut(b, s, &batch, WriterSeq{})
	}
	if err := s.Seal(b.Context()); err != nil {
		b.Fatal(err)
	}
	hour := int64(time.Hour)
	for name, box := range map[string]record.Box{
		"device": {record.CID: {record.At(3)}, record.MID: {record.At(1003)}},
		"minute": {record.Cap: {{From: 4 * hour, To: 4*hour + 1}}},
		"tenant": {record.CID: {record.At(3)}},
		"all":    {},
	} {
		for _, how := range []string{"again", "after 10 s", "copied"} {
			b.Run(name+"/"+how, func(b *testing.B) {
				q := record.Query{Box: box, Verify: how == "copied"}
				if err := q.Normalize(); err != nil {
					b.Fatal(err)
				}
				var stats ScanStats
				for b.Loop() {
					if how == "after 10 s" {
						age.Add(int64(segment.VerifyAfter / time.Second))
					}
					var err error
					stats, err = s.Scan(b.Context(), &q, func(int) (Sink, error) {
						return func(*record.Batch) error { return nil }, nil
					})
					if err != nil || stats.Rows == 0 {
						b.Fatalf("%d rows, %v", stats.Rows, err)
					}
				}
				b.ReportMetric(float64(stats.BlocksScanned), "blocks")
			})
		}
	}
}
