package node

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// variant is a standard module with a digest of its own: a section that nothing reads is added.
func variant(t *testing.T, name, tag string) []byte {
	t.Helper()
	wasm := bytes.Clone(standardModule(t, name))
	wasm = append(wasm, 0, byte(1+len(tag)), byte(len(tag)))
	return append(wasm, tag...)
}

func isKind(t *testing.T, err error, kind wire.Kind, want string) {
	t.Helper()
	var remote *wire.Error
	if !errors.As(err, &remote) || remote.Kind != kind || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %v with %q", err, kind, want)
	}
}

func TestPluginVersions(t *testing.T) {
	dir := t.TempDir()
	n := openTest(t, Options{Dir: dir})
	c := dial(t, n)
	rows := uint64(len(fill(t, c, rand.New(rand.NewPCG(1, 1)), 100)))
	first, second := variant(t, "count", "1"), variant(t, "stats", "2")
	one, err := c.PushVersion(t.Context(), client.PluginPush{Name: "mine", Owner: "ann",
		Description: "counts & more", Wasm: first})
	if err != nil || !one.Current || one.Owner != "ann" || one.Description != "counts & more" ||
		one.Bytes != int64(len(first)) || one.SHA256 != registry.Digest(first) ||
		one.UploadedNs == 0 {
		t.Fatalf("%+v, %v", one, err)
	}
	two, err := c.PushPlugin(t.Context(), "mine", second)
	if err != nil || two.Versions != 2 {
		t.Fatalf("%+v, %v", two, err)
	}
	size := func(ref string) int {
		t.Helper()
		groups, _, err := c.Aggregate(t.Context(),
			&record.Query{Aggregate: record.PluginCall{Name: ref}})
		if err != nil || len(groups) != 1 || groups[0].Records != rows {
			t.Fatalf("%s: %+v, %v", ref, groups, err)
		}
		return len(groups[0].Result)
	}
	counts, statistics := size("count"), size("stats")
	if size("mine") != statistics || size("mine@"+one.SHA256[:8]) != counts ||
		size(one.Ref()) != counts {
		t.Error("a name means another version than the newest, or a digest another one")
	}
	if _, err := c.PromotePlugin(t.Context(), one.Ref()); err != nil || size("mine") != counts {
		t.Errorf("promoted: %v, result of %d bytes", err, size("mine"))
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	n = openTest(t, Options{Dir: dir})
	c = dial(t, n)
	if size("mine") != counts || size(two.Ref()) != statistics {
		t.Error("a restart forgot which version is current")
	}
	shown, err := c.Plugin(t.Context(), "mine")
	if err != nil || len(shown.History) != 2 || shown.History[0].SHA256 != two.SHA256 ||
		shown.History[0].Current || !shown.History[1].Current || shown.Limits == nil ||
		shown.Limits.MemoryBytes != 16<<20 || shown.Limits.FuelRow != 512 ||
		shown.Limits.GroupStateBytes != 8 || len(shown.Doc) == 0 {
		t.Errorf("%+v, %v", shown, err)
	}

	_, err = c.RemovePlugin(t.Context(), one.Ref())
	isKind(t, err, wire.KindInvalid, "promote another")
	count, err := c.RemovePlugin(t.Context(), "mine@"+two.SHA256[:12])
	if count != 1 || err != nil {
		t.Errorf("%d, %v", count, err)
	}
	_, err = c.Plugin(t.Context(), two.Ref())
	isKind(t, err, wire.KindUnknownPlugin, "0 of the 1 versions")
	if count, err := c.RemovePlugin(t.Context(), "mine"); count != 1 || err != nil {
		t.Errorf("%d, %v", count, err)
	}
	_, err = c.Plugin(t.Context(), "mine")
	isKind(t, err, wire.KindUnknownPlugin, "pentad plugin ls and GET")
	if left, err := filepath.Glob(filepath.Join(dir, "plugins", "*.wasm")); len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

func TestPluginRefusals(t *testing.T) {
	n := openTest(t, Options{})
	c := dial(t, n)
	wasm := variant(t, "count", "1")
	_, err := c.PushVersion(t.Context(), client.PluginPush{Name: "a", Owner: "pentad", Wasm: wasm})
	isKind(t, err, wire.KindInvalid, "reserved for the standard")
	_, err = c.PushVersion(t.Context(), client.PluginPush{Name: "a", Owner: "x\ny", Wasm: wasm})
	isKind(t, err, wire.KindInvalid, "cannot be shown")
	_, err = c.PushVersion(t.Context(), client.PluginPush{Name: "a", Wasm: wasm,
		Description: strings.Repeat("x", 1025)})
	isKind(t, err, wire.KindInvalid, "1025 bytes")
	_, err = n.PushPlugin(t.Context(), PluginPush{Name: "a@01234567", Wasm: wasm})
	if toWire(err).Kind != wire.KindInvalid {
		t.Errorf("%v", err)
	}
	standard, err := c.Plugin(t.Context(), "stats")
	if err != nil || standard.Owner != "pentad" || !standard.Standard || !standard.Current {
		t.Fatalf("%+v, %v", standard, err)
	}
	for _, ref := range []string{"stats", standard.Ref()} {
		_, err = c.RemovePlugin(t.Context(), ref)
		isKind(t, err, wire.KindForbidden, "standard plugin")
		_, err = c.PromotePlugin(t.Context(), ref)
		isKind(t, err, wire.KindForbidden, "standard plugin")
	}
	_, err = c.PromotePlugin(t.Context(), "nobody")
	isKind(t, err, wire.KindUnknownPlugin, "nobody")
	_, err = c.PushPlugin(t.Context(), "a", []byte("text"))
	isKind(t, err, wire.KindBadModule, "refused")
	entries, err := os.ReadDir(filepath.Join(n.opt.Dir, "plugins"))
	if err != nil || len(entries) != 2 {
		t.Errorf("%v, %v: want the catalogue and the cache", entries, err)
	}
}

// TestRemovedInUse removes a filter while a query runs in it, before most of its workers and
// batches have begun.
func TestRemovedInUse(t *testing.T) {
	n := openTest(t, Options{})
	c := dial(t, n)
	rows := len(fill(t, c, rand.New(rand.NewPCG(1, 1)), 20_000))
	before := n.host.Stats().Modules
	if _, err := c.PushPlugin(t.Context(), "mine", variant(t, "threshold", "1")); err != nil {
		t.Fatal(err)
	}
	call, err := parseCallOf(t, n, "mine", "op=ge,value=-1")
	if err != nil {
		t.Fatal(err)
	}
	batches := 0
	q := &record.Query{Filters: []record.PluginCall{call}}
	end, err := n.Query(t.Context(), q, func(*record.Batch) error {
		if batches++; batches > 1 {
			return nil
		}
		if n.host.Stats().Modules != before+1 {
			t.Errorf("%d modules", n.host.Stats().Modules)
		}
		_, err := n.RemovePlugin("mine")
		return err
	})
	if err != nil || end.Rows != uint64(rows) || batches < 2 {
		t.Errorf("%d rows in %d batches, %v", end.Rows, batches, err)
	}
	if n.host.Stats().Modules != before {
		t.Errorf("%d modules are left of %d", n.host.Stats().Modules, before)
	}
}

// TestPluginLeftovers begins with what an upload or a removal leaves behind that was cut short.
func TestPluginLeftovers(t *testing.T) {
	dir := t.TempDir()
	n := openTest(t, Options{Dir: dir})
	wasm := variant(t, "count", "1")
	if _, err := n.PushPlugin(t.Context(), PluginPush{Name: "mine", Wasm: wasm}); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	stray := variant(t, "count", "2")
	for name, data := range map[string][]byte{registry.Digest(stray) + ".wasm": stray,
		registry.Digest(stray) + ".wasm.tmp": stray[:10], "CATALOG.tmp": nil} {
		if err := os.WriteFile(filepath.Join(dir, "plugins", name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n = openTest(t, Options{Dir: dir})
	var names []string
	entries, err := os.ReadDir(filepath.Join(n.opt.Dir, "plugins"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"CATALOG", "cache", registry.Digest(wasm) + ".wasm"}; len(names) != 3 ||
		!slices.Contains(names, want[2]) {
		t.Errorf("%q, want %q", names, want)
	}
}

// TestDamagedPlugins damages modules and the catalogue: each is named, the node starts with the
// rest, nothing that may be wanted is removed, and an upload heals.
func TestDamagedPlugins(t *testing.T) {
	dir := t.TempDir()
	n := openTest(t, Options{Dir: dir})
	modules := map[string][]byte{}
	for i, name := range []string{"bent", "gone", "lost", "well"} {
		modules[name] = variant(t, "count", fmt.Sprint(i))
		_, err := n.PushPlugin(t.Context(), PluginPush{Name: name, Wasm: modules[name]})
		if err != nil {
			t.Fatal(err)
		}
	}
	path := func(name string) string { return modulePath(n, modules[name]) }
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	bent := bytes.Clone(modules["bent"])
	bent[len(bent)/2] ^= 1
	catalogue := filepath.Join(dir, "plugins", catalog.Name)
	text, err := os.ReadFile(catalogue)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.WriteFile(path("bent"), bent, 0o600), os.Remove(path("gone")),
		os.WriteFile(catalogue, bytes.Replace(text, []byte(`"lost"`), []byte(`"l0st"`), 1), 0o600))
	if err != nil {
		t.Fatal(err)
	}

	expectDamage(t, openTest(t, Options{Dir: dir}), modules)
}

func expectDamage(t *testing.T, n *Node, modules map[string][]byte) {
	t.Helper()
	c := dial(t, n)
	(&nodesTogether{T: t}).until("the modules were looked at", func() bool {
		return n.plugins.Count().Damaged == 3 // with the line of the catalogue
	})
	damage := map[string]string{}
	all, err := c.Plugins(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if !p.Standard {
			damage[p.Name] = p.Damage
		}
	}
	if _, ok := damage["lost"]; ok || len(damage) != 3 || damage["well"] != "" ||
		!strings.Contains(damage["bent"],
			registry.Digest(modules["bent"])+".wasm has another digest") ||
		!strings.Contains(damage["gone"], registry.Digest(modules["gone"])+".wasm is missing") {
		t.Errorf("%q", damage)
	}
	if d := n.plugins.Damage(); len(d) != 1 || d[0] != "CATALOG line 4: checksum differs" {
		t.Errorf("%q", d)
	}
	if _, err := os.Stat(modulePath(n, modules["lost"])); err != nil {
		t.Errorf("a module whose name was lost: %v", err)
	}
	run := func(name string) error {
		_, _, err := c.Aggregate(t.Context(),
			&record.Query{Aggregate: record.PluginCall{Name: name}})
		return err
	}
	isKind(t, run("bent"), wire.KindDamaged, "push the module again")
	isKind(t, run("gone"), wire.KindDamaged, "is missing")
	if err := run("well"); err != nil {
		t.Error(err)
	}
	shown, err := c.Plugin(t.Context(), "bent")
	if err != nil || shown.Damage == "" || shown.Limits != nil || len(shown.History) != 1 {
		t.Errorf("%+v, %v", shown, err)
	}
	if _, err := c.PushPlugin(t.Context(), "bent", modules["bent"]); err != nil {
		t.Error(err)
	}
	if _, err := c.RemovePlugin(t.Context(), "gone"); err != nil {
		t.Error(err)
	}
	if err := run("bent"); err != nil {
		t.Error(err)
	}
	if counts := n.plugins.Count(); counts.Damaged != 1 || counts.Versions != 2 {
		t.Errorf("%+v", counts)
	}
}

// What a module compiles to goes when no name means it any more, and at the next start when it
// belongs to none.
func TestCodeGoes(t *testing.T) {
	dir := t.TempDir()
	n := openTest(t, Options{Dir: dir})
	c := dial(t, n)
	cached := func() int {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(dir, "plugins", "cache", "*", "owners", "*"))
		if err != nil || len(found) == 0 {
			t.Fatalf("%v, %v", found, err)
		}
		return len(found)
	}
	standard := cached()
	wasm := variant(t, "count", "1")
	for _, name := range []string{"one", "two"} {
		if _, err := c.PushPlugin(t.Context(), name, wasm); err != nil {
			t.Fatal(err)
		}
	}
	if cached() != standard+1 {
		t.Errorf("%d modules have code, %d are standard", cached(), standard)
	}
	for i, name := range []string{"one", "two"} {
		if _, err := c.RemovePlugin(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if cached() != standard+1-i {
			t.Errorf("without %s %d modules have code, %d are standard", name, cached(), standard)
		}
	}
	if _, err := c.PushPlugin(t.Context(), "gone", wasm); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"CATALOG", registry.Digest(wasm) + ".wasm"} {
		if err := os.Remove(filepath.Join(dir, "plugins", name)); err != nil {
			t.Fatal(err)
		}
	}
	openTest(t, Options{Dir: dir})
	if cached() != standard {
		t.Errorf("after a start %d modules have code, %d are standard", cached(), standard)
	}
}
