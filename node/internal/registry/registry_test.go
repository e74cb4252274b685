package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/plugins"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/pentad-db/pentad/wasmhost"
)

// openTest opens a registry with hosts of its own.
func openTest(t *testing.T, dir string, log *slog.Logger) *Registry {
	t.Helper()
	host, err := wasmhost.New(t.Context(), wasmhost.Options{})
	if err != nil {
		t.Fatal(err)
	}
	adHoc, err := wasmhost.New(t.Context(), wasmhost.Options{ShareWith: host})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(t.Context(), Options{Dir: dir, Host: host, AdHocHost: adHoc, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.Close() // some tests close its file
		if err := errors.Join(host.Close(context.Background()),
			adHoc.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	return r
}

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

// The modules that no query uses stay as long as there is space: the one that was used last stays
// longest, and all go for one that needs the space.
func TestAdHocCached(t *testing.T) {
	r := openTest(t, t.TempDir(), slog.New(slog.DiscardHandler))
	ask := func(tag string) {
		t.Helper()
		v, err := r.useAdHoc(t.Context(), "mine", variant(t, "count", tag))
		if err != nil {
			t.Fatal(err)
		}
		r.Unpin(v)
	}
	for i := range maxIdle + 1 {
		ask(fmt.Sprint(i))
		ask("0")
	}
	s, kept := r.adHocHost.Stats(), &r.adHoc
	if s.Compiles != maxIdle+1 || s.Modules != maxIdle || r.Count().AdHocBytes != 0 {
		t.Errorf("%+v, %d are kept", s, len(kept.idle))
	}
	ask("1") // went for the last one
	if again := r.adHocHost.Stats(); again.Compiles != s.Compiles+1 {
		t.Errorf("%d were compiled, then %d", s.Compiles, again.Compiles)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if kept.reserve(maxAdHocBytes + 1) {
		t.Error("there is space for more than the most")
	}
	if !kept.reserve(maxAdHocBytes) || len(kept.idle) != 0 || r.adHocHost.Stats().Modules != 0 {
		t.Errorf("%d are kept beside one that needs all the space", len(kept.idle))
	}
	kept.bytes = 0
	r.mu.Unlock()
	const large = 200 << 10
	for i := range maxIdleBytes/large + 3 {
		padding := make([]byte, large) // a section that nothing reads, without a name
		padding[1] = byte(i)
		size := []byte{0, 0x80 | large&0x7f, 0x80 | large>>7&0x7f, large >> 14}
		v, err := r.useAdHoc(t.Context(), "mine", slices.Concat(standardModule(t, "count"),
			size, padding))
		if err != nil {
			t.Fatal(err)
		}
		r.Unpin(v)
	}
	r.mu.Lock()
	if kept.bytes != kept.idleBytes || len(kept.idle) != len(kept.modules) ||
		kept.idleBytes > maxIdleBytes ||
		kept.idleBytes < maxIdleBytes-2*large {
		t.Errorf("%d are kept, of %d bytes", len(kept.idle), kept.idleBytes)
	}
}

// A start compiles the standard plugins only; the others follow, or come when they are asked for.
func TestPluginsAreLoadedAfterTheStart(t *testing.T) {
	first := openTest(t, t.TempDir(), slog.New(slog.DiscardHandler))
	for i := range 5 {
		_, err := first.Push(t.Context(), Upload{Name: fmt.Sprint("mine", i),
			Wasm: variant(t, "count", fmt.Sprint(i))})
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "plugins")
	if err := first.CopyTo(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	var told bytes.Buffer
	r := openTest(t, dir, slog.New(slog.NewTextHandler(&told, nil)))
	standard := len(r.standard.Plugins)
	if m := r.host.Stats().Modules; m != standard || len(r.List()) != standard+5 {
		t.Errorf("%d modules after the start, %d of %d plugins", m, len(r.List()), standard+5)
	}
	v, err := r.Use(t.Context(), "mine3")
	if err != nil {
		t.Fatal(err)
	}
	r.Unpin(v)
	if m := r.host.Stats().Modules; m != standard+1 {
		t.Errorf("%d modules after one was asked for", m)
	}
	r.Load(t.Context())
	if m := r.host.Stats().Modules; m != standard+5 || !strings.Contains(told.String(), "count=5") {
		t.Errorf("%d modules in the end, and the log has %q", m, told.String())
	}
}

// TestPushOfUnknownFate: when it is unknown whether the line of an upload is on disk, its module
// stays: after a restart the line may say that it is the current one.
func TestPushOfUnknownFate(t *testing.T) {
	dir := t.TempDir()
	r := openTest(t, dir, slog.New(slog.DiscardHandler))
	if err := r.file.Close(); err != nil { // writing fails, and not for lack of space
		t.Fatal(err)
	}
	wasm := variant(t, "count", "1")
	_, err := r.Push(t.Context(), Upload{Name: "mine", Wasm: wasm})
	if !errors.Is(err, catalog.ErrFailed) {
		t.Errorf("%v", err)
	}
	if kept, err := os.ReadFile(r.path(Digest(wasm))); !bytes.Equal(kept, wasm) {
		t.Errorf("%d bytes of %d are left, %v", len(kept), len(wasm), err)
	}
	_ = r.Close() // the catalogue is closed already
	r = openTest(t, dir, slog.New(slog.DiscardHandler))
	if _, err := r.Use(t.Context(), "mine"); !isUnknown(err) {
		t.Errorf("%v", err)
	}
}

// One name and one owner have a bounded part of all versions. One that is there may be pushed
// again.
func TestPluginVersionsBounded(t *testing.T) {
	r := openTest(t, t.TempDir(), slog.New(slog.DiscardHandler))
	wasm := variant(t, "count", "1")
	fillUp := func(owner string, versions int, name func(i int) string) {
		t.Helper()
		for i := range versions {
			err := r.change(t.Context(), &catalog.Change{Push: &catalog.Push{
				Name: name(i), Version: catalog.Version{Owner: owner, Bytes: 1,
					SHA256: Digest(fmt.Appendf(nil, "%s %d", owner, i))}}}, nil)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	push := func(name, owner string, wasm []byte) error {
		_, err := r.Push(t.Context(), Upload{Name: name, Owner: owner, Wasm: wasm})
		return err
	}
	if err := push("full", "", wasm); err != nil {
		t.Fatal(err)
	}
	fillUp("", maxVersionsOfName-1, func(int) string { return "full" })
	isKind(t, push("full", "ann", variant(t, "count", "2")), wire.KindTooLarge,
		`plugin "full" has 256 versions`)
	fillUp("bob", maxVersionsOfOwner, func(i int) string { return fmt.Sprint("bobs", i%16) })
	isKind(t, push("new", "bob", wasm), wire.KindTooLarge, `owner "bob" has 1024 versions`)
	for _, again := range []error{push("full", "", wasm), push("new", "ann", wasm)} {
		if again != nil {
			t.Error(again)
		}
	}
}

func TestFailuresAreBounded(t *testing.T) {
	var f Failures
	for i := range 100 {
		f.Add(api.PluginFailure{Plugin: "noisy", TimeNs: int64(i)})
	}
	f.Add(api.PluginFailure{Plugin: "rare", TimeNs: 100})
	noisy := f.Of("noisy")
	if len(noisy) != maxPluginFailures || noisy[0].TimeNs != 99 || len(f.Of("rare")) != 1 {
		t.Errorf("%d noisy ones, the newest of %d", len(noisy), noisy[0].TimeNs)
	}
	for i := range 2 * maxFailures {
		f.Add(api.PluginFailure{Plugin: fmt.Sprint(i)})
	}
	if all := f.Of(""); len(all) != maxFailures || all[0].Plugin != fmt.Sprint(2*maxFailures-1) {
		t.Errorf("%d, the newest %+v", len(all), all[0])
	}
}
