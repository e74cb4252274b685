package node

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// putShort stores readings of which one is too short for the standard plugins.
func putShort(t *testing.T, n *Node) record.Key {
	t.Helper()
	var b record.Batch
	for i := range int64(3000) {
		payload := f64(float64(i))
		if i == 1234 {
			payload = payload[:5]
		}
		b.Append(record.Key{CID: 1, MID: i, MOID: 2, CapNs: i * int64(time.Second)}, payload)
	}
	if _, err := dial(t, n).Put(t.Context(), &b, [16]byte{}, 0); err != nil {
		t.Fatal(err)
	}
	return b.Key(1234)
}

// TestFaults has plugins fail at a record, over frames and over JSON, stored and lent: the error
// says who failed where, and the node remembers it.
func TestFaults(t *testing.T) {
	n := openTest(t, Options{})
	c := dial(t, n)
	key := putShort(t, n)
	mine := variant(t, "stats", "1")
	info, err := c.PushPlugin(t.Context(), "mine", mine)
	if err != nil {
		t.Fatal(err)
	}
	check := func(err error, name, export string) {
		t.Helper()
		var remote *wire.Error
		if !errors.As(err, &remote) {
			t.Fatalf("%v", err)
		}
		f, ok := remote.Fault()
		if !ok || remote.Kind != wire.KindPluginFailed || f.Plugin != name || f.Export != export ||
			f.What != "status" || f.Status != plugin.StatusPayload || f.FuelUsed == 0 ||
			f.MemoryBytes < 65536 || f.Message == "" || !f.Exact || f.First == nil ||
			f.First.MID != key.MID || f.First.CapNs != key.CapNs || f.Records == 0 {
			t.Errorf("%s: %+v of %+v", name, f, remote)
		}
		if name == "mine" && f.SHA256 != info.SHA256 {
			t.Errorf("digest %s", f.SHA256)
		}
		want := "mid 1234, moid 2, cap 1970-01-01T00:20:34.000000000Z"
		if !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), `plugin "`+name+`"`) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	aggregate := func(call record.PluginCall) error {
		_, _, err := c.Aggregate(t.Context(), &record.Query{Aggregate: call,
			Box: record.Box{record.CID: {record.At(1)}}, GroupBy: record.GroupBy{MID: true}})
		return err
	}
	check(aggregate(record.PluginCall{Name: "mine"}), "mine", "pentad_add")
	check(aggregate(record.PluginCall{Name: "lent", Module: mine}), "lent", "pentad_add")
	call, err := parseCallOf(t, n, "threshold", "value=1")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Scan(t.Context(), &record.Query{Filters: []record.PluginCall{call}},
		func(*record.Batch) error { return nil })
	check(err, "threshold", "pentad_filter")
	_, _, err = c.Count(t.Context(), &record.Query{Filters: []record.PluginCall{call}})
	check(err, "threshold", "pentad_filter")

	all, err := c.PluginFailures(t.Context(), "")
	if err != nil || len(all) != 4 || all[0].Plugin != "threshold" || all[2].Plugin != "lent" ||
		all[3].Plugin != "mine" || all[3].TimeNs > all[0].TimeNs {
		t.Fatalf("%+v, %v", all, err)
	}
	if q := all[3].Query; q != "cid=1 aggregate=mine group=mid" ||
		all[3].Fault.First.MID != key.MID || all[3].Code != "plugin-failed" ||
		all[3].Fault.Message == "" {
		t.Errorf("%+v", all[3])
	}
	of, err := c.PluginFailures(t.Context(), "lent")
	if err != nil || len(of) != 1 {
		t.Errorf("%+v, %v", of, err)
	}

	expectFault(t, n, info.SHA256)
}

// expectFault asks for people.
func expectFault(t *testing.T, n *Node, digest string) {
	t.Helper()
	resp, err := http.Get("http://" + n.Addr().String() + "/v1/plugins/mine/run")
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	for _, want := range []string{`"fault":{"plugin":"mine","sha256":"` + digest,
		`"export":"pentad_add"`, `"exact":true`, `"mid":1234`} {
		if err != nil || resp.StatusCode != 422 || !strings.Contains(string(text), want) {
			t.Errorf("%s %s, %v: want %s", resp.Status, text, err, want)
		}
	}
}

// TestAdHoc runs a module that comes with the query: nothing of it stays, and it is refused as an
// upload is.
func TestAdHoc(t *testing.T) {
	n := openTest(t, Options{})
	c := dial(t, n)
	putShort(t, n)
	wasm := variant(t, "count", "1")
	call := record.PluginCall{Name: "stats", Module: wasm} // a standard one has the name, too
	groups, _, err := c.Aggregate(t.Context(), &record.Query{Aggregate: call})
	if err != nil || len(groups) != 1 || len(groups[0].Result) != 8 {
		t.Fatalf("%+v, %v", groups, err)
	}
	_, err = c.Scan(t.Context(), &record.Query{Filters: []record.PluginCall{call}},
		func(*record.Batch) error { return nil })
	isKind(t, err, wire.KindInvalid, "not a filter")
	call.Module = []byte{}
	_, _, err = c.Aggregate(t.Context(), &record.Query{Aggregate: call})
	isKind(t, err, wire.KindBadModule, "not a WebAssembly module")

	call.Module = append(wasm, make([]byte, 64<<20)...) // the most of all
	_, _, err = n.Aggregate(t.Context(), &record.Query{Aggregate: call})
	if toWire(err).Kind != wire.KindOverloaded {
		t.Errorf("more modules than there is space for: %v", err)
	}

	details, err := c.CheckPlugin(t.Context(), wasm)
	if err != nil || details.Name != "count" || !details.Aggregate || details.Limits == nil ||
		details.SHA256 != registry.Digest(wasm) || len(details.Doc) == 0 {
		t.Errorf("%+v, %v", details, err)
	}
	_, err = c.CheckPlugin(t.Context(), []byte("text"))
	isKind(t, err, wire.KindBadModule, "refused")
	if n.adHocHost.Stats().Instances != 0 || !lentIdle(n) {
		t.Errorf("%+v", n.adHocHost.Stats())
	}
	entries, err := os.ReadDir(filepath.Join(n.opt.Dir, "plugins"))
	if err != nil || len(entries) != 2 {
		t.Errorf("%v, %v: want the catalogue and the cache", entries, err)
	}
}
