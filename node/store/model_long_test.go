package store

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/pentad-db/pentad/index"
)

// modelTimeVariable says how long TestModelLong goes on: 20s in CI, 1h in make test-long.
const modelTimeVariable = "PENTAD_MODEL_FOR"

// TestModelLong runs the model with ever new keys and options until its time is over.
func TestModelLong(t *testing.T) {
	limit := 2 * time.Second
	if text := os.Getenv(modelTimeVariable); text != "" && !testing.Short() {
		var err error
		if limit, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", modelTimeVariable, err)
		}
	}
	end := time.Now().Add(limit)
	rng := randomSource(t)
	rounds := 0
	for ; time.Now().Before(end) && !t.Failed(); rounds++ {
		sh, opt := randomModel(rng)
		t.Run(fmt.Sprint(rounds), func(t *testing.T) {
			t.Logf("%+v %+v", sh, opt)
			testModel(t, sh, opt)
		})
	}
	t.Logf("%d rounds", rounds)
}

func randomModel(rng *rand.Rand) (shape, Options) {
	few := func(most int64) int64 { return 1 + rng.Int64N(1+rng.Int64N(most)) }
	sh := shape{cids: few(60), mids: few(5000), moids: few(8), caps: few(20_000),
		varied: rng.IntN(3) == 0, wild: rng.IntN(3) == 0, rareTombs: rng.IntN(2) == 0}
	return sh, Options{Shards: 1 << rng.IntN(4), SealRows: 100 + rng.IntN(3000),
		HeadBytes: int64(1) << (18 + rng.IntN(8)), Workers: 1 + rng.IntN(3),
		Index:     index.Options{BlockRows: 8 << rng.IntN(6)},
		TileBytes: uint64(1) << (11 + rng.IntN(12)), maxReadings: 10 << rng.IntN(12),
		parallelRows: 1 << rng.IntN(14)}
}
