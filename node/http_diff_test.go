package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// history puts a reading, corrects it, deletes another and erases a third, and returns an acq from
// before the changes.
func (a *asker) history() (beforeNs int64) {
	a.Helper()
	put := func(lines string) {
		a.expect("POST", "/v1/records?type=f64", lines, 200)
	}
	put(`{"cid":1,"mid":1,"moid":1,"cap":1000,"value":1}
{"cid":1,"mid":2,"moid":1,"cap":1000,"value":2}
{"cid":1,"mid":3,"moid":1,"cap":1000,"value":3}
{"cid":1,"mid":4,"moid":1,"cap":1000,"value":4}`)
	beforeNs, err := a.node.Horizon(a.Context())
	if err != nil {
		a.Fatal(err)
	}
	put(`{"cid":1,"mid":1,"moid":1,"cap":1000,"value":1.5}
{"cid":1,"mid":2,"moid":1,"cap":1000,"deleted":true}
{"cid":1,"mid":4,"moid":1,"cap":1000,"value":4}
{"cid":1,"mid":5,"moid":1,"cap":1000,"value":5}`)
	a.expect("POST", "/v1/erase?cid=1&mid=3", "", 200)
	return beforeNs
}

// TestDiffForPeople asks for differences, versions and views with parameters, and is told what is
// wrong with others.
func TestDiffForPeople(t *testing.T) {
	a := &asker{t, openTest(t, Options{})}
	before := a.history()
	got := a.expect("GET", fmt.Sprintf("/v1/diff?cid=1&from=%d&type=f64", before), "", 200,
		`{"change":"changed","cid":1,"mid":1,"moid":1,"cap":"1970-01-01T00:00:00.000001000Z",`+
			`"cap_ns":1000,"acq":"`, `"value":1.5,"old_acq":"`, `,"old_acq_ns":`, `"old_value":1}`,
		`{"change":"deleted","cid":1,"mid":2,`, `"deleted":true,"old_acq":`, `"old_value":2}`,
		`{"change":"deleted","cid":1,"mid":3,`, `"old_value":3}`,
		`{"change":"added","cid":1,"mid":5,`, `"value":5}`,
		`{"differences":[`, `"end":{"complete":true,"rows":4,"horizon_ns":`)
	if strings.Contains(got, `"mid":4`) || strings.Contains(got, `"value":5,"old`) {
		t.Errorf("a reading that was put again as it was differs: %s", got)
	}
	a.expect("GET", fmt.Sprintf("/v1/diff?cid=1&from=%d&to=now&limit=1", before), "", 200,
		`"rows":1,`)
	one := a.expect("GET", fmt.Sprintf("/v1/diff?cid=1&from=%d&to=now&limit=1&format=ndjson",
		before), "", 200, `{"change":"`)
	if strings.Count(one, "\n") != 1 {
		t.Errorf("a line: %s", one)
	}
	a.expect("GET", fmt.Sprintf("/v1/diff?cid=1&from=%d&to=%d", before, before), "", 200,
		`{"differences":[],"end":{"complete":true,"rows":0,`)
	a.expect("GET", "/v1/diff?cid=1", "", 400, "from: is missing")
	a.expect("GET", "/v1/diff?from=5&to=4", "", 400, `"part":"to"`, "4 lies before 5")
	a.expect("GET", "/v1/diff?from=5&to=x", "", 400, `"part":"to"`)
	a.expect("GET", "/v1/diff?from=5&to=now%2B1h", "", 400, `"part":"to"`, "is in the future")
	a.expect("GET", "/v1/diff?from=5&to=now%2B5s", "", 200) // by a clock that is ahead
	a.expect("GET", "/v1/diff?from=-9223372036854775808", "", 200)
	a.expect("GET", "/v1/diff?from=now%2B1h", "", 400, `"part":"from"`, "is in the future")
	a.expect("GET", "/v1/diff?from=5&acq=4", "", 400, `unknown parameter \"acq\"; `)
	a.expect("GET", "/v1/diff?from=5&type=f16", "", 400, `\"f16\" is not f64`)

	a.expect("GET", "/v1/versions?cid=1&mid=1&type=f64", "", 200, `{"versions":[`,
		`"value":1,"latest":false}`, `"value":1.5,"latest":true}`,
		`"end":{"complete":true,"rows":2,`)
	a.expect("GET", "/v1/versions?cid=1&mid=2&type=f64", "", 200, `"deleted":true,"latest":true}`)
	a.expect("GET", "/v1/versions?cid=1&mid=3&type=f64&format=ndjson", "", 200,
		`"value":3,"latest":false,"erased":"20`, `Z","erased_ns":`)
	a.expect("GET", "/v1/versions", "", 400, "everything=1 selects all")
	a.expect("GET", "/v1/versions?everything=1", "", 200, `"rows":8,`)
	a.expect("GET", "/v1/versions?mid=1&acq=5", "", 400, `unknown parameter \"acq\"`)

	a.expect("GET", "/v1/latest?cid=1&order=key&type=f64", "", 200, `"rows":3,`, `"value":1.5}`)
	a.expect("GET", fmt.Sprintf("/v1/asof?at=%d&cid=1&type=f64", before), "", 200, `"rows":4,`,
		`"value":2}`, `"value":3}`)
	a.expect("GET", fmt.Sprintf("/v1/asof?at=%d&last=1&mid=1..3&type=f64", before), "", 200,
		`"rows":2,`)
	a.expect("GET", "/v1/asof?cid=1", "", 400, "at: is missing; name the time")
	a.expect("GET", "/v1/asof?at=5&view=all", "", 400, `unknown parameter \"view\"`)
	a.expect("GET", "/v1/asof?at=5&asof=5", "", 400, `unknown parameter \"asof\"`)
	a.expect("GET", "/v1/latest?asof=5", "", 400, `unknown parameter \"asof\"`)
	a.expect("GET", "/v1/latest?order=size", "", 400, `\"size\" is not none, acq or key`)
}

