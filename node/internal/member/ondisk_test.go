package member

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The state that a meta replica wrote is read and named with its modules; corrupt anywhere, it is
// not read.
func TestStateIsChecked(t *testing.T) {
	k := created(t)
	applied(t, k, pushABC("one"))
	if err := k.Sync(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(k.dir, stateName)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	modules, size, err := CheckState(k.dir)
	if err != nil || size != int64(len(whole)) ||
		!slices.Equal(slices.Collect(maps.Keys(modules)), []string{abcFile}) {
		t.Fatalf("%v in %d bytes, %v", modules, size, err)
	}
	for at := range whole {
		bent := slices.Clone(whole)
		bent[at] ^= 1 << (at % 8)
		if err := os.WriteFile(name, bent, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := CheckState(k.dir); err == nil {
			t.Fatalf("byte %d is bent, and the state is read", at)
		}
	}
}
