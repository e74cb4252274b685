package node

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/internal/calendar"
	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestPluginsAgainstLoops asks random queries with chains of filters and groups of data that lie
// in segments and heads, beside tombstones, versions and erased rows, and compares each answer with
// a loop over the rows that the same box and view show. Numbers are whole, so sums are exact in
// whatever order and cut into whatever batches they are added.
func TestPluginsAgainstLoops(t *testing.T) {
	rounds.NotUnderRace(t, "a model in one goroutine")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 7))
	n := openTest(t, Options{Store: store.Options{Workers: 3, Shards: 1 << rng.IntN(3),
		HeadShards: 1 + rng.IntN(7)}})
	putMixed(t, n, rng, 2*record.MaxBatchRecords)
	erased := record.Box{record.MID: {{From: 40, To: 45}}}
	if _, err := n.Erase(t.Context(), erased); err != nil {
		t.Fatal(err)
	}
	if err := n.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	putMixed(t, n, rng, 20_000)
	parallel := 0
	for round := range rounds.Of(60, 25, 5) {
		q := randomQuery(rng)
		if round == 0 { // of all there is, which is work for several
			q.Box, q.View = record.Box{}, record.ViewAll
		}
		bare := *q
		bare.GroupBy = record.GroupBy{}
		var rows []record.Record
		_, err := n.Query(t.Context(), &bare, func(b *record.Batch) error {
			for i := range b.Len() {
				if r := b.Record(i); !r.Tomb {
					r.Payload = append([]byte(nil), r.Payload...)
					rows = append(rows, r)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		limits := make([]limit, rng.IntN(4))
		for i := range limits {
			limits[i] = limit{rng.IntN(mixedNumbers), float64(rng.IntN(400))}
			call := thresholds(t, n, fmt.Sprintf("offset=%d,op=ge,value=%v", 8*limits[i].number,
				limits[i].least))
			q.Filters = append(q.Filters, call...)
		}
		number := rng.IntN(mixedNumbers)
		q.Aggregate = record.PluginCall{Name: "stats",
			Params: binary.LittleEndian.AppendUint64(make([]byte, 8), uint64(8*number))}
		x, err := n.Explain(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if x.Workers > 1 {
			parallel++
		}
		compareAnswers(t, n, q, rows, limits, number)
	}
	if parallel == 0 {
		t.Error("no query had more workers than one: nothing was merged")
	}
}

// mixedNumbers is how many numbers a payload has. Plugins look at one of them each.
const mixedNumbers = 3

// limit is what a filter keeps: rows with a number that is at least so large.
type limit struct {
	number int
	least  float64
}

func putMixed(t *testing.T, n *Node, rng *rand.Rand, rows int) {
	t.Helper()
	for rows > 0 {
		var b record.Batch
		for range min(rows, record.MaxBatchRecords) {
			k := record.Key{CID: rng.Int32N(3), MID: rng.Int64N(300) * apart, MOID: rng.Int32N(3),
				CapNs: rng.Int64N(5000) * int64(time.Minute)}
			if rng.IntN(50) == 0 {
				b.AppendTomb(k)
			} else {
				var payload []byte
				for range mixedNumbers {
					payload = append(payload, f64(float64(rng.IntN(1000)-500))...)
				}
				b.Append(k, payload)
			}
		}
		if _, err := n.Put(t.Context(), &b, store.WriterSeq{}); err != nil {
			t.Fatal(err)
		}
		rows -= b.Len()
	}
}

func randomQuery(rng *rand.Rand) *record.Query {
	coin := func() bool { return rng.IntN(2) == 0 }
	q := &record.Query{GroupBy: record.GroupBy{CID: coin(), MID: coin(), MOID: coin()}}
	if coin() {
		q.GroupBy.CapBucketNs = 1 + rng.Int64N(2000)*int64(time.Minute)
	} else if coin() {
		q.GroupBy.Window = record.Window{Unit: record.WindowUnit(1 + rng.IntN(6)),
			N: 1 + rng.Uint32N(24), Zone: "Australia/Lord_Howe"}
	}
	if coin() {
		q.View = record.ViewLatest
	}
	if coin() {
		q.Box[record.CID] = record.RangeSet{record.At(rng.Int64N(3))}
	}
	if from := rng.Int64N(300 * apart); coin() {
		q.Box[record.MID] = record.RangeSet{{From: from, To: from + 1 + rng.Int64N(100*apart)}}
	}
	if from := rng.Int64N(5000) * int64(time.Minute); coin() {
		q.Box[record.Cap] = record.RangeSet{{From: from, To: from + int64(40*time.Hour)}}
	}
	return q
}

// totals is what stats says of a group and what can be said exactly.
type totals struct {
	count         uint64
	sum, min, max float64
}

// compareAnswers counts, and aggregates a number, and does both itself on rows.
func compareAnswers(t *testing.T, n *Node, q *record.Query, rows []record.Record,
	limits []limit, number int) {
	t.Helper()
	cal, err := calendar.ForWindow(q.GroupBy.Window)
	if err != nil {
		t.Fatal(err)
	}
	want, kept := map[groupOf]totals{}, uint64(0)
next:
	for _, r := range rows {
		value := func(i int) float64 {
			return math.Float64frombits(binary.LittleEndian.Uint64(r.Payload[8*i:]))
		}
		for _, l := range limits {
			if value(l.number) < l.least {
				continue next
			}
		}
		v := value(number)
		kept++
		var k groupOf
		if q.GroupBy.CID {
			k.cid = r.CID
		}
		if q.GroupBy.MID {
			k.mid = r.MID
		}
		if q.GroupBy.MOID {
			k.moid = r.MOID
		}
		if cal != nil {
			k.cap, _ = cal.Window(r.CapNs)
		} else if q.GroupBy.CapBucketNs > 0 {
			k.cap = r.CapNs - r.CapNs%q.GroupBy.CapBucketNs // none is before 1970
		}
		g, ok := want[k]
		if !ok {
			g = totals{0, 0, math.Inf(1), math.Inf(-1)}
		}
		want[k] = totals{g.count + 1, g.sum + v, min(g.min, v), max(g.max, v)}
	}
	bare := *q
	bare.GroupBy, bare.Aggregate = record.GroupBy{}, record.PluginCall{}
	if len(limits) > 0 { // without filters tombstones are counted, too
		if count, _, err := n.Count(t.Context(), &bare); err != nil || count != kept {
			t.Fatalf("%s: %d rows, %v; want %d", engine.QueryText(q), count, err, kept)
		}
	}
	groups, _, err := n.Aggregate(t.Context(), q)
	if err != nil || len(groups) != len(want) {
		t.Fatalf("%s: %d groups, %v; want %d", engine.QueryText(q), len(groups), err, len(want))
	}
	for _, g := range groups {
		field := func(i int) uint64 { return binary.LittleEndian.Uint64(g.Result[8*i:]) }
		number := func(i int) float64 { return math.Float64frombits(field(i)) }
		got := totals{field(0), number(1), number(2), number(3)}
		w := want[groupOf{g.CID, g.MOID, g.MID, g.CapNs}]
		if got != w || g.Records != w.count {
			t.Fatalf("%s: %+v is %+v, want %+v", engine.QueryText(q), g, got, w)
		}
	}
}
