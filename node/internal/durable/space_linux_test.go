package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/required"
	"golang.org/x/sys/unix"
)

// TestNoSpace: an error without space names its file once, and what has run out.
func TestNoSpace(t *testing.T) {
	f := func(cause error, want, advice string) {
		t.Helper()
		err := NoSpace("write", "/d/1.log", cause)
		if !errors.Is(err, ErrNoSpace) || !errors.Is(err, cause) || !IsNoSpace(err) {
			t.Errorf("%v is not what it wraps", err)
		}
		if err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
		if got := SpaceAdvice(err); !strings.Contains(got, advice) {
			t.Errorf("%v: advice %q, want %q", err, got, advice)
		}
	}
	const space = "free some space or enlarge the disk"
	f(syscall.ENOSPC, "no space for writing: write /d/1.log: no space left on device", space)
	named := func(err error) error { return &os.PathError{Op: "write", Path: "/d/1.log", Err: err} }
	f(named(syscall.ENOSPC), "no space for writing: write /d/1.log: no space left on device", space)
	f(named(syscall.EDQUOT), "no space for writing: write /d/1.log: disk quota exceeded", "quota")
	f(named(syscall.EFBIG), "no space for writing: write /d/1.log: file too large: the limit on "+
		"the size of a file is reached (ulimit -f)", "ulimit -f")
}

// TestWithoutInodes tells a file system without inodes from one without blocks, and from those that
// do not count inodes, or make them of blocks.
func TestWithoutInodes(t *testing.T) {
	f := func(files, free, blocks uint64, want bool) {
		t.Helper()
		st := &unix.Statfs_t{Files: files, Ffree: free, Bavail: blocks}
		if got := withoutInodes(st); got != want {
			t.Errorf("%d of %d inodes and %d blocks: %v", free, files, blocks, got)
		}
	}
	f(220, 0, 1000, true)
	f(220, 1, 1000, false)
	f(220, 0, 0, false)
	f(0, 0, 1000, false) // btrfs
}

// TestNoInodes fills a file system with files that hold nothing.
func TestNoInodes(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m,nr_inodes=20"); err != nil {
		required.Skip(t, required.Disks, "making a small file system takes root: "+err.Error())
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	var err error
	for i := 0; err == nil; i++ {
		err = os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600)
	}
	said := NoSpace("make", filepath.Join(dir, "1.log"), err)
	if !strings.HasSuffix(said.Error(), "no space left on device: no inodes are free") {
		t.Error(said)
	}
	for _, err := range []error{said, fmt.Errorf("seal: %w", err)} {
		if got := SpaceAdvice(err); !strings.Contains(got, "inodes") ||
			strings.Contains(got, "free some space") {
			t.Errorf("%v: advice %q", err, got)
		}
	}
	link := os.Link(filepath.Join(dir, "0"), filepath.Join(dir, "link"))
	if got := SpaceAdvice(link); link != nil && !strings.Contains(got, "inodes") {
		t.Errorf("%v: advice %q", link, got)
	}
	_, made := Dir(dir).Create("2.seg")
	if made == nil || !strings.HasSuffix(made.Error(), ": no inodes are free") {
		t.Errorf("create: %v", made)
	}
	if err := os.Remove(filepath.Join(dir, "1")); err != nil {
		t.Fatal(err)
	}
	if got := SpaceAdvice(fmt.Errorf("seal: %w", made)); !strings.Contains(got, "inodes") {
		t.Errorf("when inodes are free again: %v: advice %q", made, got)
	}
}
