package node

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// spread is the same records twice: all in one node, and in the groups of several nodes, of which
// the first is asked for all. The acqs are the same, too.
type spread struct {
	*testing.T
	whole  *Node
	nodes  []*Node
	stores []*store.Store           // by group
	places [][]engine.GroupLocation // by node, then group
	clock  *atomic.Int64
	last   int64 // acq that was given
}

func openSpread(t *testing.T, groups, nodes int) *spread {
	t.Helper()
	s := &spread{T: t, clock: new(atomic.Int64)}
	s.clock.Store(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	opt := store.Options{SealRows: 3000, Workers: 2, Now: s.clock.Load}
	s.whole = openTest(t, Options{Store: opt})
	for range nodes {
		s.nodes = append(s.nodes, openTest(t, Options{Store: opt}))
	}
	var peers []*engine.Peer
	for i, n := range s.nodes {
		peers = append(peers, engine.NewPeer(0, fmt.Sprint("n", i), dial(t, n)))
	}
	s.places = make([][]engine.GroupLocation, nodes)
	for g := range groups {
		opt := opt
		opt.SealRows /= 5
		opt.Dir = filepath.Join(t.TempDir(), fmt.Sprint("group", g))
		st, _, err := store.Open(t.Context(), opt)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() }) // closed before its node where a test wants a failure
		s.stores = append(s.stores, st)
		at := g % nodes
		for i := range s.nodes {
			p := engine.GroupLocation{Slots: slots.GroupSpan(slots.GroupID(g+1), groups)}
			if i == at {
				p.Store = st
			} else {
				p.Peers = []*engine.Peer{peers[at]}
			}
			s.places[i] = append(s.places[i], p)
		}
	}
	for i := range s.nodes {
		s.route(i)
	}
	return s
}

// route tells a node where the groups are.
func (s *spread) route(node int) {
	owners := evenOwners(len(s.places[node]))
	s.nodes[node].engine.SetRoutes(engine.Routes{Owners: owners, Groups: s.places[node]})
}

// near is the node that is asked for all.
func (s *spread) near() *Node { return s.nodes[0] }

// put stores rows in both, with acqs that are consecutive.
func (s *spread) put(b *record.Batch) {
	s.Helper()
	first := max(s.last+1, s.clock.Load())
	s.clock.Store(first + int64(b.Len()) + int64(time.Second))
	parts := make([]record.Batch, len(s.stores))
	var all record.Batch
	for i := range b.Len() {
		k, g := b.Key(i), slots.OwnerOf(slots.Of(b.CID[i], b.MID[i]), len(s.stores))
		k.AcqNs = first + int64(i)
		for _, to := range []*record.Batch{&all, &parts[g]} {
			if b.Tomb(i) {
				to.AppendStampedTomb(k)
			} else {
				to.AppendStamped(k, b.Record(i).Payload)
			}
		}
	}
	s.last = first + int64(b.Len()) - 1
	if _, err := s.whole.PutStamped(s.Context(), &all); err != nil {
		s.Fatal(err)
	}
	for g := range parts {
		if parts[g].Len() == 0 {
			continue
		}
		if _, err := s.stores[g].PutStamped(s.Context(), &parts[g]); err != nil {
			s.Fatal(err)
		}
	}
}

// erase hides a box in both.
func (s *spread) erase(box record.Box) {
	s.Helper()
	s.last = s.clock.Add(int64(10 * time.Second))
	if _, err := s.whole.Erase(s.Context(), box); err != nil {
		s.Fatal(err)
	}
	for _, st := range s.stores {
		if _, err := st.Erase(s.Context(), box); err != nil {
			s.Fatal(err)
		}
	}
	s.clock.Add(int64(10 * time.Second))
}

// purge removes a box from both.
func (s *spread) purge(box record.Box) {
	s.Helper()
	s.clock.Add(int64(10 * time.Second))
	if _, err := s.whole.Purge(s.Context(), box); err != nil {
		s.Fatal(err)
	}
	for _, st := range s.stores {
		if _, err := st.Purge(s.Context(), box); err != nil {
			s.Fatal(err)
		}
	}
	s.clock.Add(int64(10 * time.Second))
}

// fill puts readings, corrections, tombstones and an erase, some of them sealed.
func (s *spread) fill(rng *rand.Rand, batches int) {
	s.Helper()
	for i := range batches {
		var b record.Batch
		for range 2000 {
			k := record.Key{CID: rng.Int32N(3), MID: rng.Int64N(3000), MOID: rng.Int32N(3),
				CapNs: rng.Int64N(300) * int64(time.Hour)}
			if rng.IntN(50) == 0 {
				b.AppendTomb(k)
			} else {
				b.Append(k, f64(float64(rng.IntN(1000)-500)))
			}
		}
		s.put(&b)
		if i == batches/2 {
			s.erase(record.Box{record.MID: {{From: 100, To: 300}}})
		}
	}
}

