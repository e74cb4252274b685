package node

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestWorkersChangeNothing: a sum of floats is the same to the last bit however many workers there
// are, whether states are kept or not.
func TestWorkersChangeNothing(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 6))
	dir := t.TempDir()
	var want []wire.Group
	for _, workers := range []int{1, 2, 4, 3} {
		n := openTest(t, Options{Dir: dir, Store: store.Options{Workers: workers}})
		if want == nil {
			var b record.Batch
			for i := range int64(60_000) {
				b.Append(record.Key{CID: 1, MID: i % 900, MOID: int32(i % 2),
					CapNs: i / 900 * 1e9}, f64(rng.NormFloat64()*math.Pow(10, float64(i%19))))
			}
			if _, err := n.Put(t.Context(), &b, store.WriterSeq{}); err != nil {
				t.Fatal(err)
			}
			if err := n.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		q := &record.Query{Box: record.Box{record.MID: {{From: 100, To: 850}}},
			Aggregate: record.PluginCall{Name: "stats"}}
		for i := range 6 {
			ask := n.Aggregate
			if i%2 == 0 {
				ask = n.Fresh().Aggregate
			}
			got, _, err := ask(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if want == nil {
				want = got
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%d workers: %+v, want %+v", workers, got, want)
			}
		}
		if err := n.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
