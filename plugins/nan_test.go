package plugins_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

// canonicalNaN is the only one in results. WebAssembly leaves bits of others to the processor.
const canonicalNaN = 0x7ff8 << 48

// finishWith is the result of a plugin for float64 of some bits, as runs or as single rows, which a
// second instance gets as well.
func finishWith(t *testing.T, m *wasmhost.Module, params []byte, words []uint64, gid []uint32,
) []byte {
	t.Helper()
	var halves [2]*wasmhost.Aggregate
	for h := range halves {
		halves[h] = newAggregate(t, m, params)
		defer halves[h].Close()
		var b record.Batch
		for i, word := range words {
			at := int64(h*len(words) + i)
			b.AppendStamped(record.Key{MID: 1, CapNs: at, AcqNs: at},
				binary.LittleEndian.AppendUint64(nil, word))
		}
		if err := halves[h].Add(t.Context(), &b, gid, 2); err != nil {
			t.Fatal(err)
		}
	}
	states, err := halves[1].States(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := halves[0].Merge(t.Context(), states, nil); err != nil {
		t.Fatal(err)
	}
	results, err := halves[0].Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return results[0]
}

// Results do not depend on which not-a-number went in, and have but one of them, also where numbers
// of the plugin's own are none, as infinite ones taken from each other.
func TestNaNBits(t *testing.T) {
	f := func(name string, values map[string]string) {
		t.Helper()
		m, doc := standard(t, name)
		params := encode(t, doc, values)
		for _, gid := range [][]uint32{nil, {0, 1, 0, 1, 0, 1}} {
			var want []byte
			for _, nan := range []uint64{canonicalNaN, 0xfff8 << 48, 0x7ff0<<48 | 1, 1<<64 - 1} {
				got := finishWith(t, m, params, []uint64{nan, nan, math.Float64bits(2), nan, nan,
					math.Float64bits(1)}, gid)
				checkNaNs(t, doc, got)
				if want == nil {
					want = got
				}
				if !bytes.Equal(got, want) {
					t.Errorf("%s: %x of %x, %x of %x", name, got, nan, want, uint64(canonicalNaN))
				}
			}
			up, down := math.Float64bits(math.Inf(1)), math.Float64bits(math.Inf(-1))
			checkNaNs(t, doc, finishWith(t, m, params, []uint64{up, up, down, down, up, up}, gid))
		}
	}
	for _, name := range []string{"stats", "downsample", "first-last", "outliers", "quantiles",
		"rate-of-change", "top-k"} {
		f(name, map[string]string{})
	}
	f("histogram", map[string]string{"lo": "0", "hi": "1"})
	f("distinct", map[string]string{"of": "number"})
}

func checkNaNs(t *testing.T, doc *plugin.Doc, result []byte) {
	t.Helper()
	fields, err := doc.Render(result)
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range fields {
		x, ok := field.Value.(float64)
		if ok && x != x && math.Float64bits(x) != canonicalNaN {
			t.Errorf("%s: %s is %x", doc.Name, field.Name, math.Float64bits(x))
		}
	}
}
