package main

import (
	"os"
	"strings"
	"testing"
)

// TestMain is the program itself when it is started to open a node.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == openedName {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestResident(t *testing.T) {
	out, figures := command(t, "resident", "--sizes", "1e5,3e5", "--idle", "100ms", "--files-only",
		"--pentad", buildPentad(t))
	if !strings.Contains(out, "posix_fadvise") {
		t.Errorf("nothing is said of the page cache:\n%s", out)
	}
	for _, name := range []string{"open again, 0.1 M", "segments on disk, 0.3 M",
		"of these, index, scaled to a billion", "pentad serve: resident, own, 0.3 M"} {
		if f := figures[name]; f.Value <= 0 {
			t.Errorf("%s: %+v", name, f)
		}
	}
	for _, name := range []string{heapAsked + ", of a billion records", idleName,
		"pentad serve: " + idleName} {
		if figures[name].Bar == nil {
			t.Errorf("%s has no bar", name)
		}
	}
}