// TestDiffByFrames asks the same as a program.
func TestDiffByFrames(t *testing.T) {
	a := &asker{t, openTest(t, Options{ResultBytes: 2000})}
	before := a.history()
	c := dial(t, a.node)
	got := map[int64]string{}
	for d, err := range c.Diff(t.Context(), &record.Diff{FromNs: before, ToNs: record.Acq.Max()}) {
		if err != nil {
			t.Fatal(err)
		}
		got[d.New.MID] = fmt.Sprintf("%v %x %v %x %v", d.Kind, d.Old.Payload, d.New.Tomb,
			d.New.Payload, d.New.AcqNs > before && d.Old.AcqNs < before)
	}
	want := map[int64]string{
		1: fmt.Sprintf("changed %x false %x true", f64(1), f64(1.5)),
		2: fmt.Sprintf("deleted %x true  true", f64(2)),
		3: fmt.Sprintf("deleted %x true  true", f64(3)),
		5: fmt.Sprintf("added  false %x true", f64(5)),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("differences %v, want %v", got, want)
	}
	one := &wire.Box{Box: record.Box{record.MID: {record.At(3)}}}
	versions := 0
	for v, err := range c.Versions(t.Context(), one) {
		if err != nil || v.Latest || v.HiddenAcqNs <= before || v.MID != 3 {
			t.Errorf("version %+v, %v", v, err)
		}
		versions++
	}
	if versions != 1 {
		t.Errorf("%d versions", versions)
	}
	for range c.Diff(t.Context(), &record.Diff{ToNs: before}) {
		break // one is enough
	}
	for _, err := range c.Diff(t.Context(), &record.Diff{FromNs: 2, ToNs: 1}) {
		if invalid := new(record.InvalidError); !errors.As(err, &invalid) {
			t.Errorf("a diff that runs backwards: %v", err)
		}
	}
	for _, err := range c.Versions(t.Context(), &wire.Box{}) {
		if invalid := new(record.InvalidError); !errors.As(err, &invalid) {
			t.Errorf("versions of everything: %v", err)
		}
	}
	for range 10 {
		a.history()
	}
	var remote *wire.Error
	for _, err := range c.Versions(t.Context(), &wire.Box{Everything: true}) {
		if !errors.As(err, &remote) || remote.Kind != wire.KindTooLarge {
			t.Errorf("more versions than fit: %v", err)
		}
	}
	for body, want := range map[string]string{"": "end inside a frame header",
		string(wire.AppendBox(nil, one)): "frame of type 8 where type 16 belongs"} {
		if status, answer := post(t, a.node, "POST", "/v1/diff", wire.ContentType,
			[]byte(body)); status != 400 || !strings.Contains(string(answer), want) {
			t.Errorf("status %d: %s", status, answer)
		}
	}
}

