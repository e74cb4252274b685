package node

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

func storeOne(t *testing.T, c *client.Client) {
	t.Helper()
	b := &record.Batch{}
	b.Append(record.Key{CID: 1, MID: 2, MOID: 3}, []byte("four"))
	if _, err := c.Put(t.Context(), b, [16]byte{}, 0); err != nil {
		t.Fatal(err)
	}
}

func TestVerifyOverTheNetwork(t *testing.T) {
	n := openTest(t, Options{})
	c := dial(t, n)
	storeOne(t, c)
	found := map[string]string{}
	opt := client.VerifyOptions{Damage: func(d client.Damage) {
		found[filepath.Base(d.File)] = d.Reason
	}}
	report, err := c.Verify(t.Context(), opt)
	if err != nil || len(found) != 0 || report.LogRows != 1 || report.Bytes == 0 {
		t.Fatalf("%+v, %v, %v", report, found, err)
	}
	manifest := filepath.Join(n.opt.Dir, "store", "MANIFEST")
	text, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	if err := os.WriteFile(manifest, text, 0o644); err != nil {
		t.Fatal(err)
	}
	report, err = c.Verify(t.Context(), opt)
	if err != nil || report.Damages != 1 || found["MANIFEST"] != "checksum differs" {
		t.Errorf("%+v, %v, %v", report, found, err)
	}
}

// A verification that would take years does not keep the node from closing, and there is one.
func TestVerifyEndsWithTheNode(t *testing.T) {
	n := openTest(t, Options{})
	c := dial(t, n)
	storeOne(t, c)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := c.Verify(t.Context(), client.VerifyOptions{BytesPerSec: 1})
		var remote *wire.Error
		if !errors.As(err, &remote) || remote.Kind != wire.KindUnavailable {
			t.Errorf("verification of a node that closes: %v", err)
		}
	})
	for !n.verifier.Running() {
		storeOne(t, c)
	}
	_, err := c.Verify(t.Context(), client.VerifyOptions{})
	if err == nil || !strings.Contains(err.Error(), "one is running already") {
		t.Errorf("a second verification: %v", err)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Error(err)
	}
	wg.Wait()
}

func TestSnapshotHasPlugins(t *testing.T) {
	n := openTest(t, Options{})
	c := dial(t, n)
	storeOne(t, c)
	if _, err := c.PushPlugin(t.Context(), "mine", standardModule(t, "stats")); err != nil {
		t.Fatal(err)
	}
	info, err := c.CreateSnapshot(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.Snapshots(t.Context())
	if err != nil || len(all) != 1 || all[0].Dir != info.Dir || all[0].AcqNs != info.AcqNs {
		t.Fatalf("%+v, %v, want %+v", all, err, info)
	}
	again := openTest(t, Options{Dir: info.Dir})
	if _, err := again.Plugin(t.Context(), "mine"); err != nil || again.StoreStats().Rows != 1 {
		t.Errorf("%v, %d rows", err, again.StoreStats().Rows)
	}
	var remote *wire.Error
	err = c.RemoveSnapshot(t.Context(), "one")
	if !errors.As(err, &remote) || remote.Kind != wire.KindNotFound {
		t.Errorf("a snapshot that a node was started on: %v", err)
	}
	for _, name := range []string{"", "..", "a/b", ".a", "a.tmp", strings.Repeat("a", 65)} {
		_, err := c.CreateSnapshot(t.Context(), name)
		if !errors.As(err, &remote) || remote.Kind != wire.KindInvalid {
			t.Errorf("name %q: %v", name, err)
		}
	}
}

// TestKeepRefusesUnknownParameters wants no answer to another query than was asked.
func TestKeepRefusesUnknownParameters(t *testing.T) {
	a := &asker{t, openTest(t, Options{})}
	a.expect("POST", "/v1/verify?speed=1", "", 400, "there are rate, group, segment")
	a.expect("POST", "/v1/verify?segment=x", "", 400, "segment")
	a.expect("POST", "/v1/verify?group=1", "", 400, "segment")
	a.expect("POST", "/v1/verify?segment=999", "", 200, `"damages":0`)
	a.expect("POST", "/v1/verify?group=3&segment=999", "", 200, "no replica of group 3")
	a.expect("POST", "/v1/snapshots?nam=x", "", 400,
		`unknown parameter \"nam\"; did you mean name?`)
	a.expect("GET", "/v1/snapshots?name=x", "", 400,
		`unknown parameter \"name\"; this route has none`)
	a.expect("POST", "/v1/snapshots?name=told", "", 200, `"name":"told"`, `"acq_ns":`, `"acq":"`,
		`"created":"20`)
	a.expect("GET", "/v1/snapshots", "", 200, `"name":"told"`, `"created_ns":`, `"created":"20`)
}

// What an interrupted removal left over does not keep a snapshot of that name from being removed.
func TestSnapshotIsRemovedOverLeftovers(t *testing.T) {
	n := openTest(t, Options{})
	info, err := n.CreateSnapshot(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(info.Dir+".tmp", "store"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := n.RemoveSnapshot("one"); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(filepath.Dir(info.Dir))
	if err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}

// What a crash left of snapshots goes when the node is opened; whole ones stay.
func TestUnfinishedSnapshotsGo(t *testing.T) {
	opt := Options{Dir: t.TempDir()}
	n := openTest(t, opt)
	info, err := n.CreateSnapshot(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"two.tmp/store.tmp/log", "three.tmp/plugins"} {
		dir = filepath.Join(filepath.Dir(info.Dir), filepath.FromSlash(dir))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	n = openTest(t, opt)
	left, err := os.ReadDir(filepath.Dir(info.Dir))
	if err != nil || len(left) != 1 || left[0].Name() != "one" {
		t.Errorf("%v are left, %v", left, err)
	}
	if all, err := n.Snapshots(); err != nil || len(all) != 1 || all[0].AcqNs != info.AcqNs {
		t.Errorf("%+v, %v", all, err)
	}
}

// A snapshot whose description is damaged is listed as that, beside the others, and can be removed.
func TestDamagedSnapshot(t *testing.T) {
	n := openTest(t, Options{})
	c := dial(t, n)
	for _, name := range []string{"one", "two"} {
		if _, err := c.CreateSnapshot(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	bent := filepath.Join(n.opt.Dir, "snapshots", "one", "store", "SNAPSHOT")
	if err := os.WriteFile(bent, []byte("bent\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	all, err := c.Snapshots(t.Context())
	if err != nil || len(all) != 2 || all[0].Name != "one" || all[1].Name != "two" ||
		!strings.Contains(all[0].Damage, "SNAPSHOT") || all[0].CreatedNs != 0 ||
		all[1].Damage != "" || all[1].CreatedNs == 0 {
		t.Fatalf("%+v, %v", all, err)
	}
	if err := c.RemoveSnapshot(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	if all, err = c.Snapshots(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}

// Lists in the answer to a verification are lists, also when they are empty.
func TestVerifySaysEmptyLists(t *testing.T) {
	a := &asker{t, openTest(t, Options{})}
	a.expect("POST", "/v1/verify", "", 200, `"damage":[],"notes":[],`)
}