// makeQuery makes up a query for rows.
func (s *spread) makeQuery(rng *rand.Rand) *record.Query {
	q := randomQuery(rng)
	q.GroupBy = record.GroupBy{}
	if q.Box[record.MID] != nil {
		from := rng.Int64N(3000)
		q.Box[record.MID] = record.RangeSet{{From: from, To: from + 1 + rng.Int64N(300)}}
	}
	switch rng.IntN(5) {
	case 0:
		q.View, q.AsOfAcqNs = record.ViewAsOf, s.last-rng.Int64N(int64(60*time.Second))
	case 1:
		q.View, q.Last = record.ViewLatest, 1+rng.Uint32N(3)
	}
	for i := range rng.IntN(3) {
		q.Filters = append(q.Filters, thresholds(s.T, s.whole, fmt.Sprintf("value=%d,op=%s",
			rng.IntN(400)-200, []string{"ge", "le"}[i]))...)
	}
	return q
}

func TestRowsOfManySources(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	s := openSpread(t, 5, 3)
	s.fill(rng, 8)
	near := dial(t, s.near())
	found := 0
	for i := 0; i < fewer(90) || found == 0; i++ {
		if i == 2000 {
			t.Fatal("no query found anything")
		}
		q := s.makeQuery(rng)
		q.Order, q.KeysOnly = record.Order(rng.IntN(3)), rng.IntN(4) == 0
		if rng.IntN(2) == 0 {
			q.Limit = 1 + rng.Uint64N(300)
		}
		what := fmt.Sprintf("query %d: %s", i, engine.QueryText(q))
		want, wantEnd := s.rows(s.whole, q)
		got, end := s.rows(s.near(), q)
		cut := q.Order == record.OrderNone && q.Limit > 0 // then sources are not read to their ends
		if !end.Complete || end.Rows != wantEnd.Rows ||
			end.HistoryChangedAcqNs != wantEnd.HistoryChangedAcqNs ||
			!cut && (end.HorizonNs <= s.last || end.HorizonNs > s.clock.Load()) {
			t.Fatalf("%s: end %+v, want %+v", what, end, wantEnd)
		}
		found += len(got)
		if q.Order == record.OrderNone && q.Limit == 0 {
			slices.Sort(got)
			slices.Sort(want)
		}
		if cut {
			got, want = got[:0], want[:0] // any will do, and their number was compared
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s: %d rows, want %d, or others", what, len(got), len(want))
		}
		q.Limit, q.Order = 0, record.OrderNone
		wantCount, _, err := s.whole.Count(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if count, _, err := near.Count(t.Context(), q); err != nil || count != wantCount {
			t.Fatalf("%s: count %d, want %d, %v", what, count, wantCount, err)
		}
	}
}

// fewer is a number of rounds: all in make test-long, half of them, with -short a fifth.
func fewer(all int) int { return rounds.Of(all, (all+3)/4, all/5) }

// rows returns the rows of an answer as texts.
func (s *spread) rows(n *Node, q *record.Query) (rows []string, end wire.End) {
	s.Helper()
	asked := *q
	end, err := n.Query(s.Context(), &asked, func(b *record.Batch) error {
		for i := range b.Len() {
			r := b.Record(i)
			rows = append(rows, fmt.Sprintf("%+v %v %x", r.Key, r.Tomb, r.Payload))
		}
		return nil
	})
	if err != nil {
		s.Fatalf("%s: %v", engine.QueryText(q), err)
	}
	return rows, end
}

func TestGroupsOfManySources(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	s := openSpread(t, 4, 3)
	s.fill(rng, 8)
	s.groupsAgree(rng, fewer(60))
}

// groupsAgree asks for groups, which are those of the one node that has all.
func (s *spread) groupsAgree(rng *rand.Rand, rounds int) {
	s.Helper()
	t, found := s.T, 0
	for i := 0; i < rounds || found == 0; i++ {
		if i == 2000 {
			t.Fatal("no query found anything")
		}
		q := s.makeQuery(rng)
		q.GroupBy = randomQuery(rng).GroupBy
		plugins := []string{"stats", "count", "delta", "first-last"}
		q.Aggregate.Name = plugins[rng.IntN(len(plugins))]
		if q.Aggregate.Name == "delta" { // of readings of one series in each group
			q.GroupBy.CID, q.GroupBy.MID, q.GroupBy.MOID = true, true, true
			if q.View == record.ViewAll {
				q.View = record.ViewLatest
			}
		}
		if rng.IntN(3) == 0 {
			q.Limit = 1 + rng.Uint64N(20)
		}
		what := fmt.Sprintf("query %d: %s, by %+v", i, engine.QueryText(q), q.GroupBy)
		want, wantEnd, err := s.whole.Aggregate(t.Context(), q)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		got, end, err := s.near().Aggregate(t.Context(), q)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if end.Rows != wantEnd.Rows || !end.Complete || len(got) != len(want) {
			t.Fatalf("%s: %d groups, %+v, want %d, %+v", what, len(got), end, len(want), wantEnd)
		}
		for k := range got {
			if q.Aggregate.Name == "stats" { // mean and variance depend on the order of merges
				for _, field := range []int{4, 5} {
					w := math.Float64frombits(binary.LittleEndian.Uint64(want[k].Result[8*field:]))
					if !near(got[k].Result[8*field:], w) && !math.IsNaN(w) {
						t.Fatalf("%s: field %d of group %d is not %g", what, field, k, w)
					}
				}
				got[k].Result, want[k].Result = got[k].Result[:32], want[k].Result[:32]
			}
			if fmt.Sprintf("%+v", got[k]) != fmt.Sprintf("%+v", want[k]) {
				t.Fatalf("%s: group %d is %+v, want %+v", what, k, got[k], want[k])
			}
		}
		found += len(got)
	}
}
