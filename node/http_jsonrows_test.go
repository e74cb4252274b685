package node

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/internal/admission"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// asker asks a node by HTTP and compares what people see.
type asker struct {
	*testing.T
	node *Node
}

func (a *asker) expect(method, path, body string, status int, parts ...string) string {
	a.Helper()
	got, answer := post(a.T, a.node, method, path, "application/json", []byte(body))
	if got != status {
		a.Errorf("%s %s: status %d, want %d: %s", method, path, got, status, answer)
	}
	for _, part := range parts {
		if !strings.Contains(string(answer), part) {
			a.Errorf("%s %s: %s lacks %s", method, path, answer, part)
		}
	}
	return string(answer)
}

// TestDoubledKeys: a key that is there twice is refused, in any body that is JSON. A body that must
// be frames says so.
func TestDoubledKeys(t *testing.T) {
	a := &asker{t, openTest(t, Options{})}
	const one = `{"cid":1,"mid":1,"moid":1,"cap":1,"value":5}`
	a.expect("POST", "/v1/records?type=f64", one+"\n"+strings.Replace(one, "}", `,"cap":2}`, 1),
		207, `"written":1`, `{"line":2,"message":"the key \"cap\" occurs twice`)
	a.expect("POST", "/v1/records?type=f64&atomic=1", "["+one+","+strings.Replace(one, "}",
		`,"Value":2}`, 1)+"]", 422, `on line 2: the key \"Value\" occurs twice`)
	a.expect("PUT", "/v1/quantities/1", `{"name":"a","type":"f64","name":"b"}`, 400,
		`the key \"name\" occurs twice`)
	a.expect("GET", "/v1/count", "", 200, `"records":1`)
	a.expect("POST", "/v1/count", `{"cid":1}`, 400, "this is JSON, expected a binary frame")
}

// TestParametersAreNotLeftAside refuses what would change a query or be ignored.
func TestParametersAreNotLeftAside(t *testing.T) {
	a := &asker{t, openTest(t, Options{})}
	a.expect("GET", "/v1/records?cid=", "", 400, `"part":"cid"`, "cid: is empty; give it a value")
	a.expect("GET", "/v1/records?cid=1&cid=2", "", 400, "cid: is given twice; separate values by")
	a.expect("GET", "/v1/records?format=xml", "", 400, `\"xml\" is not json, ndjson or csv`)
	a.expect("GET", "/v1/records?keys=all", "", 400, `keys: \"all\" is not 1 or 0`)
	a.expect("GET", "/v1/records?group=mid", "", 400,
		`unknown parameter \"group\"; there are cid, mid`)
	a.expect("GET", "/v1/count?limit=5", "", 400, `unknown parameter \"limit\"`)
	a.expect("GET", "/v1/count?filter_params=value=1", "", 400, "no filter precedes it")
	a.expect("GET", "/v1/count?filter_params=value=1&filter=threshold", "", 400,
		"no filter precedes it")
	a.expect("GET", "/v1/count?filter=threshold&filter_params=value=1&filter_params=op=le", "",
		400, "occurs twice for filter")
	a.expect("GET", "/v1/count?"+strings.Repeat("filter=threshold&filter_params=value=1&", 9), "",
		413, `"part":"filter"`, "9 filters, at most 8")
	a.expect("GET", "/v1/plugins/stats/run?type=f64", "", 400, "give where, too")
	a.expect("POST", "/v1/records?type=f64&atomc=1", "{}", 400,
		`unknown parameter \"atomc\"; did you mean atomic?`)
	a.expect("POST", "/v1/records?type=f64&atomic=all", "{}", 400, "is not 1 or 0")
	a.expect("GET", "/v1/records?filter=threshold&filter_params=x", "", 400,
		`"part":"filter_params"`, "write name=value")
	a.expect("GET", "/v1/count?filter=threshold&filter_params=value=1,value=2", "", 400,
		"each once")
	a.expect("GET", "/v1/records?filter=stats", "", 400, `"part":"filter"`, "not a filter")
	a.expect("GET", "/v1/plugins/threshold/run?params=value=1", "", 400, "not an aggregate")
	_, err := a.node.Query(t.Context(), &record.Query{Filters: []record.PluginCall{
		{Name: "threshold", Params: make([]byte, 31)}}}, func(*record.Batch) error { return nil })
	if e := toWire(err); e.Kind != wire.KindInvalid || e.Part != "filter" {
		t.Errorf("31 bytes of parameters: %v", err)
	}
	_, _, err = a.node.Aggregate(t.Context(), &record.Query{Aggregate: record.PluginCall{
		Name: "stats", Params: []byte{9, 15: 0}}})
	if e := toWire(err); e.Part != "aggregate" || !strings.Contains(e.Message, "parameter type") {
		t.Errorf("a type that there is not: %v", err)
	}
	a.expect("GET", "/v1/records?keys=1&format=json&filter=threshold&filter_params=value=1", "",
		200)
}

