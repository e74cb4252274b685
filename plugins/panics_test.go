package plugins_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

func loadFile(t *testing.T, path string) *wasmhost.Module {
	t.Helper()
	wasm, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return load(t, newHost(t), wasm)
}

// odd is a filter that keeps odd devices or fails as it is told, written once per language.
type odd struct {
	module *wasmhost.Module
	doc    *plugin.Doc
}

// keep runs it over devices 7, 8 and 9.
func (o *odd) keep(t *testing.T, fail string) (uint64, error) {
	t.Helper()
	f, err := o.module.NewFilter(t.Context(), encode(t, o.doc, map[string]string{"fail": fail}))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var b record.Batch
	for mid := range int64(3) {
		b.Append(record.Key{MID: 7 + mid}, nil)
	}
	kept := make([]uint64, 1)
	err = f.Keep(t.Context(), &b, kept)
	return kept[0], err
}

// TestPanics holds what becomes of a panic, an error and lines that are noted in each language.
func TestPanics(t *testing.T) {
	f := func(path, file string, texts map[string]string) {
		t.Helper()
		o := &odd{}
		if filepath.Ext(path) == ".wasm" {
			o.module = loadFile(t, path)
		} else {
			o.module = load(t, newHost(t), buildGo(t, path))
		}
		var err error
		if o.doc, err = plugin.ParseDoc(o.module.Describe().Doc); err != nil {
			t.Fatal(err)
		}
		if kept, err := o.keep(t, "no"); kept != 0b101 || err != nil {
			t.Errorf("%s: kept %b, %v", path, kept, err)
		}
		_, err = o.keep(t, "status")
		wantStatus(t, err, -123, `"batch 0 is refused"`)
		_, err = o.keep(t, "note")
		wantStatus(t, err, -123, `"mid 7\nmid 8\nmid 9\nbatch 0 is refused"`)
		for fail, text := range texts {
			_, err := o.keep(t, fail)
			var e *wasmhost.Error
			if !errors.As(err, &e) || e.Kind != wasmhost.Trap ||
				!strings.HasPrefix(e.Message, text) || !utf8.ValidString(e.Message) ||
				!strings.Contains(e.Message, file) && len(e.Message) < 1020 {
				t.Errorf("%s, %s: error %v, want a trap that says %q and where", path, fail, err,
					text)
				continue
			}
			if !strings.Contains(e.Reason, e.Export) && !strings.Contains(e.Reason, "exited") {
				t.Errorf("%s, %s: %q does not name the function", path, fail, e.Reason)
			}
		}
	}
	f("../sdk/plugin/c/testdata/odd.wasm", "", map[string]string{
		"init":  "told to fail in init",
		"throw": "mid 7 is not to my taste",
		"long":  "é€😀aaaa",
	})
	f("./testdata/odd", " in main.(*odd).", map[string]string{
		"init":  "panic: told to fail in init",
		"index": "panic: runtime error: index out of range [3] with length 3",
		"throw": "panic: mid 7 is not to my taste",
		"long":  "panic: é€😀aaaa",
	})
	f("../sdk/plugin/rust/testdata/odd.wasm", "plugin.rs:", map[string]string{
		"init":  "panicked at 'told to fail in init', ",
		"index": "panicked at 'index out of bounds: the len is 3 but the index is 3', ",
		"throw": "panicked at 'mid 7 is not to my taste', ",
		"long":  "panicked at 'é€😀aaaa",
	})
	f("../sdk/plugin/as/testdata/odd.wasm", ".ts:", map[string]string{
		"init":  "told to fail in init at ",
		"index": "Index out of range at ~lib/array",
		"throw": "mid 7 is not to my taste at ",
		"long":  "é€😀aaaa",
	})
}

// TestRustResultsThatDiffer has more groups than fit into the first room for results.
func TestRustResultsThatDiffer(t *testing.T) {
	const groups = 700
	m := loadFile(t, "../sdk/plugin/rust/testdata/marks.wasm")
	a := newAggregate(t, m, nil)
	var b record.Batch
	var gid []uint32
	for group := range uint32(groups) {
		for range group {
			b.Append(record.Key{}, nil)
			gid = append(gid, group)
		}
	}
	if err := a.Add(t.Context(), &b, gid, groups); err != nil {
		t.Fatal(err)
	}
	results, err := a.Finish(t.Context())
	if err != nil || len(results) != groups {
		t.Fatalf("%d results, %v", len(results), err)
	}
	for group, result := range results {
		if string(result) != strings.Repeat("x", group) {
			t.Errorf("group %s: %q", strconv.Itoa(group), result)
		}
	}
}
