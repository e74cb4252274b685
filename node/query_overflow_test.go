package node

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/spill"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestGroupsBeyondMemory asks for the same groups while they fit and while they do not. Numbers are
// whole, so sums are exact in whatever order they are added.
func TestGroupsBeyondMemory(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 8))
	n := openTest(t, Options{Store: store.Options{Workers: 3, Shards: 1 << rng.IntN(3)}})
	n.engine.Limits.Spill = spill.New(filepath.Join(n.opt.Dir, "spill"), 4<<20)
	putMixed(t, n, rng, record.MaxBatchRecords)
	if err := n.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	putMixed(t, n, rng, 20_000)
	plugins := []string{"count", "first-last", "distinct", "quantiles", "delta", "top-k"}
	held, given := n.engine.Limits.MemoryGroups, 0
	for i := 0; i < fewer(40) || given == 0; i++ { // how many groups there are is chance
		if i == 2000 {
			t.Fatal("all fit into memory")
		}
		q := randomQuery(rng)
		q.Aggregate.Name = plugins[i%len(plugins)]
		switch q.Aggregate.Name {
		case "delta":
			q.GroupBy.CID, q.GroupBy.MID, q.GroupBy.MOID = true, true, true
			q.View = record.ViewLatest
		case "quantiles", "distinct": // as many as fit
			q.GroupBy.CapBucketNs, q.GroupBy.Window = 0, record.Window{}
			q.GroupBy.MOID = false
			q.Box[record.MID] = record.RangeSet{{From: 0, To: 200 * apart}}
		}
		if rng.IntN(3) == 0 {
			q.Limit = 1 + rng.Uint64N(300)
		}
		what := fmt.Sprintf("query %d: %s, by %+v, limit %d", i, engine.QueryText(q), q.GroupBy,
			q.Limit)
		n.engine.Limits.MemoryGroups = held
		want, wantEnd, err := n.Aggregate(t.Context(), q)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		n.engine.Limits.MemoryGroups = 1 + rng.IntN(200)
		got, end, err := n.Aggregate(t.Context(), q)
		if err != nil || end.Rows != wantEnd.Rows || len(got) != len(want) {
			t.Fatalf("%s: %d groups, %+v, %v, want %d", what, len(got), end, err, len(want))
		}
		for k := range got {
			if fmt.Sprintf("%+v", got[k]) != fmt.Sprintf("%+v", want[k]) {
				t.Fatalf("%s: group %d is %+v, want %+v", what, k, got[k], want[k])
			}
		}
		if len(got) > n.engine.Limits.MemoryGroups {
			given++
		}
	}
	nothingSpilled(t, n)
}

// TestGroupsOfManySourcesBeyondMemory: neither the sources nor the node that is asked hold more
// than a few.
func TestGroupsOfManySourcesBeyondMemory(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	s := openSpread(t, 4, 3)
	s.fill(rng, 8)
	for i, n := range s.nodes {
		n.engine.Limits.MemoryGroups = 1 + 10*i
	}
	s.groupsAgree(rng, fewer(40))
	for _, n := range s.nodes {
		nothingSpilled(t, n)
	}
}

// TestLargeStates of more groups than one instance has space for.
func TestLargeStates(t *testing.T) {
	rounds.NotUnderRace(t, "its work is that of other answers, with more bytes")
	n := openTest(t, Options{ResultBytes: 2 << 20})
	c := dial(t, n)
	const devices, each = 3000, 3
	for first := range int64(each) {
		b := new(record.Batch)
		for i := range int64(devices) {
			b.Append(record.Key{CID: 1, MID: i, CapNs: first}, f64(float64(i)))
		}
		if _, err := n.Put(t.Context(), b, store.WriterSeq{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"distinct", "quantiles"} {
		call, err := parseCallOf(t, n, name, "")
		if err != nil {
			t.Fatal(err)
		}
		groups, _, err := n.Aggregate(t.Context(), &record.Query{Aggregate: call,
			GroupBy: record.GroupBy{MID: true}})
		if err != nil || len(groups) != devices {
			t.Errorf("%s: %d groups, %v", name, len(groups), err)
		}
		for i, g := range groups {
			if g.MID != int64(i) || g.Records != each {
				t.Fatalf("%s: group %d is of device %d with %d records", name, i, g.MID, g.Records)
			}
		}
	}
	n.engine.Limits.ResultBytes = 1000 // what is streamed is not gathered
	q := &record.Query{Aggregate: record.PluginCall{Name: "distinct"},
		GroupBy: record.GroupBy{MID: true}}
	for _, limit := range []uint64{0, 2500} {
		q.Limit = limit
		groups, end, err := c.Aggregate(t.Context(), q)
		want := cmp.Or(int(limit), devices)
		if err != nil || len(groups) != want || end.Rows != uint64(want) || !end.Complete {
			t.Errorf("limit %d: %d groups, %+v, %v", limit, len(groups), end, err)
		}
	}
	if _, _, err := n.Aggregate(t.Context(), q); !errors.Is(err, nodeerror.ErrTooLarge) {
		t.Errorf("gathered: %v", err)
	}
	n.engine.Limits.MaxGroups = 2000
	_, _, err := c.Aggregate(t.Context(), q)
	if e := new(wire.Error); !errors.As(err, &e) || e.Kind != wire.KindPluginLimit {
		t.Errorf("too many: %v", err)
	}
	if n.engine.Limits.Spill.Stats().SpilledBytes == 0 {
		t.Error("all fit into memory")
	}
	nothingSpilled(t, n)
	eventually(t, "without queries", func() bool { return n.queries.Stats().Held == 0 })
}

// TestManyLargeLists: states that grow, of more meters than one instance has memory for.
func TestManyLargeLists(t *testing.T) {
	rounds.NotUnderRace(t, "its work is that of other answers, with more bytes")
	n := openTest(t, Options{ResultBytes: 2 << 20})
	const meters, each = 300, 4000 // of 16 bytes
	for m := range int64(meters) {
		b := new(record.Batch)
		for i := range int64(each) {
			k := record.Key{CID: 1, MID: m, MOID: 1, CapNs: i * int64(time.Hour)}
			b.Append(k, f64(float64(m*i)))
		}
		if _, err := n.Put(t.Context(), b, store.WriterSeq{}); err != nil {
			t.Fatal(err)
		}
	}
	call, err := parseCallOf(t, n, "delta", "")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(to int64) string {
		t.Helper()
		q := &record.Query{Aggregate: call, View: record.ViewLatest,
			GroupBy: record.GroupBy{CID: true, MID: true, MOID: true}}
		q.Box[record.MID] = record.RangeSet{{From: to - 1, To: to}}
		if to == meters {
			q.Box[record.MID] = nil
		}
		groups, _, err := n.Aggregate(t.Context(), q)
		if err != nil || to == meters && len(groups) != meters || to < meters && len(groups) != 1 {
			t.Fatalf("up to meter %d: %d groups, %v", to, len(groups), err)
		}
		if to == meters {
			groups = groups[9:10]
		}
		return fmt.Sprintf("%+v", groups)
	}
	if one, ofAll := ask(10), ask(meters); one != ofAll {
		t.Errorf("of one meter %s, among all %s", one, ofAll)
	}
	if n.engine.Limits.Spill.Stats().SpilledBytes == 0 {
		t.Error("all fit into memory")
	}
	nothingSpilled(t, n)
}
