package node

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/cluster-test/warmcode"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

func openTest(t *testing.T, opt Options) *Node {
	t.Helper()
	if opt.Dir == "" {
		opt.Dir = t.TempDir()
	}
	if opt.Listen == "" {
		opt.Listen = "127.0.0.1:0"
	}
	warmcode.Fill(t, opt.Dir, opt.Cluster.TokenFile != "")
	n, err := Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		if err := n.Close(ctx); err != nil && !errors.Is(err, nodeerror.ErrClosing) {
			t.Error(err)
		}
	})
	return n
}

func dial(t *testing.T, n *Node) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), n.Addr().String())
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for e := new(wire.Error); errors.As(err, &e) && e.Kind.Temporary(); { // it is not ready yet
		<-tick.C
		c, err = client.Dial(t.Context(), n.Addr().String())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func f64(v float64) []byte { return binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)) }

type row struct {
	key   record.Key
	value float64
}

// apart is how far devices lie from each other, so that they are of many slots.
const apart = 17

// fill stores random rows and returns them as the node stamped them.
func fill(t *testing.T, c *client.Client, rng *rand.Rand, rows int) []row {
	t.Helper()
	w := c.NewWriter(client.WriterOptions{BatchRecords: 700})
	for range rows {
		k := record.Key{CID: rng.Int32N(3), MID: rng.Int64N(500) * apart, MOID: rng.Int32N(3),
			CapNs: rng.Int64N(200) * int64(time.Minute)}
		if err := w.Add(t.Context(), k, f64(float64(rng.IntN(1000))/10)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var out []row
	for r, err := range c.Query(t.Context(), &record.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, row{r.Key, math.Float64frombits(binary.LittleEndian.Uint64(r.Payload))})
	}
	if len(out) != rows {
		t.Fatalf("%d rows stored, %d came back", rows, len(out))
	}
	return out
}

func expected(all []row, q *record.Query, keep func(row) bool) []row {
	until := record.Acq.Max()
	if q.View == record.ViewAsOf {
		until = q.AsOfAcqNs
	}
	best := map[record.Key]int64{}
	for _, r := range all {
		k := r.key
		k.AcqNs = 0
		if r.key.AcqNs < until {
			best[k] = max(best[k], r.key.AcqNs)
		}
	}
	var out []row
	for _, r := range all {
		k := r.key
		k.AcqNs = 0
		newest := q.View == record.ViewAll || best[k] == r.key.AcqNs
		if newest && r.key.AcqNs < until && q.Box.Contains(r.key) && keep(r) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b row) int {
		if q.Order == record.OrderAcq {
			return cmp.Or(cmp.Compare(a.key.AcqNs, b.key.AcqNs), a.key.Compare(b.key))
		}
		return a.key.Compare(b.key)
	})
	return out
}

func TestQueriesAgainstASlice(t *testing.T) {
	rounds.NotUnderRace(t, "a model in one goroutine")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	n := openTest(t, Options{Store: store.Options{SealRows: 3000, Shards: 4}})
	c := dial(t, n)
	all := fill(t, c, rng, 20_000)
	for i := range 60 {
		q := &record.Query{View: record.View(rng.IntN(3)), Order: record.Order(rng.IntN(3)),
			KeysOnly: rng.IntN(4) == 0}
		if q.View == record.ViewAsOf {
			q.AsOfAcqNs = all[rng.IntN(len(all))].key.AcqNs
		}
		if q.Order != record.OrderNone && rng.IntN(2) == 0 {
			q.Limit = uint64(1 + rng.IntN(300))
		}
		for range rng.IntN(3) {
			from := rng.Int64N(500 * apart)
			q.Box[record.MID] = append(q.Box[record.MID],
				record.Range{From: from, To: from + 1 + rng.Int64N(200*apart)})
		}
		if rng.IntN(2) == 0 {
			q.Box[record.CID] = record.RangeSet{record.At(rng.Int64N(3))}
		}
		low, high, filters := float64(rng.IntN(50)), float64(rng.IntN(100)), rng.IntN(4)
		q.Filters = thresholds(t, n, []string{fmt.Sprintf("value=%g", low), "op=ne,value=-1",
			fmt.Sprintf("op=le,value=%g", high)}[:filters]...)
		keep := func(r row) bool {
			return (filters < 1 || r.value > low) && (filters < 3 || r.value <= high)
		}
		if err := q.Normalize(); err != nil {
			t.Fatal(err)
		}
		want := expected(all, q, keep)
		count, end, err := c.Count(t.Context(), q)
		if err != nil || count != uint64(len(want)) || !end.Complete {
			t.Fatalf("count %d: %+v: %d, want %d; %+v, %v", i, q, count, len(want), end, err)
		}
		if q.Limit > 0 && uint64(len(want)) > q.Limit {
			want = want[:q.Limit]
		}
		checkQuery(t, c, fmt.Sprintf("query %d: %+v", i, q), q, want)
	}
}

