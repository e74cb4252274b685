package member

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/replica"
)

// fullDir is a directory on a disk without space.
type fullDir struct{ durable.Dir }

type fullFile struct{ durable.File }

func (d fullDir) Create(name string) (durable.File, error) {
	f, err := d.Dir.Create(name)
	return fullFile{f}, err
}

func (f fullFile) WriteAt([]byte, int64) (int, error) { return 0, syscall.ENOSPC }

// A disk that is full when a module comes stops the replica, as it must not go on without; nothing
// takes space that is of no use, and what comes again after a start is taken.
func TestAModuleMeetsAFullDisk(t *testing.T) {
	k := created(t)
	if err := k.Sync(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(k.dir, abcFile+durable.TempSuffix)
	k.files = fullDir{durable.Dir(k.dir)}
	before := k.encode()
	push, err := cluster.AppendCommand(nil, &cluster.Idempotent{ID: 3, Command: pushABC("one")})
	if err != nil {
		t.Fatal(err)
	}
	entries := []replica.Entry{{Index: metaIndex + 1, Data: push}}
	if err := k.Apply(entries, make([]any, 1)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("with a full disk: %v", err)
	}
	if _, err := os.Lstat(name); !errors.Is(err, os.ErrNotExist) ||
		!bytes.Equal(before, k.encode()) {
		t.Errorf("%v, at %d", err, k.Applied())
	}
	again := testMetaReplica(t, k.dir)
	if err := os.WriteFile(name, []byte("ab"), 0o600); err != nil {
		t.Fatal(err) // of a process that was killed
	}
	if err := again.Apply(entries, make([]any, 1)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte("ab"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := again.Sync(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("half a module is left: %v", err)
	}
	if text, err := again.module(abc); err != nil || string(text) != "abc" {
		t.Errorf("%q, %v", text, err)
	}
}
