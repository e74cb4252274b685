package wasmhost

import (
	"crypto/sha256"
	"os"
	"testing"
)

// A disk that is full when a line about compiled code is to be written is no reason to do without
// the module.
func TestFullDiskOfTheCache(t *testing.T) {
	h := newTestHost(t, Options{CacheDir: t.TempDir()})
	wasm := good(nil)
	if err := os.Symlink("/dev/full", h.cache.ownerPath(sha256.Sum256(wasm))); err != nil {
		t.Fatal(err)
	}
	m, err := h.Load(t.Context(), wasm)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
