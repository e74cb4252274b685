package node

import (
	"testing"

	"github.com/pentad-db/pentad/plugins"
	"github.com/pentad-db/pentad/sdk/record"
)

func parseCallOf(t *testing.T, n *Node, name, params string) (record.PluginCall, error) {
	t.Helper()
	l, err := n.plugins.find(name)
	if err != nil {
		t.Fatal(err)
	}
	return parseCall(l, "params", params)
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
