package openapi_test

import (
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

const oneRecord = `{"cid":1,"mid":42,"moid":7,"cap":"2026-03-03T12:00:00Z","value":21.5}`

// puts are those of records in JSON.
func puts() []request {
	put := func(query, contentType, body string, status int, says string) request {
		return request{method: "POST", path: "/v1/records", query: query, body: body,
			contentType: contentType, status: status, says: says}
	}
	return []request{
		{method: "PUT", path: "/v1/quantities/{name}", name: "8", contentType: contentJSON,
			body: `{"name":"state","type":"text"}`},
		{method: "GET", path: "/v1/quantities"},
		put("type=f64", contentJSON, oneRecord, 200, `"written":1`),
		put("type=f64", contentJSON, "["+oneRecord+"]", 200, `"written":1`),
		put("type=f64", contentLines, oneRecord+"\n"+oneRecord, 200, `"written":2`),
		put("", contentJSON, `{"cid":1,"mid":1,"moid":8,"cap_ns":5,"value":"on"}`, 200, ""),
		put("type=f64", contentJSON, `{"cid":1}`, 422, "cid, mid, moid and cap"),
		put("type=f64", contentLines, oneRecord+"\n{}", 207, `"rejected":1`),
		put("type=f64&atomic=1", contentLines, oneRecord+"\n{}", 422, "nothing is stored"),
		put("atomc=1", contentJSON, oneRecord, 400, `unknown parameter \"atomc\"`),
	}
}

// queries are those of people.
func queries() (all []request) {
	for _, accept := range []string{"", contentLines, "text/csv"} {
		for path, query := range map[string]string{
			"/v1/records": "cid=1&view=all&partial=allow", "/v1/latest": "type=f64&keys=1",
			"/v1/asof": "at=now-1h", "/v1/diff": "from=now-1h&type=f64",
			"/v1/versions": "cid=1&everything=0",
		} {
			all = append(all, request{method: "GET", path: path, query: query, accept: accept})
		}
	}
	return append(all,
		request{method: "GET", path: "/v1/records",
			query: "filter=threshold&filter_params=value=1"},
		request{method: "GET", path: "/v1/records", query: "cid=x", status: 400},
		request{method: "GET", path: "/v1/records", query: "filter=none", status: 404},
		request{method: "GET", path: "/v1/asof", status: 400, says: "at: is missing"},
		request{method: "GET", path: "/v1/count", query: "cid=1&last=1", says: `"records":2`},
		request{method: "GET", path: "/v1/count", query: "where=value>1e9&type=f64&moid=7",
			says: `"records":0`},
		request{method: "GET", path: "/v1/count", query: "type=f64", status: 400,
			says: "parameter type: is the type of the payloads that where is about"},
		request{method: "GET", path: "/v1/windows", query: "every=1d&agg=count&type=f64",
			status: 400, says: "give where, too"},
		request{method: "GET", path: "/v1/plugins/{name}/run", name: "count", query: "type=f64",
			status: 400, says: "give where, too"},
		request{method: "GET", path: "/v1/explain", query: "cid=1"},
		request{method: "GET", path: "/v1/windows",
			query: "moid=7&every=1mo&tz=Europe/Berlin&agg=stats&group=mid", says: `"hours":`},
		request{method: "GET", path: "/v1/windows", query: "every=1d&agg=count",
			accept: "text/csv", says: "start,hours,records,count"},
		request{method: "GET", path: "/v1/windows", query: "every=1d", status: 400},
		request{method: "GET", path: "/v1/horizon", query: "cid=1"},
		request{method: "GET", path: "/v1/changes", query: "cid=1", says: `"closed_ns"`},
		request{method: "GET", path: "/v1/changes", query: "format=sse", says: "event: closed"},
		request{method: "GET", path: "/v1/digest", query: "cid=1"},
		request{method: "GET", path: "/v1/sync"},
		request{method: "GET", path: "/", says: "pentad"},
	)
}

// frames are requests of the protocol, and some that are not frames.
func frames() (all []request) {
	b := record.Batch{CID: []int32{1}, MID: []int64{1}, MOID: []int32{9}, CapNs: []int64{1},
		Stride: 1, Data: []byte{7}}
	q := &record.Query{}
	stats := &record.Query{Aggregate: record.PluginCall{Name: "count"}}
	diff := &record.Diff{FromNs: 1, ToNs: record.Acq.Max()}
	box := &wire.Box{}
	box.Box[record.CID] = record.RangeSet{record.At(1)}
	for path, body := range map[string][]byte{
		"/v1/put":      mustFrame(wire.AppendPut(nil, &wire.Put{Batch: &b})),
		"/v1/query":    wire.AppendQuery(nil, q),
		"/v1/count":    wire.AppendQuery(nil, q),
		"/v1/explain":  wire.AppendQuery(nil, q),
		"/v1/states":   wire.AppendQuery(nil, stats),
		"/v1/changes":  wire.AppendQuery(nil, q),
		"/v1/diff":     wire.AppendDiff(nil, diff),
		"/v1/versions": wire.AppendBox(nil, box),
		"/v1/erase":    wire.AppendBox(nil, box),
	} {
		all = append(all, frameRequest(path, body, 200), frameRequest(path, []byte("x"), 400))
	}
	return append(all, frameRequest("/v1/digest", []byte("x"), 400),
		frameRequest("/v1/sync", []byte("x"), 400),
		request{method: "POST", path: "/v1/count", body: "{}", contentType: contentJSON,
			status: 400, says: "expected a binary frame"})
}

// operations are requests of operators.
func operations() []request {
	get := func(path string) request { return request{method: "GET", path: path} }
	return []request{
		{method: "POST", path: "/v1/erase", query: "cid=1&mid=99&dry_run=1"},
		{method: "POST", path: "/v1/erase", query: "cid=1&mid=99"},
		{method: "POST", path: "/v1/erase", status: 400, says: "no selector is given"},
		{method: "POST", path: "/v1/purge", query: "cid=1&mid=99"}, get("/v1/events"),
		{method: "PUT", path: "/v1/retention", query: "cid=5&cap_age=90d&dry_run=1"},
		{method: "PUT", path: "/v1/retention", query: "cid=5&cap_age=90d"}, get("/v1/retention"),
		{method: "POST", path: "/v1/retention", query: "action=hold&cid=5"},
		{method: "DELETE", path: "/v1/retention", query: "cid=5"},
		{method: "PUT", path: "/v1/cursors/{name}", name: "mirror", query: "acq=1"},
		{method: "PUT", path: "/v1/cursors/{name}", name: "mirror", query: "acq=x", status: 400},
		{method: "GET", path: "/v1/cursors/{name}", name: "mirror"}, get("/v1/cursors"),
		{method: "DELETE", path: "/v1/cursors/{name}", name: "mirror"},
		{method: "GET", path: "/v1/cursors/{name}", name: "mirror", status: 404},
		{method: "PUT", path: "/v1/devices/{name}", name: "t7", query: "cid=6",
			contentType: contentJSON, body: `{"type":"meter","place":{"lat":1,"lon":2}}`},
		{method: "PATCH", path: "/v1/devices/{name}", name: "t7", query: "cid=6",
			contentType: contentJSON, body: `{"attributes":{"floor":3}}`},
		{method: "PATCH", path: "/v1/devices/{name}", name: "t7", query: "cid=6&unless_newer=1",
			contentType: contentJSON, body: `{"retired":true}`, status: 409},
		{method: "POST", path: "/v1/devices", query: "cid=6", contentType: contentLines,
			body: `{"name":"t8"}`},
		{method: "GET", path: "/v1/devices", query: "cid=6&select=floor=3"},
		{method: "GET", path: "/v1/devices/{name}", name: "t7", query: "cid=6"},
		{method: "DELETE", path: "/v1/devices/{name}", name: "t7", query: "cid=6"},
		{method: "GET", path: "/v1/devices/{name}", name: "t7", query: "cid=6", status: 404},
		{method: "POST", path: "/v1/snapshots", query: "name=one"}, get("/v1/snapshots"),
		{method: "DELETE", path: "/v1/snapshots/{name}", name: "one"},
		{method: "POST", path: "/v1/verify", says: `"complete":true`},
		get("/healthz"), get("/readyz"), get("/v1/health"), get("/version"), get("/metrics"),
		get("/openapi.json"),
	}
}

func pluginRequests() []request {
	return []request{
		{method: "GET", path: "/v1/plugins"}, {method: "GET", path: "/v1/failures"},
		{method: "GET", path: "/v1/plugins/{name}", name: "stats"},
		{method: "GET", path: "/v1/plugins/{name}", name: "none", status: 404},
		{method: "GET", path: "/v1/plugins/{name}/run", name: "stats",
			query: "moid=7&group=mid&every=1d&params=type=f64"},
		{method: "POST", path: "/v1/plugins/{name}/run", name: "count", query: "group=cid,moid"},
		{method: "POST", path: "/v1/plugins", contentType: contentWasm, body: "x", status: 422},
		{method: "PUT", path: "/v1/plugins/{name}", name: "mine", contentType: contentWasm,
			body: "x", status: 422},
		{method: "DELETE", path: "/v1/plugins/{name}", name: "mine", status: 404},
		{method: "POST", path: "/v1/plugins/{name}/promote", name: "mine", status: 404},
		{method: "DELETE", path: "/v1/quantities/{name}", name: "8"},
	}
}

// ofOthers are requests of nodes that this one is not.
func ofOthers() (all []request) {
	all = []request{{method: "GET", path: "/v1/edge", status: 404},
		{method: "DELETE", path: "/v1/sync", status: 400}}
	for _, path := range []string{"", "/nodes", "/groups"} {
		all = append(all, request{method: "GET", path: "/v1/cluster" + path, status: 404})
	}
	for _, verb := range []string{"drain", "undrain", "remove", "rebalance", "split", "raise"} {
		all = append(all, request{method: "POST", path: "/v1/cluster/" + verb, status: 404})
	}
	return all
}

func mustFrame(frame []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return frame
}