// pastAnswers are what a node says of a moment, in every way that it can be asked.
type pastAnswers struct {
	Count, Filtered, Last uint64
	Groups                map[string]string // by plugin
	Records               string
}

// and says in what answers differ.
func (p *pastAnswers) and(o *pastAnswers) string {
	return fmt.Sprintf("%d, %d, %d rows, and later %d, %d, %d; groups %v, and later %v; "+
		"records are the same: %v", p.Count, p.Filtered, p.Last, o.Count, o.Filtered, o.Last,
		p.Groups, o.Groups, p.Records == o.Records)
}

func askPast(t *testing.T, n *Node, c *client.Client, q record.Query) (out pastAnswers) {
	out.Groups = map[string]string{}
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	out.Count, _, err = c.Count(t.Context(), &q)
	check(err)
	last := q
	last.Last = 2
	out.Last, _, err = c.Count(t.Context(), &last)
	check(err)
	above, err := parseCallOf(t, n, "threshold", "value=50")
	check(err)
	filtered := q
	filtered.Filters = []record.PluginCall{above}
	out.Filtered, _, err = c.Count(t.Context(), &filtered)
	check(err)
	for name, exact := range map[string]int{"stats": 32, "distinct": math.MaxInt} {
		call, err := parseCallOf(t, n, name, "")
		check(err)
		aggregate := q
		aggregate.Aggregate, aggregate.GroupBy = call, record.GroupBy{CID: true, MOID: true}
		groups, _, err := c.Aggregate(t.Context(), &aggregate)
		check(err)
		for _, g := range groups { // mean and variance of stats depend on how rows lie
			result := g.Result[:min(len(g.Result), exact)]
			out.Groups[name] += fmt.Sprintf("%d/%d: %d, %x\n", g.CID, g.MOID, g.Records, result)
		}
	}
	q.Order = record.OrderKey
	for r, err := range c.Query(t.Context(), &q) {
		check(err)
		out.Records += fmt.Sprintf("%v %x\n", r.Key, r.Payload)
	}
	return out
}

