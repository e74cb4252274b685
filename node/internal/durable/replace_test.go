package durable

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// faulty is a directory of which one operation fails.
type faulty struct {
	Dir
	fail string
	with error
}

type faultyFile struct {
	File
	*faulty
}

func (d *faulty) check(operation string) error {
	if operation == d.fail {
		return d.with
	}
	return nil
}

func (d *faulty) Create(name string) (File, error) {
	f, err := d.Dir.Create(name)
	return faultyFile{f, d}, errors.Join(err, d.check("create"))
}

func (d *faulty) Rename(from, to string) error {
	if err := d.check("rename"); err != nil {
		return err
	}
	return d.Dir.Rename(from, to)
}

func (d *faulty) Sync() error { return d.check("sync directory") }

func (f faultyFile) WriteAt(p []byte, offset int64) (int, error) {
	if err := f.check("write"); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, offset)
}

func (f faultyFile) Sync() error  { return errors.Join(f.File.Sync(), f.check("sync")) }
func (f faultyFile) Close() error { return errors.Join(f.File.Close(), f.check("close")) }

// A replacement that fails leaves the old content and no temporary file; after the rename nothing
// is certain any more, which is not a lack of space.
func TestReplaceFails(t *testing.T) {
	for _, step := range []string{"write", "sync", "close", "rename", "sync directory"} {
		dir := t.TempDir()
		name := filepath.Join(dir, "file")
		if err := ReplaceFile(name, []byte("old")); err != nil {
			t.Fatal(err)
		}
		err := Replace(&faulty{Dir: Dir(dir), fail: step, with: syscall.ENOSPC}, "file",
			[]byte("new"))
		text, _ := os.ReadFile(name)
		before := step != "sync directory"
		if err == nil || IsNoSpace(err) != before || before != (string(text) == "old") {
			t.Errorf("%s: %v, and the file has %q", step, err, text)
		}
		names, _ := Dir(dir).Names()
		if len(names) != 1 {
			t.Errorf("%s: it leaves %q", step, names)
		}
	}
}

// What a crash left under the temporary name does not hold a replacement up, and is gone then.
func TestReplaceAfterACrash(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	left := strings.Repeat("left by a crash", 100)
	if err := os.WriteFile(name+TempSuffix, []byte(left), 0o400); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"first", "", "third"} {
		if err := ReplaceFile(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(Dir(dir), "file", nil); err != nil || string(got) != text {
			t.Errorf("%q, %v, want %q", got, err, text)
		}
	}
	if err := ReplaceShared(name, Content([]byte("shared"))); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(name)
	names, _ := Dir(dir).Names()
	if err != nil || string(got) != "shared" || len(names) != 1 {
		t.Errorf("%q, %v, %q", got, err, names)
	}
}

func TestMakeDir(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := func(dir string, ok bool) {
		t.Helper()
		err := MakeDir(dir)
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
