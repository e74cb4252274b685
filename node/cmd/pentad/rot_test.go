package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
)

// TestRotIsNotCopied flips a bit of a segment just after it was read and verified: neither an
// export nor a sync hands it on, and both say that it is damaged.
func TestRotIsNotCopied(t *testing.T) {
	r := random(t)
	dir := t.TempDir()
	n, err := node.Open(t.Context(), node.Options{Dir: dir, Listen: "127.0.0.1:0"})
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
	w := db.NewWriter(client.WriterOptions{})
	for i := range int64(5000) {
		err = errors.Join(err, w.Add(t.Context(), record.Key{CID: 1, MID: i % 50, CapNs: i},
			[]byte{byte(i), byte(i >> 8), 1, 2, 3, 4, 5, 6}))
	}
	if err = errors.Join(err, w.Close(t.Context()), n.Seal(t.Context())); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "store", "*.seg"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	segment, err := os.OpenFile(files[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = segment.Close() }()
	want := len(storedRecords(t, db)) // verifies all blocks
	for range 3 {
		at := 60 + r.Int64N(2000)
		var b [1]byte
		if _, err := segment.ReadAt(b[:], at); err != nil {
			t.Fatal(err)
		}
		bent := []byte{b[0] ^ 1<<r.IntN(8)}
		if _, err := segment.WriteAt(bent, at); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "all.ndjson")
		_, stderr, code := runCommand(t, addr, "export", "--view", "all", "-f", file)
		if _, err := os.Stat(file); code != cli.ExitDamaged || !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("byte %d: exit code %d, file %v: %s", at, code, err, stderr)
		}
		to, copied := testNode(t)
		_, stderr, code = runCommand(t, addr, "sync", "push", to)
		if got := len(storedRecords(t, copied)); code != cli.ExitDamaged || got > 0 {
			t.Fatalf("byte %d: exit code %d, %d records: %s", at, code, got, stderr)
		}
		if _, err := segment.WriteAt(b[:], at); err != nil {
			t.Fatal(err)
		}
	}
	to, copied := testNode(t)
	if _, stderr, code := runCommand(t, addr, "sync", "push", to); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if got := len(storedRecords(t, copied)); got != want {
		t.Errorf("%d records, want %d", got, want)
	}
}
