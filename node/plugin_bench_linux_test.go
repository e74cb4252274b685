package node

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/aggregate"
	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

const (
	benchRows  = 1 << 20
	benchEvery = 15 * time.Minute
)

// benchNode has 1,000 devices with about a thousand readings each, sealed.
func benchNode(b *testing.B) *Node {
	b.Helper()
	n, err := Open(b.Context(), Options{Dir: b.TempDir(), Listen: "127.0.0.1:0",
		Store: store.Options{Workers: 1}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = n.Close(b.Context()) })
	rng := rand.New(rand.NewPCG(1, 1))
	var batch record.Batch
	for i := range benchRows {
		batch.Append(record.Key{CID: 1, MID: int64(i % 1000), MOID: 1,
			CapNs: int64(i/1000) * int64(benchEvery)}, f64(float64(rng.IntN(10_000))/8))
		if batch.Len() == record.MaxBatchRecords {
			if _, err := n.Put(b.Context(), &batch, store.WriterSeq{}); err != nil {
				b.Fatal(err)
			}
			batch.Reset()
		}
	}
	if err := n.Seal(b.Context()); err != nil {
		b.Fatal(err)
	}
	return n
}

// nativeStats is what the plugin stats keeps of a group.
type nativeStats struct {
	count                   uint64
	sum, min, max, mean, m2 float64
}

func (s *nativeStats) add(x float64) {
	s.count++
	s.sum += x
	s.min, s.max = min(s.min, x), max(s.max, x)
	d := x - s.mean
	s.mean += d / float64(s.count)
	s.m2 += d * (x - s.mean)
}

// nativeSink is an aggregate that is part of the node: the same groups, and a loop in Go.
func nativeSink(by record.GroupBy) store.Sink {
	g, states := aggregate.NewGroupTable(by, nil, nil, 1<<20), []nativeStats(nil)
	var runs []wasmhost.GroupRun
	return func(b *record.Batch) (err error) {
		if runs, err = g.AppendRuns(b, runs[:0]); err != nil {
			return err
		}
		for len(states) < g.Len() {
			states = append(states, nativeStats{})
		}
		i := 0
		for _, r := range runs {
			for s := &states[r.Group]; i < int(r.End); i++ {
				s.add(math.Float64frombits(binary.LittleEndian.Uint64(b.Data[8*i:])))
			}
		}
		return nil
	}
}

// measure runs f over the rows of a benchNode and reports processor time, which other programs on
// the machine leave alone.
func measure(b *testing.B, name string, f func() error) {
	b.Run(name, func(b *testing.B) {
		cpu := func() int64 {
			var u syscall.Rusage
			if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
				b.Fatal(err)
			}
			return u.Utime.Nano()
		}
		before := cpu()
		for b.Loop() {
			if err := f(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(cpu()-before)/float64(b.N)/benchRows, "cpu-ns/row")
	})
}

// BenchmarkPlugins compares plugins over a million sealed records with sinks in Go, which read the
// same parts of rows.
func BenchmarkPlugins(b *testing.B) {
	n := benchNode(b)
	scan := func(parts segment.Columns, sink store.Sink) error {
		_, err := n.store.ScanColumns(b.Context(), &record.Query{}, parts,
			func(int) (store.Sink, error) { return sink, nil })
		return err
	}
	for _, f := range []struct {
		name string
		by   record.GroupBy
	}{{"one", record.GroupBy{}}, {"runs", record.GroupBy{MID: true}},
		{"random", record.GroupBy{CapBucketNs: int64(benchEvery)}}} {
		measure(b, "stats/"+f.name+"/plugin", func() error {
			_, _, err := n.Aggregate(b.Context(), &record.Query{GroupBy: f.by,
				Aggregate: record.PluginCall{Name: "stats"}})
			return err
		})
		measure(b, "stats/"+f.name+"/native", func() error {
			return scan(segment.Payloads|engine.GroupColumns(f.by), nativeSink(f.by))
		})
	}
	measure(b, "filter/plugin", func() error {
		_, _, err := n.Count(b.Context(), &record.Query{Filters: []record.PluginCall{{
			Name: "threshold", Params: binary.LittleEndian.AppendUint64(make([]byte, 24),
				math.Float64bits(1000))}}})
		return err
	})
	measure(b, "filter/native", func() error {
		var keep []uint32
		return scan(segment.Payloads, func(b *record.Batch) error {
			keep = keep[:0]
			for i := range b.Len() {
				bits := binary.LittleEndian.Uint64(b.Data[8*i:])
				if math.Float64frombits(bits) > 1000 {
					keep = append(keep, uint32(i))
				}
			}
			return nil
		})
	})
	nothing := func(*record.Batch) error { return nil }
	measure(b, "scan/all", func() error { return scan(segment.AllColumns, nothing) })
	measure(b, "scan/payloads", func() error { return scan(segment.Payloads, nothing) })
}
