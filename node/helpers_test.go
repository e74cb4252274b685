package node

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/plugins"
	"github.com/pentad-db/pentad/sdk/record"
)

// parseCallOf encodes "name=value,name=value" as the parameters of a plugin.
func parseCallOf(t testing.TB, n *Node, name, text string) (call record.PluginCall, err error) {
	t.Helper()
	v, err := n.plugins.Use(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer n.plugins.Unpin(v)
	values, err := params.Values("params", text)
	if err != nil {
		return call, err
	}
	return n.plugins.Call(v, values, nil, false)
}

// thresholds is a chain of the filter threshold with these parameters.
func thresholds(t testing.TB, n *Node, params ...string) (chain []record.PluginCall) {
	t.Helper()
	for _, p := range params {
		call, err := parseCallOf(t, n, "threshold", p)
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, call)
	}
	return chain
}

func standardModule(t *testing.T, name string) []byte {
	t.Helper()
	for _, p := range plugins.Standard() {
		if p.Name == name {
			return p.Wasm
		}
	}
	t.Fatalf("no standard plugin %s", name)
	return nil
}

// modulePath is the file of a module of a stand-alone node.
func modulePath(n *Node, wasm []byte) string {
	return filepath.Join(n.opt.Dir, "plugins", registry.Digest(wasm)+".wasm")
}

// eventually waits for something that is true within some seconds on a machine that is not slow.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	end, tick := time.After(5*time.Minute), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("after five minutes: not %s", what)
		}
	}
}
