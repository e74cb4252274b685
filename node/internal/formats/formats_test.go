package formats

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestOf(t *testing.T) {
	f := func(version uint64, want string) {
		t.Helper()
		e := Of("dir/MANIFEST", "", version, 6)
		if e == nil != (want == "") || e != nil && (!strings.Contains(e.Error(), want) ||
			!strings.HasPrefix(e.Error(), "dir/MANIFEST: ") ||
			!strings.Contains(e.Error(), "not damaged")) {
			t.Errorf("format %d: %v", version, e)
		}
	}
	f(0, "")
	f(1, "written by an older version of pentad in format 1, this one reads format 6: export with ")
	f(5, "export with the version of pentad that wrote it, and import")
	f(6, "")
	f(7, "written by a newer version of pentad in format 7, this one reads format 6: start ")
	f(255, "newer")
	f(256, "")
	f(1<<63, "")
}

func TestIn(t *testing.T) {
	plain := errors.New("plain")
	if err := In("a", plain); err != plain || Is(err) {
		t.Error(err)
	}
	if err := In("a", nil); err != nil {
		t.Error(err)
	}
	part := fmt.Errorf("parse: %w", error(Of("", "index", 1, 2)))
	err := In("b", In("a", part))
	if !Is(err) || !strings.HasPrefix(err.Error(), "a: index: written by an older") {
		t.Error(err)
	}
}