// TestAsOfStays asks for past states in every way: what a node said of a moment it says later, too,
// after more writes, corrections, tombstones, erases, merges and restarts.
func TestAsOfStays(t *testing.T) {
	rounds.NotUnderRace(t, "a model in one goroutine")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 6))
	opt := Options{Dir: t.TempDir(), Store: store.Options{SealRows: 800, Shards: 2}}
	n, c := openTest(t, opt), (*client.Client)(nil)
	c = dial(t, n)
	type moment struct {
		query record.Query
		said  pastAnswers
	}
	var moments []moment
	for step := range 18 {
		var b record.Batch
		for range 200 {
			k := record.Key{CID: int32(rng.IntN(3)), MID: rng.Int64N(20), MOID: int32(rng.IntN(2)),
				CapNs: rng.Int64N(30)}
			if rng.IntN(10) == 0 {
				b.AppendTomb(k)
			} else {
				b.Append(k, f64(float64(rng.IntN(100)))) // sums of these are exact in any order
			}
		}
		if _, err := c.Put(t.Context(), &b, [16]byte{}, 0); err != nil {
			t.Fatal(err)
		}
		switch step % 6 {
		case 1:
			box := record.Box{record.MID: {record.At(rng.Int64N(20))}}
			if _, err := c.Erase(t.Context(), &wire.Box{Box: box}); err != nil {
				t.Fatal(err)
			}
		case 3:
			if err := n.store.WaitForMerges(t.Context()); err != nil {
				t.Fatal(err)
			}
		case 5:
			if err := errors.Join(c.Close(), n.Close(context.Background())); err != nil {
				t.Fatal(err)
			}
			n = openTest(t, opt)
			c = dial(t, n)
		}
		horizon, err := c.Horizon(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		m := moment{query: record.Query{View: record.ViewAsOf, AsOfAcqNs: horizon}}
		if rng.IntN(2) == 0 {
			from := rng.Int64N(15)
			m.query.Box[record.Cap] = record.RangeSet{{From: from, To: from + 10}}
		}
		m.said = askPast(t, n, c, m.query)
		moments = append(moments, m)
		old := moments[rng.IntN(len(moments))]
		if now := askPast(t, n, c, old.query); !reflect.DeepEqual(now, old.said) {
			t.Fatalf("step %d: as of %d %s", step, old.query.AsOfAcqNs, old.said.and(&now))
		}
	}
	for _, old := range moments {
		if now := askPast(t, n, c, old.query); !reflect.DeepEqual(now, old.said) {
			t.Fatalf("at the end: as of %d %s", old.query.AsOfAcqNs, old.said.and(&now))
		}
	}
}

// TestLargeDifferences corrects and deletes payloads up to the limit: both of a pair fit a frame.
func TestLargeDifferences(t *testing.T) {
	rounds.NotUnderRace(t, "its work is that of other answers, with more bytes")
	n := openTest(t, Options{})
	db := dial(t, n)
	noise := rand.NewChaCha8([32]byte{2})
	want := map[int64][2][]byte{}
	var moment int64
	sizes := []int{3 << 20, record.MaxPayloadBytes, 9 << 20}
	if testing.Short() {
		sizes = []int{3 << 20, 5 << 20, 1 << 20}
	}
	for round := range 2 {
		for mid, size := range sizes {
			payload := make([]byte, size-round)
			_, _ = noise.Read(payload) // never fails
			pair := want[int64(mid)]
			pair[round] = payload
			want[int64(mid)] = pair
			var b record.Batch
			b.Append(record.Key{CID: 1, MID: int64(mid)}, payload)
			if _, err := db.Put(t.Context(), &b, [16]byte{}, 0); err != nil {
				t.Fatal(err)
			}
		}
		if round == 0 {
			var err error
			if moment, err = db.Horizon(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(when string) {
		t.Helper()
		changed, versions := 0, 0
		for d, err := range db.Diff(t.Context(), &record.Diff{FromNs: moment,
			ToNs: record.Acq.Max()}) {
			if err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			pair := want[d.New.MID]
			if !bytes.Equal(d.Old.Payload, pair[0]) || !bytes.Equal(d.New.Payload, pair[1]) {
				t.Errorf("%s: payloads of %d differ", when, d.New.MID)
			}
			changed++
		}
		for v, err := range db.Versions(t.Context(), &wire.Box{Everything: true}) {
			if err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			if !bytes.Equal(v.Payload, want[v.MID][versions%2]) || v.Latest != (versions%2 == 1) {
				t.Errorf("%s: version %d of %d differs", when, versions%2, v.MID)
			}
			versions++
		}
		if changed != 3 || versions != 6 {
			t.Errorf("%s: %d differences, %d versions", when, changed, versions)
		}
	}
	check("in the head")
	if err := n.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("sealed")
}
