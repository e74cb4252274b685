package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/internal/freeaddr"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// madeCluster is a cluster of one node.
type madeCluster struct {
	*client.Client
	addr string
}

func clusterOf(t *testing.T, groups int) *madeCluster {
	t.Helper()
	token, err := cluster.NewToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token.Text()), 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := node.Open(t.Context(), node.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0",
		Fail: func(err error) { t.Errorf("the node must end: %v", err) },
		Cluster: cluster.Config{TokenFile: file, RaftBind: freeaddr.New(t), Bind: freeaddr.New(t),
			Init: true, FoundWait: 1, Groups: groups}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	var db *client.Client
	retry(t, "the cluster answers", func() error {
		var err error
		if db, err = client.Dial(t.Context(), n.Addr().String()); err != nil {
			return err
		}
		t.Cleanup(func() { _ = db.Close() })
		_, err = db.SyncState(t.Context())
		return err
	})
	return &madeCluster{db, n.Addr().String()}
}

// retry tries until there is no error.
func retry(t *testing.T, what string, try func() error) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(5 * time.Minute) // a slow machine is no failure
	for err := try(); err != nil; err = try() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("waited five minutes until %s: %v", what, err)
		}
	}
}

// recordsOf returns the keys and payloads of all records in a view, in order.
func recordsOf(t *testing.T, db *madeCluster, view record.View) (all []string, err error) {
	t.Helper()
	q := &record.Query{View: view, Order: record.OrderKey}
	for r, err := range db.Query(t.Context(), q) {
		if err != nil {
			return nil, err
		}
		all = append(all, fmt.Sprintf("%+v %s %v", r.Key, r.Payload, r.Tomb))
	}
	slices.Sort(all)
	return all, nil
}

