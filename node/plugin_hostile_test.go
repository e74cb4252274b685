package node

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

func hostile(t *testing.T, name string) []byte {
	t.Helper()
	wasm, err := os.ReadFile(filepath.Join("..", "wasmhost", "testdata", "hostile", name+".wasm"))
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// served is a node with rows that is asked after every misdeed whether it still serves.
type served struct {
	*testing.T
	node *Node
	db   *client.Client
	rows int
}

func (s *served) well(after string) {
	s.Helper()
	own, adHoc := s.node.host.Stats(), s.node.adHocHost.Stats()
	if own.Instances+adHoc.Instances > 0 || !lentIdle(s.node) {
		s.Fatalf("after %s: %d and %d instances are left, ad hoc %+v", after,
			own.Instances, adHoc.Instances, s.node.plugins.Count())
	}
	count := 0
	for _, err := range s.db.Query(s.Context(), &record.Query{}) {
		if err != nil {
			s.Fatalf("after %s: %v", after, err)
		}
		count++
	}
	groups, _, err := s.db.Aggregate(s.Context(), &record.Query{
		Aggregate: record.PluginCall{Name: "count"}})
	if err != nil || len(groups) != 1 || count != s.rows || groups[0].Records != uint64(s.rows) {
		s.Fatalf("after %s: %d rows, groups %v, %v", after, count, groups, err)
	}
	if _, err := s.db.Put(s.Context(), &record.Batch{CID: []int32{9}, MID: []int64{1},
		MOID: []int32{1}, CapNs: []int64{1}}, [16]byte{}, 0); err != nil {
		s.Fatalf("after %s: put: %v", after, err)
	}
	s.rows++
}

// expectHostileFault wants an error of a plugin to say who did what, and an error of a plugin that
// ran how far it came.
func expectHostileFault(t *testing.T, name string, e *wire.Error) {
	t.Helper()
	what := map[string]string{"init-spin": "fuel", "add-spin": "fuel", "finish-spin": "fuel",
		"filter-spin": "fuel", "merge-spin": "fuel", "add-grow": "fuel",
		"add-write-outside": "trap", "filter-write-outside": "trap", "add-trap": "trap",
		"alloc-outside": "output", "finish-too-long": "output", "alloc-twice": "output",
		"add-recursion": "fuel", "finish-too-short": "output", "add-status": "status"}[name]
	f, ok := e.Fault()
	switch {
	case e.Kind == wire.KindUnknownPlugin:
	case what == "": // an upload
		if !ok || len(f.SHA256) != 64 {
			t.Errorf("%s: %+v of %+v", name, f, e)
		}
	case !ok || f.What != what || f.Plugin != name ||
		f.SHA256 != registry.Digest(hostile(t, name)) ||
		!strings.HasPrefix(f.Export, "pentad_") || f.FuelUsed == 0 || f.MemoryBytes < 65536:
		t.Errorf("%s: %+v of %+v", name, f, e)
	case f.Export == "pentad_add" && (f.First == nil || f.Last == nil || f.Records == 0),
		f.Export == "pentad_filter" && f.Records == 0:
		t.Errorf("%s does not say in which records: %+v", name, f)
	}
}

// is wants an error of a kind, and the node to serve on.
func (s *served) is(name string, err error, kind wire.Kind, want string) {
	s.Helper()
	var remote *wire.Error
	if !errors.As(err, &remote) || remote.Kind != kind || !strings.Contains(err.Error(), want) {
		s.Fatalf("%s: %v, want %v with %q", name, err, kind, want)
	}
	expectHostileFault(s.T, name, remote)
	s.well(name)
}

// refused pushes a module that must not become a plugin.
func (s *served) refused(name string, wasm []byte, kind wire.Kind, want string) {
	s.Helper()
	_, err := s.db.PushPlugin(s.Context(), name, wasm)
	s.is("push of "+name, err, kind, want)
	_, _, err = s.db.Aggregate(s.Context(),
		&record.Query{Aggregate: record.PluginCall{Name: name}})
	s.is("run of "+name, err, wire.KindUnknownPlugin, name)
}

// TestHostileModules runs modules that loop for ever, grow without end, write outside of their
// memory and answer lengths out of range: each is refused or stopped with a kind of its own, and
// the node serves on.
func TestHostileModules(t *testing.T) {
	n := openTest(t, Options{})
	s := &served{t, n, dial(t, n), 0}
	fill(t, s.db, rand.New(rand.NewPCG(1, 1)), 5000)
	s.rows = 5000
	good := hostile(t, "good")
	s.refused("text", []byte("#!/bin/sh"), wire.KindBadModule, "not a WebAssembly module")
	s.refused("empty", nil, wire.KindBadModule, "not a WebAssembly module")
	s.refused("cut", good[:len(good)/2], wire.KindBadModule, "")
	s.refused("exports-missing", hostile(t, "exports-missing"), wire.KindBadModule, "pentad_init")
	s.refused("memory-too-large", hostile(t, "memory-too-large"), wire.KindBadModule, "at most 256")
	s.refused("init-branches", hostile(t, "init-branches"), wire.KindBadModule, "3000 branches")
	s.refused("start-spin", hostile(t, "start-spin"), wire.KindPluginLimit, "out of fuel")
	s.refused("describe-spin", hostile(t, "describe-spin"), wire.KindPluginLimit, "out of fuel")

	if err := n.Settle(t.Context()); err != nil { // so that parts of blocks go apart
		t.Fatal(err)
	}
	push := func(name string) {
		t.Helper()
		if _, err := s.db.PushPlugin(t.Context(), name, hostile(t, name)); err != nil {
			t.Fatal(err)
		}
	}
	params := make([]byte, 8)
	aggregate := func(name string, kind wire.Kind, want string) {
		t.Helper()
		push(name)
		_, _, err := s.db.Aggregate(t.Context(), &record.Query{
			Box:       record.Box{record.CID: {{From: 0, To: 3}}}, // all have payloads of 8 bytes
			Aggregate: record.PluginCall{Name: name, Params: params}})
		s.is(name, err, kind, want)
		_, _, err = s.db.Aggregate(t.Context(), &record.Query{
			Box: record.Box{record.CID: {{From: 0, To: 3}}},
			Aggregate: record.PluginCall{Name: name, Params: params,
				Module: hostile(t, name)}})
		s.is(name, err, kind, want)
	}
	filter := func(name string, kind wire.Kind, want string) {
		t.Helper()
		push(name)
		_, err := s.db.Scan(t.Context(), &record.Query{
			Filters: []record.PluginCall{{Name: name, Params: params}}},
			func(*record.Batch) error { return nil })
		s.is(name, err, kind, want)
	}
	aggregate("init-spin", wire.KindPluginLimit, "pentad_init: out of fuel")
	aggregate("add-spin", wire.KindPluginLimit, "pentad_add: out of fuel")
	push("merge-spin") // nothing is merged before it is asked for again
	if _, _, err := s.db.Aggregate(t.Context(), &record.Query{
		Box:       record.Box{record.CID: {{From: 0, To: 3}}},
		Aggregate: record.PluginCall{Name: "merge-spin", Params: params}}); err != nil {
		t.Fatal(err)
	}
	aggregate("merge-spin", wire.KindPluginLimit, "pentad_merge: out of fuel")
	aggregate("finish-spin", wire.KindPluginLimit, "pentad_finish: out of fuel")
	aggregate("add-grow", wire.KindPluginLimit, "pentad_add: out of fuel")
	aggregate("add-write-outside", wire.KindPluginFailed, "out of bounds memory access")
	aggregate("alloc-outside", wire.KindPluginFailed, "outside of the memory")
	aggregate("alloc-twice", wire.KindPluginFailed, "overlap")
	aggregate("add-recursion", wire.KindPluginLimit, "calls nest too deep")
	aggregate("finish-too-long", wire.KindPluginFailed, "says it wrote")
	aggregate("finish-too-short", wire.KindPluginFailed, "pentad_finish")
	aggregate("add-trap", wire.KindPluginFailed, "unreachable")
	aggregate("add-status", wire.KindPluginFailed, "status -123")
	filter("filter-spin", wire.KindPluginLimit, "pentad_filter: out of fuel")
	filter("filter-write-outside", wire.KindPluginFailed, "out of bounds memory access")
}
