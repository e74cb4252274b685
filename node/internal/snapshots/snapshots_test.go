package snapshots

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/node/internal/cursors"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/nodecursors"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// openTest returns the snapshots of a node that is in no cluster, without plugins. Its store has a
// record, and its cursor is far above.
func openTest(t *testing.T) *Folder {
	t.Helper()
	dir := t.TempDir()
	s, _, err := store.Open(t.Context(), store.Options{Dir: filepath.Join(dir, "store")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, store.ErrClosed) {
			t.Error(err)
		}
	})
	put(t, s)
	file, err := nodecursors.OpenFile(filepath.Join(dir, "cursors"), false,
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	if err := file.Commit(cursors.Cursor{Name: "bill", AcqNs: 1 << 62}, false); err != nil {
		t.Fatal(err)
	}
	in := new(atomic.Pointer[member.Member])
	return &Folder{Dir: filepath.Join(dir, "snapshots"), Store: s, Member: in,
		Plugins: new(registry.Registry),
		Cursors: &nodecursors.Cursors{File: file, Member: in, Open: t.Context()}}
}

func put(t *testing.T, s *store.Store) {
	t.Helper()
	var b record.Batch
	b.Append(record.Key{CID: 1, MID: 2, MOID: 3}, []byte("four"))
	if _, err := s.Put(t.Context(), &b, store.WriterSeq{}); err != nil {
		t.Fatal(err)
	}
}