// pushed uploads a standard module under the name mine.
func pushed(t *testing.T, db *madeCluster, module, owner string) client.PluginInfo {
	t.Helper()
	wasm, err := os.ReadFile(filepath.Join("..", "..", "..", "plugins", module, module+".wasm"))
	if err != nil {
		t.Fatal(err)
	}
	info, err := db.PushVersion(t.Context(), client.PluginPush{Name: "mine", Owner: owner,
		Wasm: wasm})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// filledCluster is a cluster with corrections, an erase, a plugin, a quantity and a cursor.
func filledCluster(t *testing.T, groups, rows int) *madeCluster {
	t.Helper()
	db := clusterOf(t, groups)
	retry(t, "the cluster takes changes", func() error {
		return db.SetQuantity(t.Context(),
			client.Quantity{MOID: 3, Name: "energy", Unit: "kWh", Type: "f64"})
	})
	for put := range 3 {
		var b record.Batch
		for i := range rows {
			b.Append(record.Key{CID: 1, MID: int64(i * 256), CapNs: int64(i % 7)},
				fmt.Appendf(nil, "%d of %d", i, put))
		}
		ack, err := db.Put(t.Context(), &b, [16]byte{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if put == 0 {
			box := &wire.Box{Box: record.Box{record.MID: {{From: 0, To: 640}}}}
			_, erased := db.Erase(t.Context(), box)
			_, committed := db.CommitCursor(t.Context(), "bills", ack.FirstAcqNs, true)
			if err := errors.Join(erased, committed); err != nil {
				t.Fatal(err)
			}
		}
	}
	first := pushed(t, db, "stats", "first")
	pushed(t, db, "count", "second")
	if _, err := db.PromotePlugin(t.Context(), first.Ref()); err != nil {
		t.Fatal(err)
	}
	retry(t, "the horizon has come", func() error {
		all, err := recordsOf(t, db, record.ViewAll)
		if err == nil && len(all) != 3*rows {
			err = fmt.Errorf("%d records", len(all))
		}
		return err
	})
	return db
}

// restoreIntoBytes is how much a restore into a cluster sends before a signal meets it.
const restoreIntoBytes = 16_000

// A cluster is backed up and comes again in another one with as many groups: with all acqs,
// corrections and erases, its plugins, quantities and cursors.
func TestRestoreCluster(t *testing.T) {
	const groups = 4
	from, to := filledCluster(t, groups, 400), clusterOf(t, groups)
	backup, work := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "work")
	run := func(want int, args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		a := &app{&cli.App{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr,
			Now: time.Now, Getenv: func(string) string { return "" }}}
		if code := a.run(t.Context(), args); code != want {
			t.Fatalf("%v: exit code %d: %s", args, code, &stderr)
		}
		return stdout.String() + stderr.String()
	}
	restore := []string{"restore", "--from", backup, "--dir", work, "--into", to.addr}
	run(0, "backup", "--addr", from.addr, "--to", backup)

	last := filepath.Join(backup, fmt.Sprintf("group-%d", groups))
	if err := os.Rename(last, last+".away"); err != nil {
		t.Fatal(err)
	}
	if said := run(1, restore...); !strings.Contains(said, "group-4 is missing") {
		t.Errorf("without a group: %s", said)
	}
	if err := os.Rename(last+".away", last); err != nil {
		t.Fatal(err)
	}
	small := clusterOf(t, groups/2)
	said := run(1, "restore", "--from", backup, "--dir", work, "--into", small.addr)
	if !strings.Contains(said, "has 2 groups, the backup has 4") {
		t.Errorf("into a cluster of fewer groups: %s", said)
	}

	said = run(1, "restore", "--from", backup, "--dir", backup, "--into", to.addr)
	if !strings.Contains(said, "exists already") {
		t.Errorf("into a directory with other files: %s", said)
	}

	// Interrupted by a signal in the middle, and before the last group, it goes on.
	g := newGate(t, to.addr, true, restoreIntoBytes)
	stopped := signalled(t, g.reached, append(slices.Clone(restore[:len(restore)-1]), g.addr)...)
	if !regexp.MustCompile(`interrupted: [1-3] of 4 groups restored; run the same command to ` +
		`continue\n$`).MatchString(stopped) {
		t.Errorf("after a signal: %s", stopped)
	}
	parts, err := filepath.Glob(filepath.Join(last, "part-*"))
	if err != nil || len(parts) != 1 {
		t.Fatal(parts, err)
	}
	away := filepath.Join(t.TempDir(), filepath.Base(parts[0]))
	if err := os.Rename(parts[0], away); err != nil {
		t.Fatal(err)
	}
	if said := run(1, restore...); !strings.Contains(said, "group 4: ") {
		t.Errorf("with an empty group: %s", said)
	}
	if err := os.Rename(away, parts[0]); err != nil {
		t.Fatal(err)
	}
	run(0, restore...)
	if _, err := os.Stat(work); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the working directory is left: %v", err)
	}
	same(t, from, to)
}

// same compares what two clusters hold, and that the second one takes records.
func same(t *testing.T, from, to *madeCluster) {
	t.Helper()
	for _, view := range []record.View{record.ViewAll, record.ViewLatest} {
		want, err := recordsOf(t, from, view)
		if err != nil || len(want) == 0 {
			t.Fatalf("%d records, %v", len(want), err)
		}
		if got, err := recordsOf(t, to, view); err != nil || !slices.Equal(got, want) {
			t.Errorf("view %v: %d records, want %d, %v", view, len(got), len(want), err)
		}
	}
	mine, err := to.Plugin(t.Context(), "mine")
	if err != nil || mine.Owner != "first" || len(mine.History) != 2 {
		t.Errorf("%+v, %v", mine, err)
	}
	quantities, err := to.Quantities(t.Context())
	if err != nil || len(quantities) != 1 || quantities[0].Name != "energy" {
		t.Errorf("%+v, %v", quantities, err)
	}
	was, err := from.Cursor(t.Context(), "bills")
	if err != nil {
		t.Fatal(err)
	}
	if is, err := to.Cursor(t.Context(), "bills"); err != nil || is.AcqNs != was.AcqNs {
		t.Errorf("cursor at %d, was at %d, %v", is.AcqNs, was.AcqNs, err)
	}
	var b record.Batch
	b.Append(record.Key{CID: 1}, []byte("new"))
	if _, err := to.Put(t.Context(), &b, [16]byte{}, 0); err != nil {
		t.Errorf("the cluster takes no records: %v", err)
	}
}
