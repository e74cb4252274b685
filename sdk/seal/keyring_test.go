package seal

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestKeyFile: keys survive, others may not read them, and no text shows one.
func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	r, err := OpenFileKeyring(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if _, err := r.Current(ctx, 1); !errors.Is(err, ErrNoKey) {
		t.Errorf("no key yet: %v", err)
	}
	for want := range uint32(2) {
		if id, err := r.Generate(1); err != nil || id != want+1 {
			t.Fatalf("key %d, %v", id, err)
		}
	}
	first, err := r.Root(ctx, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	again, err := OpenFileKeyring(path)
	if err != nil {
		t.Fatal(err)
	}
	if k, err := again.Root(ctx, 1, 1); err != nil || k != first {
		t.Errorf("the key is another one after opening: %v", err)
	}
	if id, err := again.Current(ctx, 1); err != nil || id != 2 {
		t.Errorf("current is %d, %v", id, err)
	}
	if runtime.GOOS != "windows" {
		if err := os.Chmod(path, 0o640); err != nil {
			t.Fatal(err)
		}
		_, err := OpenFileKeyring(path)
		if err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("a file that others may read: %v", err)
		}
	}
}
