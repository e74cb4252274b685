package member

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/replica"
)

const (
	abc       = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // of "abc"
	abcFile   = abc + catalog.ModuleSuffix
	metaIndex = 2 // of the command that makes the cluster
)

// applied lets a meta replica take in commands behind what it has.
func applied(t *testing.T, k *metaReplica, commands ...cluster.Command) {
	t.Helper()
	for _, c := range commands {
		data, err := cluster.AppendCommand(nil, c)
		if err != nil {
			t.Fatal(err)
		}
		results := make([]any, 1)
		entry := replica.Entry{Index: k.Applied() + 1, Data: data}
		if err := k.Apply([]replica.Entry{entry}, results); err != nil {
			t.Fatal(err)
		}
		if r := results[0].(cluster.Result); r.Err != nil {
			t.Fatalf("%+v", r)
		}
	}
}

func pushABC(name string) cluster.Command {
	return &cluster.ChangeCatalog{Module: []byte("abc"), Change: catalog.Change{
		Push: &catalog.Push{Name: name, Version: catalog.Version{SHA256: abc, Bytes: 3}}}}
}

func removeOf(name string) cluster.Command {
	return &cluster.ChangeCatalog{Change: catalog.Change{Remove: &catalog.Ref{Name: name}}}
}

// modulesOf lists the modules in a directory.
func modulesOf(t *testing.T, dir string) (out []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*"+catalog.ModuleSuffix))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		out = append(out, filepath.Base(name))
	}
	return out
}

// created is a meta replica of a cluster.
func created(t *testing.T) *metaReplica {
	t.Helper()
	k := testMetaReplica(t, t.TempDir())
	entries := []replica.Entry{{Index: 1}, {Index: metaIndex, Data: createCommand(t)}}
	if err := k.Apply(entries, make([]any, 2)); err != nil {
		t.Fatal(err)
	}
	return k
}

func TestModulesAreKeptAsLongAsTheyAreNamed(t *testing.T) {
	k := created(t)
	applied(t, k, pushABC("one"), pushABC("two"), removeOf("one"))
	if text, err := k.module(abc); err != nil || string(text) != "abc" {
		t.Fatalf("%q, %v: it must be there as soon as it was applied", text, err)
	}
	if err := k.Sync(); err != nil {
		t.Fatal(err)
	}
	if got := modulesOf(t, k.dir); !slices.Equal(got, []string{abcFile}) {
		t.Fatalf("%v, want the module that is still named", got)
	}
	s, err := k.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	applied(t, k, removeOf("two"))
	if err := k.Sync(); err != nil || len(modulesOf(t, k.dir)) != 1 {
		t.Fatalf("%v, and %v: a snapshot names it", err, modulesOf(t, k.dir))
	}
	s.Close()
	applied(t, k, pushABC("two"), removeOf("two"))
	if err := k.Sync(); err != nil || len(modulesOf(t, k.dir)) != 0 {
		t.Fatalf("%v, and %v: nothing names it", err, modulesOf(t, k.dir))
	}
}

func TestModulesComeWithSnapshots(t *testing.T) {
	k := created(t)
	applied(t, k, pushABC("one"))
	s, err := k.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var asked []string
	fetch := func(_ context.Context, name string, _ int64) (io.ReadCloser, error) {
		asked = append(asked, name)
		return s.Open(name)
	}
	other := testMetaReplica(t, t.TempDir())
	for range 2 { // what is there is not fetched again
		if err := other.Install(t.Context(), s.Manifest(), fetch); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := other.module(abc); err != nil || string(text) != "abc" {
		t.Errorf("%q, %v", text, err)
	}
	if want := []string{stateName, abcFile, stateName}; !slices.Equal(asked, want) {
		t.Errorf("asked for %v, want %v", asked, want)
	}
	if _, err := s.Open("../" + stateName); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	// A damaged module is neither given nor taken, and the old state stays; until another node has
	// it whole, from which it is mended.
	if err := os.WriteFile(filepath.Join(k.dir, abcFile), []byte("abd"), 0o600); err != nil {
		t.Fatal(err)
	}
	third := testMetaReplica(t, t.TempDir())
	if err := third.Install(t.Context(), s.Manifest(), fetch); err == nil || third.Applied() != 0 {
		t.Errorf("%v, at %d", err, third.Applied())
	}
	lying := func(ctx context.Context, name string, at int64) (io.ReadCloser, error) {
		if name == abcFile {
			return os.Open(filepath.Join(k.dir, abcFile))
		}
		return fetch(ctx, name, at)
	}
	if err := third.Install(t.Context(), s.Manifest(), lying); err == nil ||
		third.Applied() != 0 || len(modulesOf(t, third.dir)) != 0 {
		t.Errorf("%v, at %d", err, third.Applied())
	}
	k.others = func(context.Context, string) ([]byte, error) { return nil, ErrNoModule }
	if err := third.Install(t.Context(), s.Manifest(), fetch); !errors.Is(err, ErrNoModule) {
		t.Error(err)
	}
	k.others = func(_ context.Context, digest string) ([]byte, error) {
		return other.module(digest)
	}
	if err := third.Install(t.Context(), s.Manifest(), fetch); err != nil || third.Applied() == 0 {
		t.Errorf("%v, at %d", err, third.Applied())
	}
	if text, err := k.module(abc); err != nil || string(text) != "abc" {
		t.Errorf("%q, %v, want it mended", text, err)
	}
}

func TestAnInstallThatFailsLeavesTheOldState(t *testing.T) {
	k := created(t)
	s, err := k.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	other := testMetaReplica(t, t.TempDir())
	full := filepath.Join(other.dir, stateName+durable.TempSuffix, "file")
	if err := os.MkdirAll(full, 0o755); err != nil {
		t.Fatal(err) // no state can be written
	}
	err = other.Install(t.Context(), s.Manifest(), func(_ context.Context, name string,
		_ int64) (io.ReadCloser, error) {
		return s.Open(name)
	})
	if err == nil || other.Applied() != 0 || other.meta.View().DataGroups() != 0 {
		t.Errorf("%v, at %d", err, other.Applied())
	}
}
