package journal

import (
	"os"
	"path/filepath"
	"testing"
)

func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.json")
	open := func(key string) *Journal {
		t.Helper()
		j, err := Open(path, key)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	done := func(j *Journal, step string, want bool, value int) {
		t.Helper()
		got := 0
		ok, err := j.Done(step, &got)
		if err != nil || ok != want || got != value {
			t.Errorf("step %s: %v, %d, %v; want %v, %d", step, ok, got, err, want, value)
		}
	}
	j := open("a")
	if !j.Empty() {
		t.Error("a new journal is not empty")
	}
	for i, step := range []string{"load", "ask"} {
		if err := j.Record(step, i+1); err != nil {
			t.Fatal(err)
		}
	}
	j = open("a")
	done(j, "load", true, 1)
	done(j, "ask", true, 2)
	done(j, "close", false, 0)
	if err := j.Forget("ask"); err != nil {
		t.Fatal(err)
	}
	done(open("a"), "ask", false, 0)
	done(open("a"), "load", true, 1)
	done(open("b"), "load", false, 0)

	if err := os.WriteFile(path, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, "a"); err == nil {
		t.Error("damage is not seen")
	}
}
