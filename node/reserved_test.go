package node

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/retention"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// reservedMOIDs are moids around where reserved ones end.
var reservedMOIDs = []int32{math.MinInt32, record.DeviceNameMOID + 1, record.FirstMOID - 1,
	record.FirstMOID, -1, 0, 7}

// withReserved is a node with a record of each moid and device, and a client of it.
func withReserved(t *testing.T) (*Node, *remote) {
	t.Helper()
	n := openTest(t, Options{Store: store.Options{Shards: 2}})
	c, err := client.Dial(t.Context(), n.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	for mid := range int64(3) {
		b := new(record.Batch)
		for _, moid := range reservedMOIDs {
			b.AppendRecord(record.Record{Key: record.Key{CID: 1, MID: mid, MOID: moid, CapNs: 5},
				Payload: []byte("x")})
		}
		// Batches of persistent writers are stored as they are.
		w := store.WriterSeq{ID: [16]byte{1}, Seq: uint64(mid) + 1, Persistent: true}
		if _, err := n.Put(t.Context(), b, w); err != nil {
			t.Fatal(err)
		}
		if mid == 1 { // some rows in segments, some in heads
			if err := n.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	return n, &remote{t, c}
}

// moidsOf returns the moids of a batch that are new.
func moidsOf(all []int32, b *record.Batch) []int32 {
	for _, moid := range b.MOID[:b.Len()] {
		if !slices.Contains(all, moid) {
			all = append(all, moid)
		}
	}
	return all
}

// TestMeaninglessMOIDs puts records of moids that are reserved and mean nothing.
func TestMeaninglessMOIDs(t *testing.T) {
	n := openTest(t, Options{})
	a := &asker{t, n}
	for moid := int32(math.MinInt32); moid <= record.FirstMOID; moid++ {
		var b record.Batch
		b.Append(record.Key{CID: 1, MID: 7, MOID: moid, CapNs: 5}, []byte("x"))
		_, err := n.Put(t.Context(), &b, store.WriterSeq{})
		var invalid *record.InvalidError
		if refused := errors.As(err, &invalid); refused != (moid > math.MinInt32 &&
			moid < record.FirstMOID) {
			t.Errorf("moid %d: %v", moid, err)
		}
		if moid > record.DeviceNameMOID && moid < record.FirstMOID {
			if invalid == nil || invalid.Part != "moid" {
				t.Errorf("moid %d: %v", moid, err)
			}
			row := fmt.Sprintf(`{"cid":1,"mid":7,"moid":%d,"cap":1,"payload":"eA=="}`, moid)
			a.expect("POST", "/v1/records", row, 422, "which are reserved, and means nothing yet; "+
				"use -2147483632 and above")
		}
	}
}

// TestReservedMOIDs asks random boxes in every way and compares with the moids that are put: a box
// that does not restrict moid has no reserved ones.
func TestReservedMOIDs(t *testing.T) {
	n, c := withReserved(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 30 {
		var box record.Box
		var want []int32
		a, b := rng.IntN(len(reservedMOIDs)), rng.IntN(len(reservedMOIDs))
		switch rng.IntN(3) {
		case 0:
			want = reservedMOIDs[3:]
		case 1:
			box, want = record.Everything(), reservedMOIDs
		default:
			a, b = min(a, b), max(a, b)
			want = reservedMOIDs[a : b+1]
			box[record.MOID] = record.RangeSet{{From: int64(want[0]),
				To: int64(want[len(want)-1]) + 1}}
		}
		for way, got := range waysToAsk(t, n, c, box) {
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s of %v: moids %v, want %v", way, box[record.MOID], got, want)
			}
		}
		for _, asked := range []func(context.Context, *record.Query) (uint64, wire.End, error){
			n.Count, c.Count} {
			count, _, err := asked(t.Context(), &record.Query{Box: box})
			if err != nil || count != uint64(3*len(want)) {
				t.Errorf("count of %v: %d, %v, want %d", box[record.MOID], count, err, 3*len(want))
			}
		}
	}
}

// waysToAsk returns the moids that each kind of question has found.
func waysToAsk(t *testing.T, n *Node, c *remote, box record.Box) map[string][]int32 {
	t.Helper()
	out := map[string][]int32{}
	take := func(way string) func(b *record.Batch) error {
		return func(b *record.Batch) error {
			out[way] = moidsOf(out[way], b)
			return nil
		}
	}
	horizon, err := n.Horizon(t.Context())
	check := func(_ any, failed error) {
		if failed != nil && err == nil {
			err = failed
		}
	}
	check(n.Query(t.Context(), &record.Query{Box: box}, take("query")))
	check(c.Scan(t.Context(), &record.Query{Box: box, View: record.ViewLatest}, take("scan")))
	check(n.Changes(t.Context(), &record.Query{Box: box}, 0, false, func(s *store.Slice) error {
		return take("feed")(&s.Rows)
	}))
	for b, err := range c.PastChanges(t.Context(), &record.Query{Box: box}, 0) {
		if check(nil, err); b.Rows != nil {
			check(nil, take("client's feed")(b.Rows))
		}
	}
	diff := record.Diff{Box: box, ToNs: horizon}
	check(n.Diff(t.Context(), &diff, func(d *record.Differences) error {
		return take("diff")(&d.New)
	}))
	for v, err := range c.Versions(t.Context(), &wire.Box{Box: box, Everything: true}) {
		check(nil, err)
		if !slices.Contains(out["versions"], v.MOID) {
			out["versions"] = append(out["versions"], v.MOID)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestReservedAreKept erases and expires everything: names stay, unless they are named.
func TestReservedAreKept(t *testing.T) {
	n, c := withReserved(t)
	a := &asker{t, n}
	left := func(reserved, others uint64) {
		t.Helper()
		all := &record.Query{Box: record.Everything(), View: record.ViewLatest}
		c.want(all, reserved+others, 0)
		c.want(&record.Query{View: record.ViewLatest}, others, 0)
	}
	left(9, 12)
	a.expect("POST", "/v1/erase?everything=1", "", 200)
	left(9, 0)
	a.expect("GET", "/v1/events", "", 200, `"box":{}`)
	if err := n.SetRetention(t.Context(), retention.Rule{MaxCapAgeNs: 1}); err != nil {
		t.Fatal(err)
	}
	left(9, 0)
	if _, err := n.Purge(t.Context(), record.Box{record.CID: {record.At(1)}}); err != nil {
		t.Fatal(err)
	}
	left(9, 0)
	a.expect("POST", "/v1/erase?moid=-2147483648..", "", 400, "everything=1")
	a.expect("POST", "/v1/erase?moid=-2147483648", "", 200)
	left(6, 0)
	a.expect("POST", "/v1/purge?moid=-2147483648..&everything=1", "", 200)
	left(0, 0)
	a.expect("GET", "/v1/events", "", 200, `"moid":"-2147483648.."`)
}

// TestReservedAreNotShown: JSON answers are what they were before there were reserved moids.
func TestReservedAreNotShown(t *testing.T) {
	n, _ := withReserved(t)
	a := &asker{t, n}
	a.expect("GET", "/v1/count", "", 200, `"records":12`)
	a.expect("GET", "/v1/count?moid=*", "", 200, `"records":12`)
	a.expect("GET", "/v1/count?moid=-2147483648..", "", 200, `"records":21`)
	a.expect("GET", "/v1/digest", "", 200, `"rows":21`)
	a.expect("GET", "/v1/digest?moid=0", "", 200, `"rows":3`)
	slices, _, err := n.Digest(t.Context(), record.Box{}, []int64{math.MinInt64, 1}, 0)
	if err != nil || slices[0].Rows != 0 {
		t.Errorf("%+v, %v", slices, err)
	}
	x, err := n.Explain(t.Context(), &record.Query{})
	if err != nil || x.Found != 12 {
		t.Errorf("%+v, %v", x, err)
	}
}

// TestReservedAreRepeated: a body with a key is compared with all that was stored of it.
func TestReservedAreRepeated(t *testing.T) {
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	n := openTest(t, Options{})
	body := devices(2) + `{"cid":1,"mid":0,"moid":-2147483648,"cap":1,"value":1}` + "\n"
	for i := range 2 {
		status, out := postLines(t, n, body, "names")
		if status != 200 || out.Written != 3 || out.Duplicate != (i == 1) {
			t.Errorf("put %d: %d, %+v", i+1, status, out)
		}
	}
	if status, _ := postLines(t, n, devices(3), "names"); status != 422 {
		t.Errorf("another body under the key: %d", status)
	}
}
