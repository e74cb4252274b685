package node

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/pentad-db/pentad/wasmhost"
)

// TestPluginsChangeUnderQueries pushes, promotes and removes versions while queries run in them and
// in modules of their own, and ends the node among them: each answer is right or says that the
// plugin is not there, or that the node ends.
func TestPluginsChangeUnderQueries(t *testing.T) {
	n := openTest(t, Options{MaxQueries: 100})
	rows := uint64(len(fill(t, dial(t, n), rand.New(rand.NewPCG(3, 3)), 4000)))
	count := binary.LittleEndian.AppendUint64(nil, rows)
	first, second := variant(t, "count", "1"), variant(t, "count", "2")
	keep := thresholds(t, n, "op=ge,value=-1")
	calls := []record.PluginCall{{Name: "mine"}, {Name: "mine@" + registry.Digest(first)},
		{Name: "mine", Module: first}, {Name: "other"}}
	ask := func(i int) error {
		q := &record.Query{Aggregate: calls[i%len(calls)]}
		if i%3 == 0 {
			q.Filters = keep
		}
		groups, _, err := n.Aggregate(t.Context(), q)
		if err == nil && (len(groups) != 1 || groups[0].Records != rows ||
			string(groups[0].Result) != string(count)) {
			t.Errorf("%s: %+v, want %d records", engine.QueryText(q), groups, rows)
		}
		return err
	}
	var wg, changes sync.WaitGroup
	for start := range len(calls) {
		wg.Go(func() {
			for i := start; ; i++ {
				err := ask(i)
				kind := toWireKind(err)
				if errors.Is(err, nodeerror.ErrClosing) || errors.Is(err, wasmhost.ErrClosed) {
					return
				}
				if err != nil && kind != wire.KindUnknownPlugin && kind != wire.KindOverloaded {
					t.Errorf("%v", err)
					return
				}
			}
		})
	}
	changes.Go(func() {
		for range rounds.Of(30, 12, 8) {
			for _, wasm := range [][]byte{first, second} {
				for _, name := range []string{"mine", "other"} {
					_, err := n.PushPlugin(t.Context(), PluginPush{Name: name, Wasm: wasm})
					if err != nil {
						t.Error(err)
					}
				}
			}
			_, err := n.PromotePlugin(calls[1].Name)
			_, gone := n.RemovePlugin("mine@" + registry.Digest(second))
			_, all := n.RemovePlugin("mine")
			if err := errors.Join(err, gone, all); err != nil {
				t.Error(err)
			}
		}
	})
	changes.Wait()
	if err := n.Close(t.Context()); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if own, lent := n.host.Stats(), n.adHocHost.Stats(); own.Instances+lent.Instances != 0 ||
		!lentIdle(n) {
		t.Errorf("left: %+v, %+v", own, lent)
	}
}

// toWireKind is the kind of an error, 0 for none.
func toWireKind(err error) wire.Kind {
	if err == nil {
		return 0
	}
	return toWire(err).Kind
}
