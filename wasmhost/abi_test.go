package wasmhost

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

// abiExample returns a hex example of the document of the ABI.
func abiExample(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("../sdk/plugin/ABI.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "```hex "+name+"\n")
	block, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatalf("ABI.md has no example %s", name)
	}
	var out []byte
	for line := range strings.Lines(block) {
		code, _, _ := strings.Cut(line, "#")
		b, err := hex.DecodeString(strings.Join(strings.Fields(code), ""))
		if err != nil {
			t.Fatalf("example %s: %q: %v", name, line, err)
		}
		out = append(out, b...)
	}
	return out
}

// The descriptor of ABI.md is one that the host reads as its comments say.
func TestExampleDescriptor(t *testing.T) {
	const doc = `{"name":"sum","result":[{"name":"sum","type":"i64"}]}`
	h := newTestHost(t, Options{})
	m := mustLoad(t, h, good(func(a *asm) {
		a.data[descAt] = abiExample(t, "descriptor")
		a.data[1152], a.data[1216] = []byte("sum"), []byte(doc)
		delete(a.data, nameAt)
		delete(a.data, errorAt)
	}))
	defer m.Close()
	d := m.Describe()
	if string(d.Doc) != doc {
		t.Errorf("document %q", d.Doc)
	}
	d.Doc = nil
	need := uint32(plugin.NeedGID | plugin.NeedOffsets | plugin.NeedData | plugin.NeedRuns)
	if d.Major != 1 || d.Kinds != plugin.KindAggregate || d.StateSize != 8 || d.StateAlign != 8 ||
		d.Need != need || d.ResultSize != 8 || d.Name != "sum" {
		t.Errorf("described as %+v", d)
	}
}

// The batches of ABI.md are, byte by byte, what the host writes for these rows.
func TestExampleBatches(t *testing.T) {
	f := func(name string, need uint32, before int, b *record.Batch, gid []uint32, groups int) {
		t.Helper()
		h := newTestHost(t, Options{})
		m := mustLoad(t, h, good(probe(need)))
		defer m.Close()
		a, err := m.NewAggregate(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		for range before + 1 {
			if err := a.Add(t.Context(), b, gid, groups); err != nil {
				t.Fatal(err)
			}
		}
		want := abiExample(t, name)
		got, ok := a.guest.memory.Read(a.columns.region, uint32(len(want)))
		if !ok || string(got) != string(want) {
			t.Errorf("%s at %#x:\n%s\nABI.md has\n%s", name, a.columns.region, hex.Dump(got),
				hex.Dump(want))
		}
	}
	var mixed, dense record.Batch
	for i, payload := range [][]byte{{10, 11}, {}, {20, 21, 22}} {
		mixed.Append(record.Key{MID: []int64{7, -1, 7}[i]}, payload)
	}
	for _, x := range []float64{1.5, -2, 1e300} {
		dense.Append(record.Key{}, binary.LittleEndian.AppendUint64(nil, math.Float64bits(x)))
	}
	all := uint32(plugin.NeedGID | plugin.NeedOffsets | plugin.NeedData | plugin.NeedRuns)
	f("batch", plugin.NeedMID|all, 0, &mixed, []uint32{0, 1, 0}, 2)
	f("dense", all, 1, &dense, nil, 1)
	var series record.Batch
	for _, mid := range []int64{7, 7, -1} {
		series.Append(record.Key{CID: 1, MID: mid, MOID: 5}, nil)
	}
	f("series", plugin.NeedSeries, 0, &series, nil, 1)
}

// What init returns is how much of payloads is read.
func TestFront(t *testing.T) {
	h := newTestHost(t, Options{})
	for _, front := range []uint32{0, 16, math.MaxInt32} {
		m := mustLoad(t, h, good(func(a *asm) { a.replace(exportInit, "", i32c(int32(front))) }))
		a, err := m.NewAggregate(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		f, err := m.NewFilter(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if a.PayloadPrefix() != front || f.PayloadPrefix() != front {
			t.Errorf("prefixes of %d and %d bytes, want %d", a.PayloadPrefix(),
				f.PayloadPrefix(), front)
		}
		for _, close := range []func() error{a.Close, f.Close, m.Close} {
			if err := close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// What finish writes in the example of ABI.md is taken apart as it says.
func TestExampleResults(t *testing.T) {
	all, ends, err := appendResults(nil, nil, abiExample(t, "results"), 3, 0)
	if err != nil || string(all) != "helloptd1" || len(ends) != 3 || ends[0] != 5 || ends[1] != 5 {
		t.Errorf("%q, %v, %v", all, ends, err)
	}
}

// Programs of Go's linker have many data segments; those of others have few.
func TestManySegments(t *testing.T) {
	h := newTestHost(t, Options{GoProfile: true})
	many := func(a *asm) {
		for i := range uint32(maxSegments) {
			a.data[8192+i] = []byte{1}
		}
	}
	refuse(t, h, "plain", good(many), "data segments, at most 10000")
	m := mustLoad(t, h, good(func(a *asm) {
		many(a)
		a.imports = []importFunc{{module: wasiModule, name: "sched_yield", typ: 1}}
	}))
	defer m.Close()
	checkGood(t, m)
}
