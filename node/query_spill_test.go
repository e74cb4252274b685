package node

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/internal/spill"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// nothingSpilled wants no temporary file, nor memory for one, when no query is asked.
func nothingSpilled(t *testing.T, n *Node) {
	t.Helper()
	eventually(t, "given back", func() bool {
		st := n.engine.Limits.Spill.Stats()
		return st.MemoryBytes == 0 && st.DiskBytes == 0
	})
	files, err := filepath.Glob(filepath.Join(n.opt.Dir, "spill", "*"))
	if err != nil || len(files) > 0 {
		t.Errorf("%v are left, %v", files, err)
	}
}

// TestOrderedAnswersBeyondMemory: what does not fit into memory comes in the same order.
func TestOrderedAnswersBeyondMemory(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	n := openTest(t, Options{ResultBytes: 1 << 14, Store: store.Options{SealRows: 3000, Shards: 4}})
	c := dial(t, n)
	all := fill(t, c, rng, 20_000)
	for i := range rounds.Of(20, 20, 6) {
		q := &record.Query{View: record.View(i % 3), Order: record.Order(1 + i%2),
			KeysOnly: rng.IntN(4) == 0}
		if q.View == record.ViewAsOf {
			q.AsOfAcqNs = all[rng.IntN(len(all))].key.AcqNs
		}
		if rng.IntN(2) == 0 {
			q.Limit = uint64(1 + rng.IntN(15_000))
		}
		if rng.IntN(2) == 0 {
			q.Filters = thresholds(t, n, "value=50")
		}
		if err := q.Normalize(); err != nil {
			t.Fatal(err)
		}
		want := expected(all, q, func(r row) bool { return len(q.Filters) == 0 || r.value > 50 })
		if q.Limit > 0 && uint64(len(want)) > q.Limit {
			want = want[:q.Limit]
		}
		before := n.engine.Limits.Spill.Stats().SpilledBytes
		checkQuery(t, c, fmt.Sprintf("query %d: %+v", i, q), q, want)
		if len(want) > 2000 && n.engine.Limits.Spill.Stats().SpilledBytes == before {
			t.Errorf("query %d: %d rows fit into memory", i, len(want))
		}
	}
	nothingSpilled(t, n)
}

// TestOrderedAnswersOfManySourcesBeyondMemory: the node that is asked gathers none of the rows of
// others in memory either.
func TestOrderedAnswersOfManySourcesBeyondMemory(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 4))
	s := openSpread(t, 4, 2)
	s.fill(rng, 3)
	near := s.near()
	near.engine.Limits.Spill = spill.New(filepath.Join(near.opt.Dir, "spill"), 1<<14)
	for order := range record.Order(2) {
		for _, limit := range []uint64{0, 3000} {
			q := &record.Query{Order: 1 + order, Limit: limit}
			want, _ := s.rows(s.whole, q)
			got, end := s.rows(near, q)
			if len(got) != len(want) || !end.Complete || len(want) < 3000 {
				t.Fatalf("%+v: %d rows, want %d, %+v", q, len(got), len(want), end)
			}
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("%+v: row %d is %v, want %v", q, i, got[i], want[i])
				}
			}
		}
	}
	if near.engine.Limits.Spill.Stats().SpilledBytes == 0 {
		t.Error("all fit into memory")
	}
	nothingSpilled(t, near)
}

// TestOrderedAnswersThatEnd: a client that hangs up in the midst of an answer leaves nothing, and
// neither does one whose process was killed.
func TestOrderedAnswersThatEnd(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, "spill", "sort-1")
	if err := os.MkdirAll(filepath.Dir(left), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(left, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := openTest(t, Options{Dir: dir, ResultBytes: 1 << 20})
	nothingSpilled(t, n)
	c := dial(t, n)
	for first := range int64(20) {
		b := new(record.Batch)
		for i := range int64(20_000) {
			b.Append(record.Key{CID: 1, MID: i % 7, CapNs: first*20_000 + i}, f64(float64(i)))
		}
		if _, err := n.Put(t.Context(), b, store.WriterSeq{}); err != nil {
			t.Fatal(err)
		}
	}
	gone := errors.New("the reader is gone")
	held := int64(0)
	_, err := c.Scan(t.Context(), &record.Query{Order: record.OrderKey},
		func(*record.Batch) error {
			held = n.engine.Limits.Spill.Stats().DiskBytes
			return gone
		})
	if !errors.Is(err, gone) || held == 0 {
		t.Errorf("%d bytes in files, %v", held, err)
	}
	nothingSpilled(t, n)
	if kind := n.Kind(fmt.Errorf("sort: %w", spill.ErrNoSpace)); kind != wire.KindTooLarge {
		t.Errorf("a full disk is of kind %v", kind)
	}
}
