package node

import (
	"testing"

	"github.com/pentad-db/pentad/plugins"
)

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
