package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/wire"
)

// A query does not keep its place among the queries for an acq of another cluster.
func TestAnAcqFarAheadIsNotWaitedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, err := store.Open(t.Context(), store.Options{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		e := New(Options{Store: s, Open: t.Context()}, true)
		began := time.Now()
		wait := func(ahead time.Duration) error {
			at := began.Add(ahead).UnixNano()
			return e.afterAcq(e.routes.Load().single, at).wait(t.Context())
		}
		if err := wait(time.Second); err != nil {
			t.Error(err)
		}
		said := nodeerror.ToWire(wait(24 * time.Hour))
		if took := time.Since(began); said.Kind != wire.KindUnavailable || said.Part != "after" ||
			took > time.Minute {
			t.Errorf("after %v: %v", took, said)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
