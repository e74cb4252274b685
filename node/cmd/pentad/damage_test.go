package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
	"github.com/pentad-db/pentad/node/store"
)

// A stopped node whose MANIFEST is damaged: check and repair name the file, the offset and the way
// out, and end with the code of damage. What is whole is not complained of.
func TestDamageOfAStoppedNode(t *testing.T) {
	dir := t.TempDir()
	s, _, err := store.Open(t.Context(), store.Options{Dir: filepath.Join(dir, "store")})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, text, code := runCommand(t, "", "repair", dir); code != 0 ||
		!strings.Contains(text, "the log is not damaged, nor is what a start reads") {
		t.Errorf("repair of what is whole: %d, %s", code, text)
	}
	name := filepath.Join(dir, "store", "MANIFEST")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	data[20] ^= 8
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"check"}, {"repair"}, {"repair", "--cut-log"},
		{"verify", "files", "--dir"}} {
		stdout, text, code := runCommand(t, "", append(command, dir)...)
		if code != cli.ExitDamaged {
			t.Errorf("%v ends with %d", command, code)
		}
		for _, want := range []string{"store/MANIFEST", "offset", "pentad repair cannot mend it",
			"restore a backup", "a cluster replaces the replica"} {
			if !strings.Contains(stdout+text, want) {
				t.Errorf("%v: %s%s; want %q", command, stdout, text, want)
			}
		}
	}
}