// TestRecordsComeBack posts what a get wrote: payloads of any form, in any type.
func TestRecordsComeBack(t *testing.T) {
	a := &asker{t, openTest(t, Options{})}
	a.expect("POST", "/v1/records", ``, 400, "it holds none")
	a.expect("POST", "/v1/records", `[]`, 400, "it holds none")
	a.expect("POST", "/v1/records?type=f64", `{"cid":-1,"mid":1,"moid":1,"cap":1,"value":1}`, 422,
		"first on line 1: cid: out of range")
	a.expect("POST", "/v1/records", `{"cid":1,"mid":1,"moid":1,"cap":1,"payload":""}`, 200)
	a.expect("POST", "/v1/records", `{"cid":1,"mid":2,"moid":1,"cap":1,"payload":"/w=="}`, 200)
	a.expect("POST", "/v1/records", `{"cid":1,"mid":3,"moid":1,"cap":1,"payload":"AAAAAAAA8H8="}`,
		200)
	a.expect("GET", "/v1/records?mid=1", "", 200, `"payload":""`)
	a.expect("GET", "/v1/records?mid=1&type=text", "", 200, `"value":""`)
	a.expect("GET", "/v1/records?mid=2&type=text", "", 200, `"payload":"/w=="`)
	a.expect("GET", "/v1/records?mid=3&type=f64", "", 200, `"value":"+Inf"`)
	if keys := a.expect("GET", "/v1/records?keys=1", "", 200); strings.Contains(keys, "payload") {
		t.Errorf("keys have payloads: %s", keys)
	}
	for _, kind := range []string{"base64", "text", "f64", "i64"} {
		all := a.expect("GET", "/v1/records?cid=1&format=ndjson&type="+kind, "", 200)
		a.expect("POST", "/v1/records?type="+kind, all, 200, `"written":3}`,
			`"rejected":0`)
	}
	for mid, payload := range []string{"", "/w==", "AAAAAAAA8H8="} {
		got := a.expect("GET", fmt.Sprintf("/v1/records?view=all&mid=%d", mid+1), "", 200)
		if n := strings.Count(got, `"payload":"`+payload+`"`); n != 5 {
			t.Errorf("mid %d: payload %q %d times, want 5: %s", mid+1, payload, n, got)
		}
	}
}

// TestBusyHasAStatus refuses streams like other answers: with a status and Retry-After.
func TestBusyHasAStatus(t *testing.T) {
	n := openTest(t, Options{MaxQueries: 1, MaxWaiting: -1})
	var place admission.Permit
	if err := n.queries.Acquire(t.Context(), 1, &place); err != nil {
		t.Fatal(err)
	}
	a := &asker{t, n}
	a.expect("GET", "/v1/records", "", 429, `"code":"overloaded"`)
	a.expect("GET", "/v1/count", "", 429, `"code":"overloaded"`)
	status, answer := post(t, n, "POST", "/v1/query", wire.ContentType,
		wire.AppendQuery(nil, &record.Query{}))
	if status != 429 || kindOfAnswer(t, answer) != wire.KindOverloaded {
		t.Errorf("query: %d %q", status, answer)
	}
	place.Release()
	a.expect("GET", "/v1/records", "", 200, `"complete":true`)
}
