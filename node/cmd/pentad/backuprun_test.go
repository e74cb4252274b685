package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/internal/freeaddr"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/background"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// bendFile flips a bit in each 300th byte of a file, in place, but for its ends.
func bendFile(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for at := 100; at < len(data)/2; at += 300 {
		_, e := f.WriteAt([]byte{data[at] ^ 4}, int64(at))
		err = errors.Join(err, e)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func putRows(t *testing.T, db *client.Client, from, count int64) {
	t.Helper()
	w := db.NewWriter(client.WriterOptions{})
	var err error
	for i := range count {
		err = errors.Join(err, w.Add(t.Context(), record.Key{CID: 1, MID: (from + i) << 8,
			CapNs: from + i}, fmt.Append(nil, "row ", from+i)))
	}
	if err = errors.Join(err, w.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// The backup of a node with a damaged segment names the file of the node, writes nothing, leaves
// the parts before it and no snapshot, and lets the node know of the damage.
func TestBackupOfADamagedNode(t *testing.T) {
	dir, to := t.TempDir(), filepath.Join(t.TempDir(), "to")
	n, err := node.Open(t.Context(), node.Options{Dir: dir, Listen: "127.0.0.1:0",
		Store: store.Options{Scrub: background.NewScrub(0, 1)}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close(t.Context()) }()
	addr := n.Addr().String()
	db, err := client.Dial(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	putRows(t, db, 0, 1000)
	if _, stderr, code := runCommand(t, addr, "backup", "--to", to); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	before, _ := filepath.Glob(filepath.Join(to, "*"))
	putRows(t, db, 1000, 1000)
	if err := n.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "store", "*.seg"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	bendFile(t, files[0])
	_, stderr, code := runCommand(t, addr, "backup", "--to", to)
	if code != cli.ExitDamaged || !strings.Contains(stderr, files[0]) ||
		!strings.Contains(stderr, "pentad restore") || strings.Contains(stderr, "snapshots") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	after, _ := filepath.Glob(filepath.Join(to, "*"))
	if len(before) == 0 || strings.Join(after, " ") != strings.Join(before, " ") {
		t.Errorf("in the backup are %v, and before it %v", after, before)
	}
	if left, err := db.Snapshots(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("snapshots %v, %v", left, err)
	}
	if h, err := db.NodeHealth(t.Context()); err != nil || len(h.Problems) != 1 ||
		h.Problems[0].Code != "file_damaged" {
		t.Errorf("%+v, %v", h, err)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, stderr, code = runCommand(t, addr, "backup", "--to", to, "--dir", dir)
	if code != cli.ExitDamaged || !strings.Contains(stderr, files[0]) ||
		!strings.Contains(stderr, "pentad restore") {
		t.Errorf("of a stopped node: exit code %d: %s", code, stderr)
	}
}

// threeNodes starts a cluster whose nodes do not search for damage, and returns the directory and
// address of the last.
func threeNodes(t *testing.T) (dir, addr string) {
	t.Helper()
	token, err := cluster.NewToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token.Text()), 0o600); err != nil {
		t.Fatal(err)
	}
	first := freeaddr.New(t)
	for i := range 3 {
		opt := node.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0",
			Fail:  func(err error) { t.Errorf("node %d must end: %v", i, err) },
			Store: store.Options{Scrub: background.NewScrub(0, 1), SealRows: 1000},
			Cluster: cluster.Config{TokenFile: file, RaftBind: freeaddr.New(t),
				Bind: freeaddr.New(t), Join: []string{first}}}
		if i == 0 {
			opt.Cluster.Init, opt.Cluster.Groups, opt.Cluster.Bind = true, 1, first
			opt.Cluster.FoundWait, opt.Cluster.Join = 1, nil
		}
		n, err := node.Open(t.Context(), opt)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.Close(t.Context()) })
		dir, addr = opt.Dir, n.Addr().String()
	}
	return dir, addr
}

// eventually waits for something that takes a while on a slow machine.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(5 * time.Minute)
	for !is() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("waited five minutes until %s", what)
		}
	}
}

// The backup of a cluster's node finds a replica damaged that nothing else has found damaged: it
// waits until the cluster has made it again, and then has all records.
func TestBackupOfADamagedReplica(t *testing.T) {
	t.Parallel() // it waits most of the time
	dir, addr := threeNodes(t)
	var db *client.Client
	eventually(t, "the cluster has three replicas", func() bool {
		var err error
		if db == nil {
			if db, err = client.Dial(t.Context(), addr); err != nil {
				return false
			}
		}
		h, err := db.NodeHealth(t.Context())
		found, _ := filepath.Glob(filepath.Join(dir, "groups", "1.*", "store", "MANIFEST"))
		return err == nil && h.Ready && len(h.Problems) == 0 && len(found) == 1
	})
	defer db.Close()
	putRows(t, db, 0, 5000)
	var to string
	var bent os.FileInfo
	// Another part of the node may find the damage first, or a merge put the file aside: then the
	// backup has nothing to wait for.
	eventually(t, "a backup is the first to find damage", func() bool {
		segments, _ := filepath.Glob(filepath.Join(dir, "groups", "1.*", "store", "*.seg"))
		if len(segments) == 0 {
			return false
		}
		newest := segments[len(segments)-1]
		is, err := os.Stat(newest)
		if err != nil {
			return false // a merge has removed it meanwhile
		}
		if bent == nil || !os.SameFile(is, bent) {
			bent = is
			bendFile(t, newest)
		}
		to = filepath.Join(t.TempDir(), "to")
		_, stderr, code := runCommand(t, addr, "backup", "--to", to)
		if code != 0 {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		return strings.Contains(stderr, "until the cluster has replaced the replica")
	})
	again := filepath.Join(t.TempDir(), "again")
	if _, stderr, code := runCommand(t, addr, "restore", "--from", filepath.Join(to, "group-1"),
		"--dir", again); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	n, err := node.Open(t.Context(), node.Options{Dir: again, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close(t.Context()) }()
	restored, err := client.Dial(t.Context(), n.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer restored.Close()
	if got := len(storedRecords(t, restored)); got != 5000 {
		t.Errorf("%d records of 5000", got)
	}
}
