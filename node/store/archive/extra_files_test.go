package archive

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/check"
	"github.com/pentad-db/pentad/node/store/layout"
)

// TestBackupExtraFiles keeps files of others in three parts: one that changes, one that is kept
// once, and one that is not always there.
func TestBackupExtraFiles(t *testing.T) {
	s := openTest(t, store.Options{})
	dir, to := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	opt := BackupOptions{Extra: []ExtraFile{{"LIST", filepath.Join(dir, "LIST"), false},
		{"abc.wasm", filepath.Join(dir, "abc.wasm"), true},
		{"MARK", filepath.Join(dir, "MARK"), false}}}
	var ends []int64
	for i, content := range []string{"one", "two", "three"} {
		write("LIST", content)
		write("abc.wasm", "module")
		if i == 1 {
			write("MARK", "mark")
		} else {
			_ = os.Remove(filepath.Join(dir, "MARK")) // it is not there at first
		}
		part, err := Backup(t.Context(), s, to, opt)
		if err != nil || len(part.Beside) != []int{2, 2, 1}[i] {
			t.Fatalf("%+v, %v", part, err)
		}
		ends = append(ends, part.UntilAcqNs)
	}
	f := func(untilNs int64, want map[string]string) {
		t.Helper()
		if got := restoredBeside(t, to, untilNs); !maps.Equal(got, want) {
			t.Errorf("until %d: %q, want %q", untilNs, got, want)
		}
	}
	f(ends[0], map[string]string{"LIST": "one", "abc.wasm": "module"})
	f(ends[0]+1, map[string]string{"LIST": "two", "abc.wasm": "module", "MARK": "mark"})
	f(ends[2], map[string]string{"LIST": "three", "abc.wasm": "module", "MARK": "mark"})
	besideIsProved(t, to, filepath.Join(to, partName(ends[0]), "abc.wasm"))
}

// restoredBeside restores a backup and returns what it hands out beside the store.
func restoredBeside(t *testing.T, from string, untilNs int64) map[string]string {
	t.Helper()
	got := map[string]string{}
	into := filepath.Join(t.TempDir(), "store")
	take := func(files []ExtraFile, until int64) error {
		if _, err := os.Stat(into); !errors.Is(err, os.ErrNotExist) || until != untilNs {
			t.Errorf("until %d, %v", until, err)
		}
		for _, f := range files {
			content, err := os.ReadFile(f.Path)
			if err != nil {
				return err
			}
			got[f.Name] = string(content)
		}
		return nil
	}
	_, err := Restore(t.Context(), from, into, RestoreOptions{UntilAcqNs: untilNs, Extra: take})
	if err != nil {
		t.Fatalf("until %d: %v", untilNs, err)
	}
	return got
}

// besideIsProved bends a file of a backup, which is found, and refuses what there is.
func besideIsProved(t *testing.T, to, corrupted string) {
	t.Helper()
	// What cannot be taken leaves no store.
	refused := errors.New("refused")
	into := filepath.Join(t.TempDir(), "store")
	_, err := Restore(t.Context(), to, into, RestoreOptions{
		Extra: func([]ExtraFile, int64) error { return refused }})
	if _, there := os.Stat(into); !errors.Is(err, refused) || there == nil {
		t.Errorf("%v, %v", err, there)
	}

	// They are checked as all files are.
	if err := os.WriteFile(corrupted, []byte("modulo"), 0o600); err != nil {
		t.Fatal(err)
	}
	var damage *durable.CorruptError
	if _, err = Restore(t.Context(), to, into, RestoreOptions{CheckOnly: true}); !errors.As(err,
		&damage) || damage.File != corrupted {
		t.Errorf("%v", err)
	}
	report, err := Check(t.Context(), to, check.Options{})
	if err != nil || report.Damages != 1 || report.Damage[0].File != corrupted {
		t.Errorf("%+v, %v", report, err)
	}
}

// A part that names a file of its own beside the store is none.
func TestPartInsideItself(t *testing.T) {
	for _, name := range []string{"a/b", "../a", partFile, layout.WritersFile,
		layout.SegmentName(1)} {
		p := &Part{Format: partFormat, Shards: 1, UntilAcqNs: 1,
			Writers: file{Name: layout.WritersFile}, Beside: []file{{Name: name}}}
		if _, err := parsePart(appendPart(nil, p)); err == nil {
			t.Errorf("%s is accepted", name)
		}
		p.Beside = nil
		if _, err := parsePart(appendPart(nil, p)); err != nil {
			t.Errorf("without %s: %v", name, err)
		}
	}
}
