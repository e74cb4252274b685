package plugin_test

import (
	"encoding/binary"
	"encoding/hex"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/plugins"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/wasmhost"
)

// examples returns the hex examples of ABI.md by name.
func examples(t *testing.T) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("ABI.md")
	if err != nil {
		t.Fatal(err)
	}
	found, name := map[string][]byte{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```hex "):
			name = strings.TrimPrefix(line, "```hex ")
		case strings.HasPrefix(line, "```"):
			name = ""
		case name != "":
			code, _, _ := strings.Cut(line, "#")
			b, err := hex.DecodeString(strings.Join(strings.Fields(code), ""))
			if err != nil {
				t.Fatalf("example %s: %q: %v", name, line, err)
			}
			found[name] = append(found[name], b...)
		}
	}
	if len(found) != 10 {
		t.Fatalf("%d examples, want 10", len(found))
	}
	return found
}

// docs returns the documents of the standard plugins, as a host reads them.
func docs(t *testing.T) map[string]*plugin.Doc {
	t.Helper()
	h, err := wasmhost.New(t.Context(), wasmhost.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close(t.Context()) })
	found := map[string]*plugin.Doc{}
	for _, p := range plugins.Standard() {
		m, err := h.Load(t.Context(), p.Wasm)
		if err != nil {
			t.Fatal(err)
		}
		if found[p.Name], err = plugin.ParseDoc(m.Describe().Doc); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// The examples of parameters and results are what this package writes and reads. Those of batches
// and descriptors are held against the host in wasmhost and against the guest in guest.
func TestExamples(t *testing.T) {
	found, known := examples(t), docs(t)
	params, err := known["threshold"].EncodeParams(map[string]string{"type": "i64", "offset": "4",
		"op": "le", "value": "21.5"})
	if err != nil || string(params) != string(found["params"]) {
		t.Errorf("params are %x, %v; ABI.md has %x", params, err, found["params"])
	}
	fields, err := known["histogram"].Render(found["result"])
	want := []plugin.Value{{Name: "below", Value: uint64(3)}, {Name: "above", Value: uint64(1)},
		{Name: "buckets", Value: []any{uint64(2), uint64(5)}}}
	if err != nil || !reflect.DeepEqual(fields, want) {
		t.Errorf("result is %v, %v; want %v", fields, err, want)
	}
	pairs, err := plugin.ParseDoc([]byte(`{"name":"pairs","params":[{"name":"k","type":"u64"},
		{"name":"label","type":"text","size":8}],"result":[{"name":"label","type":"text"},
		{"name":"since","type":"time"},{"name":"value","type":"f64","repeat":true},
		{"name":"count","type":"u64","repeat":true}]}`))
	if err != nil {
		t.Fatal(err)
	}
	params, err = pairs.EncodeParams(map[string]string{"k": "5", "label": "mean x"})
	if err != nil || string(params) != string(found["params-text"]) {
		t.Errorf("params are %x, %v; ABI.md has %x", params, err, found["params-text"])
	}
	fields, err = pairs.Render(found["result-pairs"])
	want = []plugin.Value{{Name: "label", Value: "top"},
		{Name: "since", Value: plugin.Moment(1_700_000_000_000_000_000)},
		{Name: "value", Value: []any{21.5, 21.0}},
		{Name: "count", Value: []any{uint64(9), uint64(4)}}}
	if err != nil || !reflect.DeepEqual(fields, want) {
		t.Errorf("result is %v, %v; want %v", fields, err, want)
	}
	u32 := func(name string, offset int) uint32 {
		return binary.LittleEndian.Uint32(found[name][offset:])
	}
	if len(found["descriptor"]) != plugin.DescriptorSize ||
		u32("descriptor", 0) != plugin.DescriptorMagic ||
		u32("descriptor", 4) != plugin.MajorVersion {
		t.Errorf("descriptor %x", found["descriptor"])
	}
	for _, name := range []string{"batch", "dense"} {
		if len(found[name]) < plugin.BatchHeaderSize || u32(name, 0) != plugin.BatchMagic {
			t.Errorf("%s %x", name, found[name])
		}
	}
}
