package audit

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/edge"
	"github.com/pentad-db/pentad/node/internal/freeaddr"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/node/store/layout"
	"github.com/pentad-db/pentad/plugins"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// use makes a node write files of each kind.
func use(t *testing.T, n *node.Node, alone bool) {
	t.Helper()
	var c *client.Client
	until(t, func() (err error) {
		c, err = client.Dial(t.Context(), n.Addr().String())
		return err
	})
	defer func() { _ = c.Close() }()
	b := &record.Batch{}
	for i := range int64(3000) {
		b.Append(record.Key{CID: 1, MID: i % 9, MOID: 1, CapNs: i}, make([]byte, 8))
	}
	put := func() error {
		_, err := n.Put(t.Context(), b, store.WriterSeq{ID: [16]byte{1}, Seq: 1})
		return err
	}
	until(t, put)
	if alone {
		if err := n.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := n.Put(t.Context(), b, store.WriterSeq{}); err != nil {
			t.Fatal(err)
		}
	}
	until(t, func() error {
		_, err := c.PushPlugin(t.Context(), "mine", plugins.Standard()[0].Wasm)
		return err
	})
	for acq := range int64(3) {
		until(t, func() error {
			_, err := c.CommitCursor(t.Context(), "reader", acq, false)
			return err
		})
	}
	until(t, func() error {
		_, err := n.CreateSnapshot(t.Context(), "now")
		return err
	})
}

// until tries until something succeeds: a cluster takes a moment to begin.
func until(t *testing.T, do func() error) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(5 * time.Minute) // a slow machine is no failure
	for err := do(); err != nil; err = do() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatal(err)
		}
	}
}

// edgeDir is the directory of an edge node that has shipped nothing.
func edgeDir(t *testing.T) string {
	dir := t.TempDir()
	e, err := edge.Open(t.Context(), edge.Options{Upstream: []string{freeaddr.New(t)},
		Node: node.Options{Dir: dir, Listen: "127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	use(t, e.Node, true)
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// memberDir is the directory of the only node of a cluster.
func memberDir(t *testing.T) string {
	token, err := cluster.NewToken(bytes.NewReader(bytes.Repeat([]byte{7}, 1000)))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token.Text()), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	n, err := node.Open(t.Context(), node.Options{Dir: dir, Listen: "127.0.0.1:0",
		Cluster: cluster.Config{TokenFile: file, RaftBind: freeaddr.New(t), Bind: freeaddr.New(t),
			Init: true, FoundWait: 1, Groups: 2, Replicas: 1},
		Fail: func(err error) { t.Errorf("the node must end: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	use(t, n, false)
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// copied returns a copy of a directory: files of a snapshot are links of others.
func copied(t *testing.T, dir string) (to string, files []string) {
	t.Helper()
	to = filepath.Join(t.TempDir(), filepath.Base(dir))
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(to, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && e.Name() == "cache" {
			return fs.SkipDir
		}
		if !e.IsDir() && e.Name() != "LOCK" {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return to, files
}

func mustAudit(t *testing.T, dir string) api.CheckReport {
	t.Helper()
	report, err := Directory(t.Context(), dir, check.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// Bits are flipped in every file of a real node, one by one: the file is named. Before, nothing is,
// and no file is unknown.
func TestEveryFileIsChecked(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	kinds := map[string]bool{}
	for _, dir := range []string{edgeDir(t), memberDir(t)} {
		dir, files := copied(t, dir)
		if report := mustAudit(t, dir); report.Damages+len(report.Notes) > 0 || report.Bytes == 0 {
			t.Fatalf("of a node that was closed: %+v", report)
		}
		for _, path := range files {
			whole, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if len(whole) == 0 {
				continue
			}
			kinds[kindOf(path)] = true
			for range 4 {
				at := rng.IntN(len(whole))
				bent := slices.Clone(whole)
				bent[at] ^= 1 << rng.IntN(8)
				write(t, path, bent)
				if !named(mustAudit(t, dir), path) {
					t.Errorf("%s: byte %d is bent, and nothing is said", path, at)
				}
			}
			write(t, path, whole)
		}
	}
	for _, kind := range []string{".log", ".seg", "MANIFEST", "WRITERS", "SNAPSHOT", "CATALOG",
		"CURSORS", ".wasm", "OUTBOX", "NODE", "VIEW", "TAIL"} {
		if !kinds[kind] {
			t.Errorf("no node wrote a file %s", kind)
		}
	}
}

func kindOf(path string) string {
	if ext := filepath.Ext(path); ext != "" {
		return ext
	}
	return filepath.Base(path)
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func named(r api.CheckReport, path string) bool {
	return slices.ContainsFunc(r.Damage, func(d api.Damage) bool { return d.File == path })
}

// A file of each kind that is not of a store or a log is checked by itself, too; one that no node
// writes is noted, and a directory without any is no node's.
func TestFilesByThemselves(t *testing.T) {
	dir, files := copied(t, edgeDir(t))
	checked := 0
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(path, "store") || strings.Contains(path, "snapshots") {
			continue
		}
		report, err := File(t.Context(), path, check.Options{})
		if err != nil || report.Damages > 0 {
			t.Fatalf("%s: %+v, %v", path, report, err)
		}
		data[len(data)/2] ^= 4
		write(t, path, data)
		if report, err := File(t.Context(), path, check.Options{}); err != nil ||
			!named(report, path) {
			t.Errorf("%s is bent: %+v, %v", path, report, err)
		}
		checked++
	}
	if checked < 4 {
		t.Errorf("%d files", checked)
	}
	write(t, filepath.Join(dir, "NOTES"), []byte("mine"))
	if r := mustAudit(t, dir); len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "NOTES") {
		t.Errorf("%+v", r.Notes)
	}
	if _, err := Directory(t.Context(), t.TempDir(), check.Options{}); !errors.Is(err,
		layout.ErrNoStore) {
		t.Errorf("an empty directory: %v", err)
	}
}

// The newest file of the log of a cluster's node is not there, or has nothing in it any more: it is
// named, though the files before it are whole.
func TestALostLogFileIsNamed(t *testing.T) {
	dir, files := copied(t, memberDir(t))
	newest := ""
	for _, path := range files {
		if filepath.Base(filepath.Dir(path)) == "raft" && filepath.Ext(path) == ".log" {
			newest = max(newest, path)
		}
	}
	if err := os.Truncate(newest, 0); err != nil {
		t.Fatal(err)
	}
	if report := mustAudit(t, dir); report.Damages != 1 || !named(report, newest) {
		t.Errorf("it is empty: %+v", report)
	}
	if err := os.Remove(newest); err != nil {
		t.Fatal(err)
	}
	if report := mustAudit(t, dir); report.Damages != 1 || !named(report, newest) {
		t.Errorf("it is missing: %+v", report)
	}
}
