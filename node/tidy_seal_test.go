package node_test

import (
	"path"
	"strconv"
	"strings"
	"testing"
)

// TestServersHoldNoKeys keeps sdk/seal, which has keys, out of all that serves: only commands,
// which run beside a node, may reach it.
func TestServersHoldNoKeys(t *testing.T) {
	imports := map[string][]string{}
	for _, s := range sources(t) {
		if s.isTest() {
			continue
		}
		pkg := path.Dir(s.path)
		imports[pkg] = append(imports[pkg], "")
		for _, spec := range s.file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if own, ok := strings.CutPrefix(name, module); ok {
				imports[pkg] = append(imports[pkg], own)
			}
		}
	}
	const keys = "sdk/seal"
	if imports[keys] == nil {
		t.Fatalf("there is no package %s; this test looks at nothing", keys)
	}
	for pkg := range imports {
		if !within(pkg, []string{"node", "index", "wasmhost", "plugins"}) ||
			within(pkg, []string{"node/cmd"}) {
			continue
		}
		met, next := map[string]bool{}, []string{pkg}
		for len(next) > 0 {
			at := next[len(next)-1]
			next = next[:len(next)-1]
			if !met[at] {
				met[at] = true
				next = append(next, imports[at]...)
			}
		}
		if met[keys] {
			t.Errorf("%s reaches %s", pkg, keys)
		}
	}
}
