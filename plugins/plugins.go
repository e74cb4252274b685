// Package plugins holds the standard plugins: their modules, built from the C sources beside them,
// which every node loads under their names.
//
// It knows nothing of hosts; `make guests` rebuilds the modules.
package plugins

import "embed"

//go:embed */*.wasm
var files embed.FS

// Plugin is a module and the name under which a node has it.
type Plugin struct {
	Name string
	Wasm []byte // belongs to the caller
}

// Standard returns the standard plugins by name.
func Standard() []Plugin {
	names := [...]string{"between", "count", "delta", "distinct", "downsample", "first-last",
		"gaps", "histogram", "outliers", "quantiles", "rate-of-change", "readable",
		"sealed-equal", "sealed-group", "sealed-range", "sealed-stats", "stats", "threshold",
		"top-k"}
	out := make([]Plugin, 0, len(names))
	for _, name := range names {
		wasm, err := files.ReadFile(name + "/" + name + ".wasm")
		if err != nil {
			panic("BUG: a standard plugin is not embedded: " + err.Error())
		}
		out = append(out, Plugin{name, wasm})
	}
	return out
}
