package node

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/seal"
)

// sealedBench are two nodes with the same readings in rows of one size, sealed and plain.
type sealedBench struct {
	*testing.B
	sealed, plain *Node
	schema        *seal.Schema
	tenant        *seal.Tenant
	meters        []seal.Series
}

const (
	sealedMeters = 20
	sealedRows   = 100_000
)

func newSealedBench(b *testing.B, def seal.Definition) *sealedBench {
	b.Helper()
	schema, err := seal.NewSchema(def)
	if err != nil {
		b.Fatal(err)
	}
	var keys seal.MemoryKeyring
	keys.Generate(sealedTenant)
	tenant, err := seal.OpenTenant(&keys, sealedTenant, schema)
	if err != nil {
		b.Fatal(err)
	}
	x := &sealedBench{B: b, schema: schema, tenant: tenant, sealed: openBench(b),
		plain: openBench(b)}
	rng := rand.New(rand.NewPCG(1, 2))
	writers := make([]*seal.Writer, sealedMeters)
	for mid := range writers {
		if writers[mid], err = tenant.NewWriter(b.Context(), schema, int64(mid), 9); err != nil {
			b.Fatal(err)
		}
		x.meters = append(x.meters, seal.Series{MID: int64(mid), MOID: 9})
	}
	for row := 0; row < sealedRows; {
		var s, p record.Batch
		for range 10_000 {
			k := record.Key{CID: sealedTenant, MID: int64(row % sealedMeters), MOID: 9,
				CapNs: int64(row/sealedMeters) * 900e9}
			v := rng.Int64N(2001) - 1000
			payload, err := writers[k.MID].Append(nil, seal.Reading{CapNs: k.CapNs,
				Values: []seal.Value{{Number: v}}})
			if err != nil {
				b.Fatal(err)
			}
			s.Append(k, payload)
			clear(payload)
			binary.LittleEndian.PutUint64(payload, math.Float64bits(float64(v)/1000))
			p.Append(k, payload)
			row++
		}
		for n, batch := range map[*Node]*record.Batch{x.sealed: &s, x.plain: &p} {
			if _, err := n.Put(b.Context(), batch, store.WriterSeq{}); err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, n := range []*Node{x.sealed, x.plain} {
		if err := n.Settle(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	return x
}

func openBench(b *testing.B) *Node {
	b.Helper()
	n, err := Open(b.Context(), Options{Dir: b.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = n.Close(context.Background()) })
	return n
}

// fastest is the least time of an aggregate.
func (x *sealedBench) fastest(of Reader, filters []record.PluginCall,
	aggregate record.PluginCall) time.Duration {
	x.Helper()
	least := time.Duration(math.MaxInt64)
	for range 40 {
		q := &record.Query{Filters: filters, Aggregate: aggregate}
		begin := time.Now()
		if _, _, err := of.Aggregate(x.Context(), q); err != nil {
			x.Fatal(err)
		}
		least = min(least, time.Since(begin))
	}
	return least
}

// compare prints what a question costs of sealed payloads, and of plain ones.
func (x *sealedBench) compare(what string, sealed, plain time.Duration) {
	fmt.Fprintf(os.Stderr, "%-44s sealed %8.1f us  plain %8.1f us  ratio %.2f\n", what,
		float64(sealed.Nanoseconds())/1e3, float64(plain.Nanoseconds())/1e3,
		float64(sealed)/float64(plain))
}

// BenchmarkSealed compares questions about sealed readings with the same about numbers in payloads
// of the same size; make bench-sealed runs it.
func BenchmarkSealed(b *testing.B) {
	field := seal.Field{ID: 1, Name: "x", Kind: seal.Number, Digits: 3, Max: 1e6, Sum: true}
	x := newSealedBench(b, seal.Definition{ID: 7, MaxRecords: 1e9, Fields: []seal.Field{field}})
	sums := record.PluginCall{Name: "sealed-stats", Params: textParams(x.schema.Layout())}
	stats := record.PluginCall{Name: "stats"}
	x.compare("sum, rows in memory", x.fastest(x.sealed.Fresh(), nil, sums),
		x.fastest(x.plain.Fresh(), nil, stats))
	x.compare("sum, asked again", x.fastest(x.sealed.withoutOptions(), nil, sums),
		x.fastest(x.plain.withoutOptions(), nil, stats))
	fmt.Fprintf(os.Stderr, "%-44s %.1f\n", "bytes of a lean record on disk",
		float64(x.sealed.StoreStats().SegmentBytes)/sealedRows)

	field.Order = &seal.Order{AcknowledgeLeakage: true}
	x = newSealedBench(b, seal.Definition{ID: 8, MaxRecords: 1e9, Fields: []seal.Field{field}})
	token, err := x.tenant.RangeToken(b.Context(), x.schema, "x", seal.Range{Low: 0, High: 500},
		x.meters...)
	if err != nil {
		b.Fatal(err)
	}
	between := binary.LittleEndian.AppendUint64(make([]byte, 16), math.Float64bits(0))
	between = binary.LittleEndian.AppendUint64(between, math.Float64bits(0.5))
	between = append(between, make([]byte, 8)...)
	count := record.PluginCall{Name: "count"}
	x.compare("sealed-range and between, counted", x.fastest(x.sealed.Fresh(),
		[]record.PluginCall{{Name: "sealed-range", Params: textParams(token)}}, count),
		x.fastest(x.plain.Fresh(), []record.PluginCall{{Name: "between", Params: between}}, count))
	for b.Loop() {
	}
}