func (f *Folder) must(t *testing.T, name string) api.Snapshot {
	t.Helper()
	info, err := f.Create(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// left wants these names in the folder, and nothing else.
func (f *Folder) left(t *testing.T, when string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(f.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q are left, want %q", when, got, want)
	}
}

func isKind(err error, kind wire.Kind) bool {
	return err != nil && nodeerror.ToWire(err).Kind == kind
}

func makeDir(t *testing.T, names ...string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(names...), 0o755); err != nil {
		t.Fatal(err)
	}
}

// A snapshot has the store, the catalogue and the cursors, opens by itself, and is listed.
func TestCreate(t *testing.T) {
	f := openTest(t)
	makeDir(t, f.Dir, "one.tmp", "store") // of a crash
	info := f.must(t, "one")
	if info.Name != "one" || info.Dir != filepath.Join(f.Dir, "one") || info.AcqNs == 0 ||
		info.Bytes == 0 || info.Acq != record.FormatNs(info.AcqNs) {
		t.Errorf("%+v", info)
	}
	f.left(t, "created", "one")
	all, err := f.List()
	if err != nil || len(all) != 1 || fmt.Sprint(all[0]) != fmt.Sprint(info) {
		t.Errorf("%+v, %v, want %+v", all, err, info)
	}
	if _, err := os.Stat(filepath.Join(info.Dir, "plugins", catalog.Name)); err != nil {
		t.Error(err)
	}
	put(t, f.Store) // it is no part of it
	file, err := cursors.Open(filepath.Join(info.Dir, "cursors"))
	if err != nil {
		t.Fatal(err)
	}
	if c, err := file.Get("bill"); err != nil || c.AcqNs != info.AcqNs {
		t.Errorf("%+v, %v, want %d", c, err, info.AcqNs)
	}
	s, _, err := store.Open(t.Context(), store.Options{Dir: filepath.Join(info.Dir, "store")})
	if err != nil {
		t.Fatal(err)
	}
	if n, _, err := s.Count(t.Context(), &record.Query{}); err != nil || n != 1 {
		t.Errorf("%d records, %v", n, err)
	}
	if err := errors.Join(s.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
	if all, err := f.List(); err != nil || len(all) > 0 {
		t.Errorf("a node was started on it: %+v, %v", all, err)
	}
	if err := f.Remove("one"); !errors.Is(err, errNoSnapshot) {
		t.Errorf("a node was started on it: %v", err)
	}
	f.left(t, "a node was started on it", "one")
}

// What fails leaves nothing behind.
func TestCreateFails(t *testing.T) {
	f := openTest(t)
	for _, name := range []string{"", "..", "a/b", ".a", "-a", "a.tmp", strings.Repeat("a", 65)} {
		if _, err := f.Create(t.Context(), name); !isKind(err, wire.KindInvalid) {
			t.Errorf("name %q: %v", name, err)
		}
		if err := f.Remove(name); !isKind(err, wire.KindInvalid) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	f.left(t, "bad names")
	f.must(t, "one")
	if _, err := f.Create(t.Context(), "one"); !errors.Is(err, store.ErrExists) {
		t.Errorf("a second one: %v", err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Create(canceled, "two"); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	f.left(t, "canceled", "one")
	f.Member.Store(new(member.Member))
	if _, err := f.Create(t.Context(), "two"); err == nil ||
		!strings.Contains(err.Error(), "no replica of a group yet") {
		t.Errorf("a node without replicas: %v", err)
	}
	f.Member.Store(nil)
	if err := f.Store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Create(t.Context(), "two"); !errors.Is(err, store.ErrClosed) {
		t.Errorf("a closed store: %v", err)
	}
	f.left(t, "failed", "one")
}

// A damaged snapshot is listed as that, beside the others, and can be removed; what is none is not.
func TestDamageAndOthers(t *testing.T) {
	f := openTest(t)
	if all, err := f.List(); err != nil || all == nil || len(all) > 0 {
		t.Errorf("without a folder: %v, %v", all, err)
	}
	bent := f.must(t, "a")
	f.must(t, "b")
	name := filepath.Join(bent.Dir, "store", layout.SnapshotFile)
	if err := os.WriteFile(name, []byte("bent\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	makeDir(t, f.Dir, "other", "groups")
	makeDir(t, f.Dir, "c.tmp", "store")
	if err := os.WriteFile(filepath.Join(f.Dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := f.List()
	if err != nil || len(all) != 2 || all[0].Name != "a" || all[1].Name != "b" ||
		!strings.Contains(all[0].Damage, layout.SnapshotFile) || all[1].Damage != "" {
		t.Errorf("%+v, %v", all, err)
	}
	for _, name := range []string{"none", "other"} {
		if err := f.Remove(name); !isKind(err, wire.KindNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	makeDir(t, f.Dir, "a.tmp", "store") // of a removal that was cut short
	if err := f.Remove("a"); err != nil {
		t.Error(err)
	}
	f.left(t, "removed", "b", "c.tmp", "file", "other")
	f.RemoveUnfinished(slog.New(slog.DiscardHandler))
	f.left(t, "unfinished", "b", "file", "other")
	f.Dir = filepath.Join(f.Dir, "file")
	if _, err := f.List(); err == nil {
		t.Error("a file is listed")
	}
}

// The snapshot of a node of a cluster ends at the least acq of its groups, which are in order.
func TestGroups(t *testing.T) {
	f := openTest(t)
	var want api.Snapshot
	for i, group := range []string{"10", "2", "x"} {
		to := filepath.Join(f.Dir, "one", "groups", group)
		makeDir(t, to)
		one, err := f.Store.Snapshot(t.Context(), filepath.Join(to, "store"))
		if err != nil {
			t.Fatal(err)
		}
		if group == "x" {
			continue // it is none
		}
		if i == 0 {
			want.AcqNs, want.CreatedNs = one.AcqNs, one.CreatedNs
		}
		want.Bytes += one.Bytes
		put(t, f.Store)
	}
	all, err := f.List()
	if err != nil || len(all) != 1 || len(all[0].Groups) != 2 || all[0].Groups[0].Group != 2 ||
		all[0].Groups[1].Group != 10 || all[0].AcqNs != want.AcqNs ||
		all[0].CreatedNs != want.CreatedNs || all[0].Bytes != want.Bytes ||
		all[0].Groups[0].AcqNs <= want.AcqNs {
		t.Errorf("%+v, %v, want %+v", all, err, want)
	}
	name := filepath.Join(f.Dir, "one", "groups", "2", "store", layout.SnapshotFile)
	if err := os.Truncate(name, 5); err != nil {
		t.Fatal(err)
	}
	if all, err = f.List(); err != nil || len(all) != 1 || all[0].Damage == "" ||
		all[0].AcqNs != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if err := f.Remove("one"); err != nil {
		t.Error(err)
	}
	f.left(t, "removed")
}

// TestModel compares the folder with a set of names, and then lets many change it at once.
func TestModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	f := openTest(t)
	model := map[string]bool{}
	for step := range 30 {
		name := string(rune('a' + rng.IntN(4)))
		if rng.IntN(2) == 0 {
			_, err := f.Create(t.Context(), name)
			if model[name] != errors.Is(err, store.ErrExists) || !model[name] && err != nil {
				t.Fatalf("step %d: create %s: %v", step, name, err)
			}
			model[name] = true
		} else {
			err := f.Remove(name)
			if model[name] != (err == nil) || !model[name] && !errors.Is(err, errNoSnapshot) {
				t.Fatalf("step %d: remove %s: %v", step, name, err)
			}
			delete(model, name)
		}
		all, err := f.List()
		if err != nil || len(all) != len(model) {
			t.Fatalf("step %d: %+v, %v, want %v", step, all, err, model)
		}
	}
	var wg sync.WaitGroup
	var made atomic.Int64
	for range 4 {
		wg.Go(func() {
			_, err := f.Create(t.Context(), "same")
			if err == nil {
				made.Add(1)
			} else if !errors.Is(err, store.ErrExists) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if made.Load() != 1 {
		t.Errorf("%d were made under one name", made.Load())
	}
}
