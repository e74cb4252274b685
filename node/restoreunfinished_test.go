package node

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pentad-db/pentad/node/store/archive"
)

// What an interrupted restore leaves is no empty node: it does not open.
func TestUnfinishedRestore(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "store.tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	n, err := Open(t.Context(), Options{Dir: dir})
	if err == nil {
		_ = n.Close(t.Context())
	}
	if !errors.Is(err, archive.ErrUnfinished) {
		t.Errorf("opened: %v, want %v", err, archive.ErrUnfinished)
	}
	if _, err := os.Lstat(filepath.Join(dir, "store")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a store was made: %v", err)
	}
}
