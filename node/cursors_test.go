package node

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// TestCursorsForPeople keeps cursors by HTTP.
func TestCursorsForPeople(t *testing.T) {
	a := &asker{t, openTest(t, Options{})}
	a.expect("GET", "/v1/cursors", "", 200, `{"cursors":[]}`)
	a.expect("GET", "/v1/cursors/bill", "", 404, `"code":"not-found"`, "no such cursor")
	a.expect("PUT", "/v1/cursors/bill?acq=1000", "", 200, `"name":"bill"`, `"acq_ns":1000,`,
		`"acq":"1970-01-01T00:00:00.000001000Z"`, `"behind_ns":`)
	a.expect("PUT", "/v1/cursors/bill?acq=999", "", 400, "only moves forward")
	a.expect("PUT", "/v1/cursors/bill?acq=999&force=1", "", 200, `"acq_ns":999,`)
	a.expect("PUT", "/v1/cursors/bill?acq=9000000000000000000&force=1", "", 400, `"part":"acq"`,
		"above the horizon")
	a.expect("PUT", "/v1/cursors/bill", "", 400, `"part":"acq"`)
	a.expect("PUT", "/v1/cursors/bill?acq=5&to=6", "", 400, `unknown parameter \"to\"`)
	a.expect("PUT", "/v1/cursors/-x?acq=5", "", 400, `"part":"name"`)
	for _, method := range []string{"GET", "DELETE"} {
		a.expect(method, "/v1/cursors/-x", "", 400, `"part":"name"`)
		a.expect(method, "/v1/cursors/bill?acq=5", "", 400, `unknown parameter \"acq\"`)
	}
	a.expect("PUT", "/v1/cursors/bill?acq=5", "acq=6", 400, `"part":"body"`)
	a.expect("GET", "/v1/cursors", "", 200, `"acq_ns":999,`)
	a.expect("DELETE", "/v1/cursors/bill", "", 200, `{"removed":"bill"}`)
	a.expect("DELETE", "/v1/cursors/bill", "", 404, "no such cursor")
}

// Cursors outlive the node, and a snapshot has those of its moment.
func TestCursorsAreKept(t *testing.T) {
	opt := Options{Dir: t.TempDir()}
	n := openTest(t, opt)
	db := dial(t, n)
	for i := range int64(3) {
		reply, err := db.Put(t.Context(), batchOf(record.Key{MID: i}), [16]byte{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.CommitCursor(t.Context(), "copy", reply.LastAcqNs+1, false); err != nil {
			t.Fatal(err)
		}
	}
	want, err := db.Cursor(t.Context(), "copy")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.CreateSnapshot(t.Context(), "now"); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{opt.Dir, filepath.Join(opt.Dir, "snapshots", "now")} {
		n = openTest(t, Options{Dir: dir})
		db = dial(t, n)
		all, err := db.Cursors(t.Context())
		if err != nil || len(all) != 1 || all[0].AcqNs != want.AcqNs ||
			all[0].CommittedNs != want.CommittedNs {
			t.Fatalf("%s: %+v, %v; want %+v", dir, all, err, want)
		}
		for b, err := range db.PastChanges(t.Context(), &record.Query{}, all[0].AcqNs) {
			if err != nil || b.Rows != nil {
				t.Fatalf("%s: %+v, %v", dir, b, err)
			}
		}
	}
	if err := db.RemoveCursor(t.Context(), "copy"); err != nil {
		t.Fatal(err)
	}
	var remote *wire.Error
	if err := db.RemoveCursor(t.Context(), "copy"); !errors.As(err, &remote) ||
		remote.Kind != wire.KindNotFound {
		t.Fatalf("removed twice: %v", err)
	}
}

func batchOf(keys ...record.Key) *record.Batch {
	b := &record.Batch{}
	for _, k := range keys {
		b.Append(k, f64(1))
	}
	return b
}

// A node finds its cursors, or its plugins and quantities, gone, and says so. A new node has none.
func TestLostFilesOfANodeAreProblems(t *testing.T) {
	dir := t.TempDir()
	n := openTest(t, Options{Dir: dir})
	if all := n.Problems(); len(all) > 0 {
		t.Fatalf("a new node: %+v", all)
	}
	if status, out := postLines(t, n, devices(3), ""); status != 200 {
		t.Fatalf("%d, %+v", status, out)
	}
	for _, c := range []struct{ file, code string }{
		{"cursors/CURSORS", "cursors_damaged"}, {"plugins/CATALOG", "plugins_damaged"},
	} {
		if err := n.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, c.file)); err != nil {
			t.Fatal(err)
		}
		n = openTest(t, Options{Dir: dir})
		all := n.Problems()
		if len(all) != 1 || all[0].Code != c.code || !strings.Contains(all[0].Message, "missing") {
			t.Errorf("without %s: %+v", c.file, all)
		}
	}
	a := &asker{t, n}
	a.expect("PUT", "/v1/cursors/bill?acq=1000&force=1", "", 200, `"name":"bill"`)
	if err := n.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all := openTest(t, Options{Dir: dir}).Problems(); len(all) > 0 {
		t.Errorf("they are problems for ever: %+v", all)
	}
}