func checkQuery(t *testing.T, c *client.Client, what string, q *record.Query, want []row) {
	t.Helper()
	var got []row
	for r, err := range c.Query(t.Context(), q) {
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		one := row{key: r.Key}
		if q.KeysOnly != (len(r.Payload) == 0) {
			t.Fatalf("%s: payload of %d bytes", what, len(r.Payload))
		}
		if !q.KeysOnly {
			one.value = math.Float64frombits(binary.LittleEndian.Uint64(r.Payload))
		}
		got = append(got, one)
	}
	if q.Order == record.OrderNone {
		slices.SortFunc(got, func(a, b row) int { return a.key.Compare(b.key) })
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows, want %d", what, len(got), len(want))
	}
	for i := range got {
		if q.KeysOnly {
			got[i].value = want[i].value
		}
		if got[i] != want[i] {
			t.Fatalf("%s: row %d is %+v, want %+v", what, i, got[i], want[i])
		}
	}
}

func TestAggregatesAgainstASlice(t *testing.T) {
	rounds.NotUnderRace(t, "a model in one goroutine")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	n := openTest(t, Options{Store: store.Options{SealRows: 3000, Shards: 4}})
	c := dial(t, n)
	all := fill(t, c, rng, 20_000)
	for i := range 20 {
		q := &record.Query{View: record.ViewLatest, Aggregate: record.PluginCall{Name: "stats"},
			GroupBy: record.GroupBy{CID: rng.IntN(2) == 0, MID: rng.IntN(3) == 0,
				MOID: rng.IntN(2) == 0, CapBucketNs: rng.Int64N(2) * int64(time.Hour)}}
		type sums struct {
			count    uint64
			sum, sqs float64
		}
		want := map[groupOf]sums{}
		for _, r := range expected(all, q, func(row) bool { return true }) {
			key := keyOfGroup(r.key, q.GroupBy, nil)
			s := want[key]
			s.count, s.sum, s.sqs = s.count+1, s.sum+r.value, s.sqs+r.value*r.value
			want[key] = s
		}
		groups, _, err := c.Aggregate(t.Context(), q)
		if err != nil || len(groups) != len(want) {
			t.Fatalf("query %d: %d groups, %v; want %d", i, len(groups), err, len(want))
		}
		for _, got := range groups {
			s := want[groupOf{got.CID, got.MOID, got.MID, got.CapNs}]
			mean := s.sum / float64(s.count)
			variance := (s.sqs - s.sum*mean) / float64(s.count-1)
			if got.Records != s.count || binary.LittleEndian.Uint64(got.Result) != s.count ||
				!near(got.Result[8:], s.sum) || !near(got.Result[32:], mean) ||
				s.count > 1 && !near(got.Result[40:], variance) {
				t.Fatalf("query %d: group %+v, want %+v", i, got, s)
			}
		}
	}
}

