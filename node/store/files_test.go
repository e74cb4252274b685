package store

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMakeDir(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	f := func(dir string, ok bool) {
		t.Helper()
		err := makeDir(dir)
		info, statErr := os.Stat(dir)
		if made := statErr == nil && info.IsDir(); made != ok || (err == nil) != ok {
			t.Errorf("%s: %v, made %v", dir, err, made)
		}
	}
	f(filepath.Join(root, "a", "b", "c"), true)
	f(filepath.Join(root, "a", "b", "c"), true)
	f(filepath.Join(root, "a", "d"), true)
	f(filepath.Join(file, "e"), false)
}
