// Package kernels has the plugins by which plugins are measured, the same loops in Go, and a way to
// call a plugin over a batch that is in its memory already, metered or not.
//
// The modules are built from the C sources in guests by `make guests`. It knows nothing of nodes
// or figures. Its main types are [Kernel] and [Resident].
package kernels

import (
	"embed"
	"encoding/binary"
	"math"
)

//go:embed guests/*.wasm
var files embed.FS

// Wasm returns a module of this folder.
func Wasm(name string) []byte {
	wasm, err := files.ReadFile("guests/" + name + ".wasm")
	if err != nil {
		panic("BUG: a module is not embedded: " + err.Error())
	}
	return wasm
}

// Kernel is a loop over numbers, as a plugin and in Go.
type Kernel struct {
	Name   string
	Params []byte
	Filter bool
	// Result is the size of a state, or of the bitmap of Rows records.
	Result int
	// Native does what the plugin does with payloads of 8 bytes: it adds to out, which has the form
	// of the state, or writes the bitmap, which was zero.
	Native func(data, out []byte)
}

// Rows is how many records a batch has: as many as a block of a store.
const Rows = 2048

const (
	threshold = 60
	buckets   = 64
	lowest    = 0.0
	scale     = 0.5 // buckets per unit
	registers = 4096
)

// All returns the kernels.
func All() []Kernel {
	above := appendFloat(nil, threshold)
	return []Kernel{
		{Name: "sum", Result: 8, Native: sum},
		{Name: "modular", Result: 8, Native: modular},
		{Name: "above", Params: above, Filter: true, Result: Rows / 8, Native: keepAbove},
		{Name: "abovesimd", Params: above, Filter: true, Result: Rows / 8, Native: keepAbove},
		{Name: "buckets", Params: appendFloat(appendFloat(nil, lowest), scale), Result: 8 * buckets,
			Native: histogram},
		{Name: "hll", Result: registers, Native: hyperLogLog},
	}
}

func appendFloat(dst []byte, x float64) []byte {
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(x))
}

// Payloads returns Rows numbers of 8 bytes: eighths, whose sums are exact in any order, in no order
// that a processor could guess.
func Payloads() []byte {
	var out []byte
	for i := range uint64(Rows) {
		h := (i + 1) * 0x9e3779b97f4a7c15
		out = appendFloat(out, float64((h^h>>29)%1000)/8)
	}
	return out
}
