package node

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestExplain: what the client reads is what the node says, of the rows that a count finds.
func TestExplain(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	n := openTest(t, Options{Store: store.Options{Shards: 2}})
	c := dial(t, n)
	fill(t, c, rand.New(rand.NewPCG(seed, 6)), 5000)
	if err := n.store.WaitForMerges(t.Context()); err != nil {
		t.Fatal(err)
	}
	few := &record.Query{Order: record.OrderKey, Limit: 5,
		Box: record.Box{record.MID: {{From: 100, To: 300}}}}
	for _, q := range []*record.Query{{}, few, {View: record.ViewLatest},
		{View: record.ViewLatest, Last: 1}, {View: record.ViewAsOf, AsOfAcqNs: 1}} {
		got, err := c.Explain(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		count, _, err := c.Count(t.Context(), q)
		if err != nil || count != got.Found || got.TookNs < got.PlanNs {
			t.Errorf("count %d, %v: %+v", count, err, got)
		}
		want, err := n.Explain(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		want.HorizonNs, want.PlanNs, want.TookNs = got.HorizonNs, got.PlanNs, got.TookNs
		if !reflect.DeepEqual(got, want) {
			t.Errorf("the client has %+v, the node said %+v", got, want)
		}
	}
	bad := &record.Query{Box: record.Box{{{From: 2, To: 1}}}}
	if _, err := c.Explain(t.Context(), bad); err == nil {
		t.Error("a reversed range is explained")
	}
}

// TestExplainForPeople takes a query for records as it stands, and says what it leaves aside.
func TestExplainForPeople(t *testing.T) {
	n := openTest(t, Options{})
	a := &asker{t, n}
	a.expect("POST", "/v1/records?type=f64", `{"cid":1,"mid":1,"moid":1,"cap":1,"value":1}`, 200)
	a.expect("GET", "/v1/explain", "", 200, `"rows_found":1`, `"segments":[]`, `"ignored":[]`,
		`"heads":1,"head_rows":1,"head_rows_found":1`)
	a.expect("GET", "/v1/explain?cid=2", "", 200, `"rows_found":0`)
	a.expect("GET", "/v1/explain?filter=threshold&filter_params=value=5&order=key&limit=3&"+
		"type=f64&format=ndjson&keys=1&last=2", "", 200, `"rows_found":1`,
		`"ignored":["filter","order","limit"]`)
	a.expect("GET", "/v1/explain?group=mid", "", 400, `unknown parameter \"group\"`)
	a.expect("GET", "/v1/explain?type=f65", "", 400, `"part":"type"`)
	a.expect("GET", "/v1/explain?format=xml", "", 400, `"part":"format"`)
	a.expect("POST", "/v1/explain", "?", 400, `"code":"bad-frame"`)
	q := &record.Query{Aggregate: record.PluginCall{Name: "stats"}}
	status, answer := post(t, n, "POST", "/v1/explain", wire.ContentType, wire.AppendQuery(nil, q))
	if status != 200 || !strings.Contains(string(answer), `"ignored":["aggregate"]`) {
		t.Errorf("an aggregate: %d %s", status, answer)
	}
	status, answer = post(t, n, "POST", "/v1/explain", wire.ContentType, []byte("P"))
	if status != 400 || kindOfAnswer(t, answer) != wire.KindBadFrame {
		t.Errorf("a broken frame: %d %q", status, answer)
	}
}
