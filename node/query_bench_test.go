package node

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// BenchmarkQueryOne asks for a day of one quantity of one device among many: the smallest query,
// which shows what the way to the store costs.
func BenchmarkQueryOne(b *testing.B) {
	n, err := Open(b.Context(), Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = n.Close(b.Context()) }()
	rng := rand.New(rand.NewPCG(1, 1))
	var rows record.Batch
	for range record.MaxBatchRecords {
		rows.Append(record.Key{CID: 1, MID: rng.Int64N(200), MOID: rng.Int32N(3),
			CapNs: rng.Int64N(30 * int64(24*time.Hour))}, f64(rng.Float64()))
	}
	if _, err := n.Put(b.Context(), &rows, store.WriterSeq{}); err != nil {
		b.Fatal(err)
	}
	if err := n.Seal(b.Context()); err != nil {
		b.Fatal(err)
	}
	var found uint64
	b.ReportAllocs()
	for b.Loop() {
		q := &record.Query{}
		q.Box[record.CID], q.Box[record.MID] = record.RangeSet{record.At(1)},
			record.RangeSet{record.At(78)}
		q.Box[record.MOID] = record.RangeSet{record.At(2)}
		q.Box[record.Cap] = record.RangeSet{{From: 0, To: int64(24 * time.Hour)}}
		end, err := n.Query(b.Context(), q, func(*record.Batch) error { return nil })
		if err != nil {
			b.Fatal(err)
		}
		found += end.Rows
	}
	if found == 0 {
		b.Fatal("nothing was found")
	}
}
