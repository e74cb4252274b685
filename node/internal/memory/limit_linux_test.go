package memory

import (
	"os"
	"path/filepath"
	"testing"
)

// TestGroupLimit: a process may have what the tightest control group above it may, and what cannot
// be read limits nothing.
func TestGroupLimit(t *testing.T) {
	root := t.TempDir()
	own := filepath.Join(root, "own")
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a/memory.max", "5000\n")
	write("a/b/memory.max", "max\n")
	write("a/b/c/memory.max", "7000\n")
	write("d/memory.max", "no number\n")
	write("memory/v1/memory.limit_in_bytes", "4000\n")
	write("memory/memory.limit_in_bytes", "9223372036854771712\n")
	for _, c := range []struct {
		own  string
		want uint64
	}{
		{"0::/a/b/c\n", 5000}, {"0::/a/b\n", 5000}, {"0::/a\n", 5000}, {"0::/\n", 9000},
		{"0::/d/e\n", 9000}, {"3:cpu:/v1\n0::/\n", 9000}, {"1:cpu:/\n0::/a/b/c", 5000},
		{"4:memory:/v1/x\n0::/\n", 4000}, {"4:cpu,memory:/v1\n", 4000}, {"4:memory:/none", 9000},
		{"", 9000}, {"0::\n", 9000}, {"0::a/b", 5000}, {"0::../..\n", 9000},
	} {
		write("own", c.own)
		if got := groupLimit(root, own, 9000); got != c.want {
			t.Errorf("of %q: %d, want %d", c.own, got, c.want)
		}
	}
	if got := groupLimit(root, filepath.Join(root, "none"), 9000); got != 9000 {
		t.Errorf("without control groups: %d", got)
	}
	if got := groupLimit(root, own, 3000); got != 3000 {
		t.Errorf("of a small machine: %d", got)
	}
}