// TestAggregatesRepeat asks for the same sums of floats again and again: several workers, the same
// bits.
func TestAggregatesRepeat(t *testing.T) {
	n := openTest(t, Options{Store: store.Options{Workers: 4}})
	rng := rand.New(rand.NewPCG(2, 2))
	var b record.Batch
	for part := range 10 {
		b.Reset()
		for range record.MaxBatchRecords / 2 {
			b.Append(record.Key{CID: rng.Int32N(9), MID: rng.Int64N(20_000), MOID: rng.Int32N(9),
				CapNs: int64(part)<<40 + rng.Int64N(1<<40)}, f64(rng.NormFloat64()*1e3))
		}
		if _, err := n.Put(t.Context(), &b, store.WriterSeq{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := ""
	for i := range rounds.Of(30, 30, 8) {
		ask := n.Aggregate // with states that were kept
		if i%2 == 0 {
			ask = n.Fresh().Aggregate
		}
		groups, end, err := ask(t.Context(), &record.Query{
			Aggregate: record.PluginCall{Name: "stats"}})
		if err != nil || len(groups) != 1 || i%2 == 0 && end.BlocksScanned < 40 {
			t.Fatalf("%d groups, %+v, %v", len(groups), end, err)
		}
		if i == 0 {
			want = string(groups[0].Result)
		}
		if string(groups[0].Result) != want {
			t.Fatalf("run %d: %x, the first was %x", i, groups[0].Result, want)
		}
	}
}

func near(got []byte, want float64) bool {
	v := math.Float64frombits(binary.LittleEndian.Uint64(got))
	return math.Abs(v-want) <= 1e-6*math.Max(1, math.Abs(want))
}

// post sends a body and returns status and answer.
func post(t *testing.T, n *Node, method, path, contentType string, body []byte) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+n.Addr().String()+path,
		bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, answer
}

func kindOfAnswer(t *testing.T, answer []byte) wire.Kind {
	t.Helper()
	kind, payload, _, err := wire.ParseFrame(answer, 1<<20)
	if err != nil || kind != wire.FrameError {
		t.Fatalf("answer %q is no error frame: %v", answer, err)
	}
	var e wire.Error
	if err := wire.ParseError(payload, &e); err != nil || e.Message == "" {
		t.Fatalf("error frame: %v", err)
	}
	return e.Kind
}

func TestCountRefuses(t *testing.T) {
	c := dial(t, openTest(t, Options{}))
	refused := func(q record.Query, part string) {
		t.Helper()
		_, _, err := c.Count(t.Context(), &q)
		remote := new(wire.Error)
		if !errors.As(err, &remote) || remote.Part != part && remote.Kind != wire.KindNotFound {
			t.Errorf("%+v: %v", q, err)
		}
	}
	refused(record.Query{Aggregate: record.PluginCall{Name: "count"}}, "aggregate")
	refused(record.Query{Filters: []record.PluginCall{{Name: "nobody"}}}, "")
}

func TestBadFrames(t *testing.T) {
	n := openTest(t, Options{})
	b := &record.Batch{}
	b.Append(record.Key{CID: 1, MID: 2, MOID: 3, CapNs: 4}, f64(1))
	good, err := wire.AppendPut(nil, &wire.Put{Batch: b})
	if err != nil {
		t.Fatal(err)
	}
	bend := func(at int, v byte) []byte {
		bent := bytes.Clone(good)
		bent[at] = v
		return bent
	}
	put := func(keys ...record.Key) []byte {
		b := &record.Batch{}
		for _, k := range keys {
			b.Append(k, nil)
		}
		body, err := wire.AppendPut(nil, &wire.Put{Batch: b})
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	ask := func(d record.Dim, from, to int64) []byte {
		q := &record.Query{}
		q.Box[d] = record.RangeSet{{From: from, To: to}}
		return wire.AppendQuery(nil, q)
	}
	refused := func(name, path string, body []byte, want wire.Kind) {
		t.Helper()
		_, answer := post(t, n, "POST", path, wire.ContentType, body)
		if got := kindOfAnswer(t, answer); got != want {
			t.Errorf("%s: kind %v, want %v", name, got, want)
		}
		if status, _ := post(t, n, "POST", "/v1/put", wire.ContentType, good); status != 200 {
			t.Fatalf("%s: afterwards a good put has status %d", name, status)
		}
	}
	refused("magic", "/v1/put", bend(0, 'X'), wire.KindBadFrame)
	refused("version", "/v1/put", bend(1, 9), wire.KindUnsupportedVersion)
	refused("type", "/v1/put", bend(2, 3), wire.KindBadFrame)
	refused("reserved", "/v1/put", bend(3, 1), wire.KindBadFrame)
	refused("length", "/v1/put", bend(4, good[4]+1), wire.KindBadFrame)
	refused("huge length", "/v1/put", bend(7, 0xff), wire.KindTooLarge)
	refused("checksum", "/v1/put", bend(len(good)-1, good[len(good)-1]^1), wire.KindBadFrame)
	refused("no body", "/v1/put", nil, wire.KindBadFrame)
	refused("cid max", "/v1/put", put(record.Key{CID: math.MaxInt32}), wire.KindInvalid)
	refused("cid below 0", "/v1/put", put(record.Key{CID: -1}), wire.KindInvalid)
	refused("mid max", "/v1/put", put(record.Key{MID: math.MaxInt64}), wire.KindInvalid)
	refused("moid max", "/v1/put", put(record.Key{MOID: math.MaxInt32}), wire.KindInvalid)
	refused("cap max", "/v1/put", put(record.Key{}, record.Key{CapNs: math.MaxInt64}),
		wire.KindInvalid)
	refused("empty box", "/v1/query", ask(record.MID, 5, 5), wire.KindInvalid)
	refused("reversed range", "/v1/query", ask(record.Cap, 6, 5), wire.KindInvalid)
	refused("outside", "/v1/query", ask(record.CID, -9, -5), wire.KindInvalid)
	body := bytes.Clone(good[12:]) // the payload; its batch begins behind writer and sequence
	binary.LittleEndian.PutUint32(body[16+8+8:], record.MaxPayloadBytes+1)
	body = wire.AppendFrame(nil, wire.FramePut, body)
	refused("payload over 32 MiB", "/v1/put", body, wire.KindTooLarge)
	unknown := wire.AppendQuery(nil, &record.Query{Filters: []record.PluginCall{{Name: "nope"}}})
	_, answer := post(t, n, "POST", "/v1/query", wire.ContentType, unknown)
	if got := kindOfAnswer(t, answer); got != wire.KindUnknownPlugin {
		t.Errorf("unknown plugin: %v", got)
	}
}

func TestJSONForPeople(t *testing.T) {
	n := openTest(t, Options{})
	expect := func(method, path, body string, status int, parts ...string) {
		t.Helper()
		got, answer := post(t, n, method, path, "application/json", []byte(body))
		if got != status {
			t.Fatalf("%s %s: status %d, want %d: %s", method, path, got, status, answer)
		}
		for _, part := range parts {
			if !strings.Contains(string(answer), part) {
				t.Errorf("%s %s: %s lacks %s", method, path, answer, part)
			}
		}
	}
	const one = `{"cid":1,"mid":2,"moid":3,"cap":"2026-03-03T12:00:00Z","value":21.5}`
	expect("POST", "/v1/records?type=f64", one+"\n"+strings.Replace(one, "21.5", "22", 1), 200,
		`"written":2`, `"rejected":0`)
	expect("GET", "/v1/records?cid=1&type=f64", "", 200, `"value":22`, `"rows":1,`,
		`"complete":true`)
	expect("GET", "/v1/records?mid=0..3&type=f64&format=ndjson&view=all", "", 200, `"value":21.5}`,
		`"value":22}`)
	expect("GET", "/v1/records?mid=5..9", "", 200, `{"records":[],"end":`)
	expect("GET", "/v1/count?moid=3", "", 200, `"records":1}`)
	expect("GET", "/v1/count?acq=..now%2b1h", "", 200, `"records":2`)
	expect("GET", "/v1/count?acq=..now%2b1h&last=1", "", 200, `"records":1`)
	expect("GET", "/v1/explain?moid=3", "", 200, `"rows_found":1,`)
	expect("POST", "/v1/plugins/stats/run?group=cid&every=1h", "", 200, `"mean":22,`, `"cid":1`)
	expect("POST", "/v1/plugins/stats/run?group=cid&view=all", "", 200, `"mean":21.75`)
	expect("GET", "/v1/count?filter=threshold&filter_params=value=21.7", "", 200, `"records":1`)
	expect("GET", "/v1/plugins", "", 200, `"name":"stats"`, `"name":"threshold"`)
	expect("GET", "/healthz", "", 200, "ok")
	expect("GET", "/readyz", "", 200, "ready")
	expect("GET", "/version", "", 200, `"version":"0.1.0-dev"`)
	expect("GET", "/", "", 200, "GET /v1/records?cid=1")
	expect("GET", "/?x=1", "", 400, `unknown parameter \"x\"; this route has none`)
	expect("GET", "/v1/horizon", "", 200, "horizon_ns")
	expect("GET", "/metrics", "", 200, "pentad_store_rows 2", "pentad_node_request_seconds")
	expect("POST", "/v1/records?type=f64", one+"\n{\"cid\":1}\n", 207, `"rejected":1`, `"line":2`)
	expect("POST", "/v1/records?type=f64&atomic=1", one+"\n{\"cid\":1}\n", 422, `"code":"invalid"`,
		"line 2")
	expect("POST", "/v1/records", one, 422, "quantity 3 is not declared")
	expect("GET", "/v1/records?mid=9..3", "", 400, `"part":"mid"`)
	expect("GET", "/v1/records?sid=1", "", 400, "unknown")
	expect("GET", "/v1/records?view=now", "", 400, `"part":"view"`)
	expect("POST", "/v1/plugins/nope/run", "", 404, "unknown-plugin", "pentad plugin ls and GET")
	expect("PUT", "/v1/plugins/mine", "not wasm", 422, "bad-module")
	expect("PUT", "/v1/plugins/stats", "x", 403, "standard plugin")
	expect("GET", "/v2", "", 404, "no route")
}

func TestListenNeedsInsecure(t *testing.T) {
	for _, addr := range []string{":0", "0.0.0.0:0", "192.0.2.1:80", "[::]:0", "nowhere"} {
		if _, err := Open(t.Context(), Options{Dir: t.TempDir(), Listen: addr}); err == nil {
			t.Errorf("%s: the node listens", addr)
		}
	}
}

func TestPluginsOutliveTheNode(t *testing.T) {
	dir := t.TempDir()
	n := openTest(t, Options{Dir: dir})
	c := dial(t, n)
	wasm := standardModule(t, "count")
	info, err := c.PushPlugin(t.Context(), "mine", wasm)
	if err != nil || !info.Aggregate {
		t.Fatalf("push: %+v, %v", info, err)
	}
	fill(t, c, rand.New(rand.NewPCG(1, 1)), 1000)
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	n = openTest(t, Options{Dir: dir})
	groups, _, err := n.Aggregate(t.Context(),
		&record.Query{Aggregate: record.PluginCall{Name: "mine"}})
	if err != nil || len(groups) != 1 || groups[0].Records != 1000 {
		t.Fatalf("groups %+v, %v", groups, err)
	}
}
