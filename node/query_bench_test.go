package node

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// BenchmarkQueryOne asks for a day of one quantity of one device among many: the smallest query,
// which shows what the way to the store costs.
func BenchmarkQueryOne(b *testing.B) {
	n := openFilled(b, Options{Dir: b.TempDir()})
	b.ReportAllocs()
	for b.Loop() {
		askOne(b, n.Query)
	}
}

// BenchmarkSmallQuestion asks the same in the process and by a client on loopback, in turn with a
// check of the node's health by that client. It reports medians, and how many times as long the
// query by the client takes as the check and the query in the process together.
func BenchmarkSmallQuestion(b *testing.B) {
	n := openFilled(b, Options{Dir: b.TempDir(), Listen: "127.0.0.1:0"})
	c, err := client.Dial(b.Context(), n.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	steps := []struct {
		unit string
		do   func()
	}{
		{"us/embedded", func() { askOne(b, n.Query) }},
		{"us/health", func() {
			if err := c.Health(b.Context()); err != nil {
				b.Fatal(err)
			}
		}},
		{"us/query", func() { askOne(b, c.Scan) }},
	}
	took := make([][]float64, len(steps))
	for b.Loop() {
		for i, step := range steps {
			began := time.Now()
			step.do()
			took[i] = append(took[i], float64(time.Since(began).Nanoseconds())/1e3)
		}
	}
	medians := make([]float64, len(steps))
	for i, step := range steps {
		slices.Sort(took[i])
		medians[i] = took[i][len(took[i])/2]
		b.ReportMetric(medians[i], step.unit)
	}
	b.ReportMetric(medians[2]/(medians[0]+medians[1]), "ratio")
	b.ReportMetric(0, "ns/op")
}

// openFilled opens a node with readings of three quantities of two hundred devices in a segment.
func openFilled(b *testing.B, opt Options) *Node {
	b.Helper()
	n, err := Open(b.Context(), opt)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = n.Close(context.Background()) })
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
	return n
}

// askOne asks for a day of one quantity of one device.
func askOne(b *testing.B, ask func(context.Context, *record.Query,
	func(*record.Batch) error) (wire.End, error)) {
	q := &record.Query{}
	q.Box[record.CID], q.Box[record.MID] = record.RangeSet{record.At(1)},
		record.RangeSet{record.At(78)}
	q.Box[record.MOID] = record.RangeSet{record.At(2)}
	q.Box[record.Cap] = record.RangeSet{{From: 0, To: int64(24 * time.Hour)}}
	end, err := ask(b.Context(), q, func(*record.Batch) error { return nil })
	if err != nil || end.Rows == 0 {
		b.Fatalf("%d rows, %v", end.Rows, err)
	}
}
