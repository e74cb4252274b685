package wasmhost

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
)

// tagged is the good plugin with a section that nothing reads: another module, the same code.
func tagged(tag byte) []byte { return append(good(nil), 0, 2, 1, tag) }

// other is a plugin with code of its own.
func other() []byte {
	return good(func(a *asm) {
		a.data[descAt] = descriptor(func(field func(int, uint32)) { field(36, 512) })
	})
}

func wantCode(t *testing.T, h *Host, what string, code, lines int) {
	t.Helper()
	owned, err := os.ReadDir(filepath.Join(h.cache.dir, ownersFolder))
	if files := h.cache.files(); len(files) != code || err != nil || len(owned) != lines {
		t.Errorf("%s: files %v, %d lines, %v; want %d and %d", what, files, len(owned), err, code,
			lines)
	}
}

func discard(t *testing.T, h *Host, wasm []byte) {
	t.Helper()
	if err := h.Discard(sha256.Sum256(wasm)); err != nil {
		t.Error(err)
	}
}

// Code goes with the last module that it is of, and a module that runs goes on.
func TestDiscard(t *testing.T) {
	h := newTestHost(t, Options{CacheDir: t.TempDir()})
	m := mustLoad(t, h, tagged('a'))
	defer m.Close()
	wantCode(t, h, "one", 1, 1)
	if h.cache.knows(sha256.Sum256(tagged('b'))) || !h.cache.knows(sha256.Sum256(tagged('a'))) {
		t.Error("only what was loaded is known to be valid")
	}
	b := mustLoad(t, h, tagged('b'))
	b.Close()
	wantCode(t, h, "the same code twice", 1, 2)
	if s := h.Stats(); s.CacheHits != 1 {
		t.Errorf("%d hits", s.CacheHits)
	}
	mustLoad(t, h, tagged('b')).Close()
	discard(t, h, tagged('b'))
	wantCode(t, h, "one of two is gone", 1, 1)
	discard(t, h, tagged('b'))
	discard(t, h, tagged('a'))
	wantCode(t, h, "both are gone", 0, 0)
	if h.cache.knows(sha256.Sum256(tagged('a'))) {
		t.Error("what was discarded is known to be valid")
	}
	checkGood(t, m)
	c := mustLoad(t, h, tagged('c')) // in memory there is its code still
	defer c.Close()
	checkGood(t, c)
}

// What a crash leaves behind is removed at the next start: code without a line, a line without
// code, parts of either; and what belongs to modules that are gone.
func TestDiscardOthers(t *testing.T) {
	dir := t.TempDir()
	kept := sha256.Sum256(tagged('a'))
	keep := func(digest string) bool { return digest == hex.EncodeToString(kept[:]) }
	open := func() *Host {
		h := newTestHost(t, Options{CacheDir: dir})
		mustLoad(t, h, tagged('a')).Close()
		return h
	}
	h := open()
	mustLoad(t, h, tagged('b')).Close()
	mustLoad(t, h, other()).Close()
	wantCode(t, h, "three modules", 2, 3)
	code, digest := "", sha256.Sum256(other())
	all, err := h.cache.owners()
	if err != nil {
		t.Fatal(err)
	}
	code = all[hex.EncodeToString(digest[:])].file
	for path, text := range map[string]string{
		filepath.Join(filepath.Dir(code), "1234.tmp"): "a file that was being written",
		filepath.Join(ownersFolder, "00ff"):           "a line that was being wri",
		filepath.Join(ownersFolder, "00fe"):           "0123 ../../../gone\n",
	} {
		if err := os.WriteFile(filepath.Join(h.cache.dir, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(h.cache.ownerPath(digest)); err != nil { // discarded by half
		t.Fatal(err)
	}
	h = open()
	if err := h.DiscardOthers(keep); err != nil {
		t.Fatal(err)
	}
	wantCode(t, h, "after a start", 1, 1)
	if s := h.Stats(); s.CacheHits != 1 {
		t.Errorf("%d hits", s.CacheHits)
	}
	if err := os.Remove(h.cache.ownerPath(kept)); err != nil { // the line of what is kept is lost
		t.Fatal(err)
	}
	if err := open().DiscardOthers(keep); err != nil {
		t.Fatal(err)
	}
	wantCode(t, h, "with a line lost", 0, 0)
	h = open()
	if err := h.DiscardOthers(keep); err != nil {
		t.Fatal(err)
	}
	wantCode(t, h, "compiled again", 1, 1)
}
