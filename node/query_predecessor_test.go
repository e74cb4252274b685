package node

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/calendar"
	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestDeltaAcrossWindows asks what meters counted in windows, of boxes that begin anywhere, latest
// and as of moments, of data in segments and heads that came late and were corrected; and compares
// each answer with a loop over what a plain query shows.
func TestDeltaAcrossWindows(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 9))
	n := openTest(t, Options{Store: store.Options{Workers: 3, Shards: 1 << rng.IntN(3)}})
	var moments []int64
	for i := range 4 {
		moments = append(moments, putMeters(t, n, rng, 3000))
		if i == 1 {
			if err := n.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	rounds := 80
	if testing.Short() {
		rounds = 20
	}
	for range rounds {
		q := &record.Query{View: record.ViewLatest}
		if rng.IntN(2) == 0 {
			q.View, q.AsOfAcqNs = record.ViewAsOf, moments[rng.IntN(len(moments))]
		}
		if from := rng.Int64N(80 * 24); rng.IntN(4) > 0 {
			q.Box[record.Cap] = record.RangeSet{{From: meterEpochNs + from*int64(time.Hour),
				To: meterEpochNs + (from+1+rng.Int64N(1000))*int64(time.Hour)}}
		}
		if rng.IntN(2) == 0 {
			q.Box[record.MID] = record.RangeSet{{From: 3, To: 4 + rng.Int64N(9)}}
		}
		if rng.IntN(4) > 0 {
			q.GroupBy.Window = record.Window{Unit: record.WindowUnit(2 + rng.IntN(4)), N: 1,
				Zone: "Europe/Berlin"}
		}
		q.GroupBy = q.GroupBy.BySeries(&q.Box)
		checkDelta(t, n, q)
	}
}

const meterEpochNs = int64(1_772_000_000e9)

// putMeters stores readings of some meters, each of which may be a correction, and returns a moment
// when they were known and later ones were not.
func putMeters(t *testing.T, n *Node, rng *rand.Rand, rows int) int64 {
	t.Helper()
	var b record.Batch
	for range rows {
		hour := rng.Int64N(90 * 24)
		k := record.Key{CID: rng.Int32N(2), MID: rng.Int64N(12), MOID: 1,
			CapNs: meterEpochNs + hour*int64(time.Hour)}
		switch rng.IntN(60) {
		case 0:
			b.AppendTomb(k)
		case 1:
			b.Append(k, f64(math.NaN()))
		default:
			b.Append(k, f64(float64(hour*10+rng.Int64N(40))))
		}
	}
	ack, err := n.Put(t.Context(), &b, store.WriterSeq{})
	if err != nil {
		t.Fatal(err)
	}
	return ack.LastAcqNs + 1
}

// checkDelta compares the answer to a query with a loop.
func checkDelta(t *testing.T, n *Node, q *record.Query) {
	t.Helper()
	ask := *q
	ask.Aggregate.Name = "delta"
	groups, _, err := n.Aggregate(t.Context(), &ask)
	if err != nil {
		t.Fatalf("%s: %v", engine.QueryText(&ask), err)
	}
	want := deltaLoop(t, n, q)
	if len(groups) != len(want) {
		t.Fatalf("%s: %d groups, want %d", engine.QueryText(&ask), len(groups), len(want))
	}
	for _, g := range groups {
		w := want[groupOf{cid: g.CID, mid: g.MID, moid: g.MOID, cap: g.CapNs}]
		sum := math.Float64frombits(binary.LittleEndian.Uint64(g.Result))
		from := int64(binary.LittleEndian.Uint64(g.Result[16:]))
		if g.Records != w.records || sum != w.sum || from != w.fromNs {
			t.Fatalf("%s: %+v, sum %g from %d, want %+v", engine.QueryText(&ask), g, sum, from, w)
		}
	}
}

type counted struct {
	records uint64
	sum     float64
	fromNs  int64
}

// deltaLoop goes through the readings of each series from the first of all, and adds the rises to
// the windows that are asked for.
func deltaLoop(t *testing.T, n *Node, q *record.Query) map[groupOf]counted {
	t.Helper()
	rows := *q
	rows.GroupBy = record.GroupBy{}
	inside := record.All(record.Cap)
	if caps := q.Box[record.Cap]; len(caps) > 0 {
		inside = caps[0]
		rows.Box[record.Cap] = record.RangeSet{{From: record.Cap.Min(), To: inside.To}}
	}
	var all []record.Record
	_, err := n.Query(t.Context(), &rows, func(b *record.Batch) error {
		for i := range b.Len() {
			r := b.Record(i)
			r.Payload = slices.Clone(r.Payload)
			all = append(all, r)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b record.Record) int { return a.Key.Compare(b.Key) })
	cal, err := calendar.ForWindow(q.GroupBy.Window)
	if err != nil {
		t.Fatal(err)
	}
	out := map[groupOf]counted{}
	var last record.Record
	for _, r := range all {
		key, within := keyOfGroup(r.Key, q.GroupBy, cal), inside.Contains(r.CapNs)
		w := out[key]
		w.records++
		x := math.Float64frombits(binary.LittleEndian.Uint64(r.Payload))
		known := last.Payload != nil && last.CID == r.CID && last.MID == r.MID
		if !math.IsNaN(x) {
			if w.fromNs == 0 {
				if w.fromNs = r.CapNs; known {
					w.fromNs = last.CapNs
				}
			}
			if known {
				w.sum += max(0, x-math.Float64frombits(binary.LittleEndian.Uint64(last.Payload)))
			}
			last = r
		} else if !within {
			last = record.Record{} // the last one before a box says nothing
		}
		if within {
			out[key] = w
		}
	}
	return out
}

// groupOf is the key of a group.
type groupOf struct {
	cid, moid int32
	mid, cap  int64
}

func keyOfGroup(k record.Key, by record.GroupBy, cal *calendar.Calendar) (key groupOf) {
	if by.CID {
		key.cid = k.CID
	}
	if by.MID {
		key.mid = k.MID
	}
	if by.MOID {
		key.moid = k.MOID
	}
	if cal != nil {
		key.cap, _ = cal.Window(k.CapNs)
	} else if width := by.CapBucketNs; width > 0 {
		key.cap = k.CapNs - (k.CapNs%width+width)%width
	}
	return key
}

// A plugin that links predecessors needs one range of cap, and one series in a group.
func TestDeltaQueries(t *testing.T) {
	n := openTest(t, Options{})
	a := &asker{t, n}
	for i, at := range []string{"2026-01-31T22:00:00Z", "2026-02-01T02:00:00Z",
		"2026-03-05T00:00:00Z"} {
		putAt(t, n, record.Key{CID: 1, MID: 7, MOID: 1}, at, float64(10*i))
		putAt(t, n, record.Key{CID: 1, MID: 8, MOID: 1}, at, float64(i))
	}
	months := "/v1/windows?every=1mo&tz=Europe/Berlin&agg=delta"
	a.expect("GET", months+"&mid=7&cap=2026-02-01..2026-04-01", "", 200,
		`"records":1,"result":{"consumption":10,`, `"from_cap":"2026-01-31T22:00:00.000000000Z"`,
		`"start":"2026-03-01T00:00:00+01:00"`)
	a.expect("GET", months+"&mid=7&last=1", "", 200, `"result":{"consumption":0,`)
	a.expect("GET", "/v1/plugins/delta/run?mid=7&moid=1&cap=2026-02-01..&view=latest", "", 200,
		`"records":2,"result":{"consumption":20,`)
	a.expect("GET", months+"&limit=2", "", 200, `"mid":7`, `"rows":2`)
	a.expect("GET", months+"&group=cid", "", 200, `"windows":[{`)
	a.expect("GET", months+"&view=all", "", 400, `"part":"view"`, "ask for the latest")
	a.expect("GET", months+"&cap=2026-01,2026-03", "", 400, `"part":"cap"`, "one range of cap")
	a.expect("GET", "/v1/plugins/delta", "", 200, `"links_predecessors":true`)
	groups, end, err := n.Aggregate(t.Context(), &record.Query{View: record.ViewLatest,
		Aggregate: record.PluginCall{Name: "delta"},
		Box:       record.Box{record.MID: {record.At(9)}, record.Cap: {{From: 1, To: 1e18}}}})
	if err != nil || len(groups) != 0 || end.Rows != 0 {
		t.Errorf("nothing: %v, %+v, %v", []wire.Group(groups), end, err)
	}
}
