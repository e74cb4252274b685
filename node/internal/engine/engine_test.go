package engine

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/pentad-db/pentad/node/internal/admission"
	"github.com/pentad-db/pentad/node/internal/cpushare"
	"github.com/pentad-db/pentad/node/store"
)

// testNow is what the clock of a store of openEngine shows.
const testNow = int64(1_750_000_000_000_000_000)

// openEngine returns the engine of a node that is in no cluster, without plugins.
func openEngine(t *testing.T) *Engine {
	t.Helper()
	s, _, err := store.Open(t.Context(), store.Options{Dir: t.TempDir(),
		Now: func() int64 { return testNow }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return New(Options{Store: s, Readers: 8, Processors: cpushare.New(2), Open: t.Context(),
		Queries: admission.New(admission.Options{Permits: 8}),
		Limits:  Limits{FeedBytes: 1 << 30}}, true)
}

func f64(v float64) []byte { return binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)) }
