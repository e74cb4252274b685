package durable

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(path, "four")
	open, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = open.Close() }()
	f := func(file Opened, size int64, want string) {
		t.Helper()
		got := Lost(path, file, size)
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	f(open, 4, "")
	f(nil, 4, "")
	f(open, 5, "has 4 bytes, and 5 were written")
	write(path+".other", "other")
	if err := os.Rename(path+".other", path); err != nil {
		t.Fatal(err)
	}
	f(open, 4, "replaced")
	f(nil, 4, "") // nothing tells it from what was there
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	f(open, 4, "removed")
	f(nil, 0, "removed")
}
