package plugins_test

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

const benchRows = 4096

// benchBatch has one float64 per row; its groups are one run, or none are runs.
func benchBatch(groups uint32) (*record.Batch, []uint32) {
	b, gid := &record.Batch{}, make([]uint32, benchRows)
	for i := range gid {
		gid[i] = uint32(i*7919) % groups
		x := math.Float64bits(float64(i%1000) / 8)
		b.Append(record.Key{MID: int64(i)}, binary.LittleEndian.AppendUint64(nil, x))
	}
	return b, gid
}

func perRow(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRows, "ns/row")
}

func benchAggregate(b *testing.B, m *wasmhost.Module, params []byte, groups int) {
	batch, gid := benchBatch(uint32(groups))
	a := newAggregate(b, m, params)
	for b.Loop() {
		if err := a.Add(b.Context(), batch, gid, groups); err != nil {
			b.Fatal(err)
		}
	}
	perRow(b)
}

// BenchmarkStats compares all languages and a loop of the host, for one group and for 1,000.
func BenchmarkStats(b *testing.B) {
	all := loadSiblings(b)
	for _, f := range []struct {
		name   string
		groups int
	}{{"one", 1}, {"many", 1000}} {
		for _, s := range all {
			b.Run(s.language+"/"+f.name, func(b *testing.B) {
				benchAggregate(b, s.module, nil, f.groups)
			})
		}
		b.Run("native/"+f.name, func(b *testing.B) {
			batch, gid := benchBatch(uint32(f.groups))
			states := make([]statsModel, f.groups)
			for b.Loop() {
				addNative(states, batch, gid)
			}
			perRow(b)
		})
	}
}

// addNative is what a host without plugins would do: one pass, one state per group.
func addNative(states []statsModel, batch *record.Batch, gid []uint32) {
	for i, group := range gid {
		s := &states[group]
		s.add(math.Float64frombits(binary.LittleEndian.Uint64(batch.Data[8*i:])))
	}
}

// BenchmarkInstance is what starting an instance costs a query per worker; Go has its runtime to
// start.
func BenchmarkInstance(b *testing.B) {
	for _, s := range loadSiblings(b) {
		b.Run(s.language, func(b *testing.B) {
			for b.Loop() {
				a, err := s.module.NewAggregate(b.Context(), nil)
				if err != nil {
					b.Fatal(err)
				}
				a.Close()
			}
		})
	}
}
