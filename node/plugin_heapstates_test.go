package node

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestHeapStatesAggregate runs a plugin that collects payloads: what its workers collected, each in
// an instance of its own, comes together group by group.
func TestHeapStatesAggregate(t *testing.T) {
	rounds.NotUnderRace(t, "a model in one goroutine")
	n := openTest(t, Options{Store: store.Options{Workers: 3, Shards: 4}})
	for _, name := range []string{"growing", "save-too-long", "merge-spin"} {
		push := PluginPush{Name: name, Wasm: hostile(t, name)}
		if _, err := n.PushPlugin(t.Context(), push); err != nil {
			t.Fatal(err)
		}
	}
	rng := rand.New(rand.NewPCG(5, 5))
	want := map[int64][]string{}
	for range 3 {
		var b record.Batch
		for range record.MaxBatchRecords {
			k := record.Key{CID: rng.Int32N(10), MID: rng.Int64N(5000)}
			value := string(f64(rng.NormFloat64()))
			b.Append(k, []byte(value))
			if k.CID == 0 {
				want[k.MID] = append(want[k.MID], value)
			}
		}
		if _, err := n.Put(t.Context(), &b, store.WriterSeq{}); err != nil {
			t.Fatal(err)
		}
	}
	q := &record.Query{Box: record.Box{record.CID: {record.At(0)}},
		Aggregate: record.PluginCall{Name: "growing"}, GroupBy: record.GroupBy{MID: true}}
	if x, err := n.Explain(t.Context(), q); err != nil || x.Workers < 2 {
		t.Fatalf("%d workers, %v: nothing is merged", x.Workers, err)
	}
	groups, _, err := n.Aggregate(t.Context(), q)
	if err != nil || len(groups) != len(want) {
		t.Fatalf("%d groups, %v; want %d", len(groups), err, len(want))
	}
	for _, g := range groups {
		var got []string
		for p := range slices.Chunk(g.Result, 8) {
			got = append(got, string(p))
		}
		slices.Sort(got)
		slices.Sort(want[g.MID])
		if !slices.Equal(got, want[g.MID]) {
			t.Fatalf("device %d: %x, want %x", g.MID, got, want[g.MID])
		}
	}
	q.Aggregate.Name = "save-too-long"
	_, _, err = n.Aggregate(t.Context(), q)
	if err == nil || toWire(err).Kind != wire.KindPluginFailed ||
		!strings.Contains(err.Error(), "pentad_save: says it wrote") {
		t.Errorf("a state that lies about its size: %v", err)
	}
	q.Aggregate = record.PluginCall{Name: "merge-spin", Params: make([]byte, 8)}
	_, _, err = n.Aggregate(t.Context(), q)
	if err == nil || toWire(err).Kind != wire.KindPluginLimit ||
		!strings.Contains(err.Error(), "pentad_merge: out of fuel") {
		t.Errorf("a merge that does not end: %v", err)
	}
	if left := n.host.Stats().Instances; left != 0 {
		t.Errorf("%d instances are left", left)
	}
}
