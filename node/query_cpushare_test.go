package node

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/internal/cpushare"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// Long queries are known as such while they run, in rows, in order and as aggregates, and short
// ones are not; their answers are whole, and nothing is left of them.
func TestLongQueriesAreKnown(t *testing.T) {
	n := openTest(t, Options{})
	rows := rounds.Of(400_000, 400_000, 100_000)
	for from := int64(0); from < int64(rows); from += 10_000 {
		b := &record.Batch{}
		for i := range int64(10_000) {
			b.Append(record.Key{CID: 1, MID: (from + i) % 1000, MOID: 1, CapNs: from + i},
				[]byte("12345678"))
		}
		if _, err := n.Put(t.Context(), b, store.WriterSeq{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var long atomic.Int64
	for _, q := range []record.Query{{}, {Order: record.OrderAcq}, {View: record.ViewLatest}} {
		for range 3 {
			all.Go(func() {
				got, own := 0, q // it is normalized
				_, err := n.Query(t.Context(), &own, func(b *record.Batch) error {
					got += b.Len()
					long.Add(int64(n.processors.Stats().Long))
					return nil
				})
				if err != nil || got != rows {
					t.Errorf("%d rows, %v", got, err)
				}
			})
		}
	}
	all.Wait()
	if long.Load() == 0 {
		t.Error("no query of all rows is known as a long one")
	}
	box := record.Box{record.MID: {record.At(7)}, record.Cap: {{From: 0, To: 10_000}}}
	for range 100 {
		if _, err := n.Query(t.Context(), &record.Query{Box: box},
			func(*record.Batch) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if st := n.processors.Stats(); st != (cpushare.Stats{}) {
		t.Errorf("%+v is left", st)
	}
}
