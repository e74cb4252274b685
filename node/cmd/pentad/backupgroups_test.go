package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/internal/catalog"
	"github.com/pentad-db/pentad/node/internal/cursors"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
)

// stoppedReplica makes what a node of a cluster leaves that was stopped: a replica of one group,
// the view of a cluster with a plugin and a cursor, and a copy of the module.
func stoppedReplica(t *testing.T, module string) (dir, file string) {
	t.Helper()
	dir = t.TempDir()
	s, _, err := store.Open(t.Context(), store.Options{
		Dir: filepath.Join(dir, "groups", "1.2", "store"), Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	var b record.Batch
	b.Append(record.Key{CID: 1, CapNs: 1}, []byte("one"))
	if _, err := s.Put(t.Context(), &b, store.WriterSeq{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(module))
	digest := hex.EncodeToString(sum[:])
	meta := cluster.NewMeta(cluster.NewState())
	levels := cluster.Supported()
	for _, c := range []cluster.Command{
		&cluster.Create{Cluster: cluster.ID{1: 9}, Groups: 1, Replicas: 1,
			Feature: levels.First, First: cluster.Node{ID: 7, Incarnation: 1,
				Role: cluster.RoleCore, RaftAddr: "10.0.0.1:1", HTTPAddr: "10.0.0.1:2",
				MinFeature: levels.First, MaxFeature: levels.Last, Weight: 100}},
		&cluster.ChangeCatalog{Module: []byte(module), Change: catalog.Change{
			Push: &catalog.Push{Name: "mine", Version: catalog.Version{SHA256: digest,
				Bytes: int64(len(module))}}}},
		&cluster.CommitCursor{Cursor: cursors.Cursor{Name: "bills", AcqNs: 5}},
	} {
		data, err := cluster.AppendCommand(nil, c)
		if err == nil {
			_, err = meta.Apply(data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	file = filepath.Join(dir, "cluster", "plugins", digest+catalog.ModuleSuffix)
	for name, text := range map[string][]byte{file: []byte(module),
		filepath.Join(dir, "cluster", "VIEW"): meta.AppendSnapshot(nil)} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, file
}

// A backup of a stopped node of a cluster has the plugins and cursors of the cluster; a damaged
// module is left out and named.
func TestBackupOfAStoppedReplica(t *testing.T) {
	dir, module := stoppedReplica(t, "wasm")
	to, restored := filepath.Join(t.TempDir(), "to"), filepath.Join(t.TempDir(), "new")
	run := func(args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		a := &app{&cli.App{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr,
			Now: time.Now, Getenv: func(string) string { return "" }}}
		if code := a.run(t.Context(), args); code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, code, &stderr)
		}
		return stderr.String()
	}
	run("backup", "--dir", dir, "--to", to)
	run("restore", "--from", filepath.Join(to, "group-1"), "--dir", restored)
	name := filepath.Base(module)
	if text, err := os.ReadFile(filepath.Join(restored, "plugins", name)); string(text) != "wasm" {
		t.Errorf("the module is %q, %v", text, err)
	}
	plugins, err := catalog.Open(filepath.Join(restored, "plugins"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plugins.Close() }()
	if p := plugins.State.Plugins["mine"]; len(p.Versions) != 1 || len(plugins.Damage) > 0 {
		t.Errorf("%+v, %v", plugins.State, plugins.Damage)
	}
	readers, err := cursors.Open(filepath.Join(restored, "cursors"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = readers.Close() }()
	if all := readers.List(); len(all) != 1 || all[0].AcqNs != 5 {
		t.Errorf("%+v", all)
	}
	if err := os.WriteFile(module, []byte("wasn"), 0o600); err != nil {
		t.Fatal(err)
	}
	said := run("backup", "--dir", dir, "--to", filepath.Join(t.TempDir(), "another"))
	if !strings.Contains(said, "omitted module "+name) {
		t.Errorf("of a damaged module: %q", said)
	}
}
