package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/seal"
)

// TestSignalSealedImport: an encrypted import that a signal ends goes on with the same command.
// Each reading is there once, and no two payloads, of whichever run, share a pad: not those that
// the first run had sent and that were not stored, either, as each run has chains of its own.
func TestSignalSealedImport(t *testing.T) {
	addr, db := testNode(t)
	dir := t.TempDir()
	rows, want := 25_000, int64(0)
	text := []byte("meter,time,kwh\n")
	for i := range rows {
		text = fmt.Appendf(text, "%d,%d,%d\n", i%100, int64(i/100)*1e9, i)
		want += int64(i)
	}
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	schema := write("meters.json", []byte(`{"schema": 1, "max_records": 1000000, "fields": [
		{"id": 1, "name": "kwh", "kind": "number", "max": 1000000, "sum": true}]}`))
	keys := filepath.Join(dir, "keys.json")
	run := func(args ...string) (stdout, stderr string) {
		t.Helper()
		stdout, stderr, code := runCommand(t, addr, append(args, "--keys", keys)...)
		if code != 0 {
			t.Fatal(stderr)
		}
		return stdout, stderr
	}
	run("seal", "keygen", "--cid", "1")
	args := append(importRows(write("rows.csv", text)), "--seal", schema, "--keys", keys)
	g := newGate(t, addr, true, 250_000)
	stderr := signalled(t, g.reached, append(args, "--addr", g.addr)...)
	if !strings.Contains(stderr, "10,000 of 25,000 lines stored; run the same command") {
		t.Fatal(stderr)
	}
	run("seal", "rotate", "--cid", "1") // the rest comes under another key
	if _, stderr := run(args[:len(args)-2]...); !strings.Contains(stderr, "were stored by an") {
		t.Fatal(stderr)
	}
	wantCount(t, db, uint64(rows))
	type pad struct {
		mid   int64
		chain uint64
		seq   uint32
	}
	pads, ids := map[pad]bool{}, map[uint32]bool{}
	q := &record.Query{View: record.ViewAll}
	_, err := db.Scan(t.Context(), q, func(b *record.Batch) error {
		for i := range b.Len() {
			h, err := seal.ParseHeader(b.Payload(i))
			if err != nil {
				return err
			}
			pads[pad{b.MID[i], h.Chain, h.Seq}], ids[h.KeyID] = true, true
		}
		return nil
	})
	if err != nil || len(pads) != rows || len(ids) != 2 {
		t.Errorf("%d pads of %d readings, under %d keys, %v", len(pads), rows, len(ids), err)
	}
	var sum struct {
		Count int         `json:"count"`
		Sum   json.Number `json:"kwh_sum"`
	}
	stdout, _ := run("seal", "sum", "--schema", schema, "--view", "all", "-o", "ndjson")
	if err := json.Unmarshal([]byte(stdout), &sum); err != nil || sum.Count != rows ||
		sum.Sum.String() != fmt.Sprint(want) {
		t.Errorf("%s, want %d, %v", stdout, want, err)
	}
}

// TestSealedImportID: a second import of the same file stores nothing, also under a newer key and
// with a key for another tenant, and nothing of the file follows from what the node knows it by: an
// import with other keys of any of its tenants is not known.
func TestSealedImportID(t *testing.T) {
	addr, _ := testNode(t)
	dir := t.TempDir()
	path := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	schema := path("kwh.json", `{"schema": 1, "max_records": 1000, "fields": [
		{"id": 1, "name": "kwh", "kind": "number", "max": 1000000, "sum": true}]}`)
	one := path("one.csv", "meter,time,kwh\n7,1000000000,5\n")
	two := path("two.csv", "tenant,meter,time,kwh\n1,7,1000000000,5\n2,7,1000000000,5\n")
	run := func(args ...string) string {
		t.Helper()
		stdout, stderr, code := runCommand(t, addr, args...)
		if code != 0 {
			t.Fatal(stderr)
		}
		return stdout
	}
	known := func(want int, keys, cid, file string) {
		t.Helper()
		stdout := run("import", "csv", "--seal", schema, "--keys", keys, "--cid", cid, "--mid",
			"column=meter", "--cap", "column=time", "--moid", "9", "--value", "column=kwh",
			"-o", "ndjson", file)
		var got struct{ Records, Known int }
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || got.Known != want {
			t.Errorf("%s of tenant %s: %s, want %d known, %v", file, cid, stdout, want, err)
		}
	}
	owner, other := filepath.Join(dir, "keys.json"), filepath.Join(dir, "other.json")
	run("seal", "keygen", "--cid", "1", "--keys", owner)
	part, err := os.ReadFile(owner)
	if err != nil {
		t.Fatal(err)
	}
	partly := path("partly.json", string(part)) // the same key of tenant 1, another one of 2
	for _, keys := range []string{owner, partly} {
		run("seal", "keygen", "--cid", "2", "--keys", keys)
	}
	run("seal", "keygen", "--cid", "1", "--keys", other)
	known(0, owner, "1", one)
	known(1, owner, "1", one)
	known(0, other, "1", one)
	known(0, owner, "column=tenant", two)
	known(0, partly, "column=tenant", two)
	run("seal", "rotate", "--cid", "1", "--keys", owner)
	run("seal", "keygen", "--cid", "3", "--keys", owner)
	known(1, owner, "1", one)
	known(2, owner, "column=tenant", two)
}

// TestSealedFilesArePrivate: files with plain readings of encrypted ones, and keys, are for their
// owner only, also where one was there that others may read.
func TestSealedFilesArePrivate(t *testing.T) {
	addr, _ := testNode(t)
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{
		"kwh.json": `{"schema": 1, "max_records": 1000, "fields": [
			{"id": 1, "name": "kwh", "kind": "number", "max": 1000000, "sum": true}]}`,
		"rows.csv": "meter,time,kwh\n7,1000000000,5\n7,2000000000,x\n",
		"bad.csv":  "", "opened.csv": "",
	} {
		if err := os.WriteFile(path(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := func(want int, args ...string) (stderr string) {
		t.Helper()
		_, stderr, code := runCommand(t, addr, args...)
		if code != want {
			t.Fatalf("exit status %d: %s", code, stderr)
		}
		return stderr
	}
	run(0, "seal", "keygen", "--cid", "1", "--keys", path("keys.json"))
	run(6, "import", "csv", "--seal", path("kwh.json"), "--keys", path("keys.json"), "--cid", "1",
		"--mid", "column=meter", "--cap", "column=time", "--moid", "9", "--value", "column=kwh",
		"--rejects", path("bad.csv"), path("rows.csv"))
	run(0, "export", "--open", "--schema", path("kwh.json"), "--keys", path("keys.json"), "-f",
		path("opened.csv"))
	run(0, "seal", "grant", "key", path("anna"))
	for _, name := range []string{"bad.csv", "opened.csv", "keys.json", "anna.key"} {
		info, err := os.Stat(path(name))
		if err != nil || info.Mode().Perm() != 0o600 || info.Size() == 0 {
			t.Errorf("%s: mode %v, %d bytes, %v", name, info.Mode(), info.Size(), err)
		}
	}
	if err := os.Chmod(path("anna.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path("share"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	stderr := run(2, "seal", "grant", "read", path("share"), "--key", path("anna.key"))
	if !strings.Contains(stderr, "others may read the file (mode 0644); type: chmod 600") {
		t.Error(stderr)
	}
}
