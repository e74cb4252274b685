package node

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestNoPlugins: a node without plugins has no compiler, serves everything else and rejects what
// needs one. What was uploaded is there when it is opened with plugins again.
func TestNoPlugins(t *testing.T) {
	dir := t.TempDir()
	n := openTest(t, Options{Dir: dir})
	if _, err := n.PushPlugin(t.Context(), PluginPush{Name: "mine",
		Wasm: variant(t, "count", "1")}); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "plugins", "cache")); err != nil {
		t.Fatal(err)
	}

	n, err := Open(t.Context(), Options{Dir: dir, Listen: "127.0.0.1:0", NoPlugins: true})
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, n)
	b := new(record.Batch)
	b.Append(record.Key{CID: 1, MID: 42, MOID: 7, CapNs: 1}, f64(21.5))
	if _, err := n.Put(t.Context(), b, store.WriterSeq{}); err != nil {
		t.Fatal(err)
	}
	if rows, _, err := c.Count(t.Context(), &record.Query{}); rows != 1 || err != nil {
		t.Errorf("%d records, %v", rows, err)
	}
	if err := n.SetQuantity(plugin.Quantity{MOID: 7, Name: "energy", Type: "f64"}); err != nil {
		t.Error(err)
	}
	checkNoPlugins(t, n, c)
	if _, err := os.Stat(filepath.Join(dir, "plugins", "cache")); n.host != nil || err == nil {
		t.Errorf("there is a plugin host, %v, or compiled code, %v", n.host, err)
	}
	if n.hostStats().Compiles > 0 {
		t.Error("a module was compiled")
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	n = openTest(t, Options{Dir: dir})
	groups, _, err := n.Aggregate(t.Context(), &record.Query{
		Aggregate: record.PluginCall{Name: "mine"}})
	if err != nil || len(groups) != 1 || groups[0].Records != 1 {
		t.Errorf("%+v, %v", groups, err)
	}
}

// checkNoPlugins wants every use of a plugin rejected with the option's name.
func checkNoPlugins(t *testing.T, n *Node, c *client.Client) {
	t.Helper()
	const why = "this node runs no plugins: it was opened with Options.NoPlugins"
	wasm := variant(t, "stats", "2")
	rejected := func(err error) {
		t.Helper()
		isKind(t, err, wire.KindForbidden, why)
	}
	_, err := c.PushPlugin(t.Context(), "other", wasm)
	rejected(err)
	_, err = n.PushPlugin(t.Context(), PluginPush{Name: "other", Wasm: wasm})
	rejected(err)
	_, err = n.CheckPlugin(t.Context(), wasm)
	rejected(err)
	for _, call := range []record.PluginCall{{Name: "stats"}, {Name: "mine"}, {Name: "none"},
		{Name: "sent", Module: wasm}} {
		_, _, err = n.Aggregate(t.Context(), &record.Query{Aggregate: call})
		rejected(err)
		_, _, err = c.Aggregate(t.Context(), &record.Query{Aggregate: call})
		rejected(err)
		for cid := range int32(2) { // of one tenant, or of all
			q := &record.Query{Filters: []record.PluginCall{call}}
			if cid > 0 {
				q.Box[record.CID] = record.RangeSet{record.At(int64(cid))}
			}
			_, _, err = c.Count(t.Context(), q)
			rejected(err)
		}
	}
	if all := n.Plugins(); len(all) != 1 || all[0].Name != "mine" {
		t.Errorf("plugins: %+v", all)
	}
	if _, err := n.Plugin(t.Context(), "mine"); err != nil { // what the catalog has
		t.Error(err)
	}
	for path, want := range map[string]int{"/v1/windows?every=1d&agg=stats&tz=UTC": 403,
		"/metrics": 200} {
		resp, err := http.Get("http://" + n.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != want {
			t.Errorf("%s: %d, %v", path, resp.StatusCode, err)
		}
	}
}

// A node of a cluster runs the plugins of others' queries.
func TestNoPluginsInACluster(t *testing.T) {
	_, err := Open(t.Context(), Options{Dir: t.TempDir(), Listen: "127.0.0.1:0",
		NoPlugins: true, Fail: func(error) {}, Cluster: cluster.Config{TokenFile: "token"}})
	if err == nil || err.Error() != "node: Options.NoPlugins: a node of a cluster runs the "+
		"plugins of the queries of others; leave it out" {
		t.Error(err)
	}
}

// BenchmarkOpen opens and closes an empty node, with and without plugins.
func BenchmarkOpen(b *testing.B) {
	for _, without := range []bool{false, true} {
		name := map[bool]string{false: "plugins", true: "no-plugins"}[without]
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			for b.Loop() {
				n, err := Open(b.Context(), Options{Dir: dir, NoPlugins: without})
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := n.Close(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
