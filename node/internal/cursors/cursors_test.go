package cursors

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/journal"
)

func open(t *testing.T, dir string) *File {
	t.Helper()
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// TestModel holds the file against a map, over reopenings and rewritings.
func TestModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	dir := t.TempDir()
	f := open(t, dir)
	const most = 300 // so that it is written again in time
	f.mostLines = most
	model := map[string]Cursor{}
	for step := range 900 {
		name := fmt.Sprintf("reader-%d", rng.IntN(8))
		old, known := model[name]
		switch op := rng.IntN(20); {
		case op < 14:
			c := Cursor{Name: name, AcqNs: rng.Int64N(1000), CommittedNs: int64(step),
				Question: []string{"", "", "one", "two"}[rng.IntN(4)]}
			force := rng.IntN(3) == 0
			want := error(nil)
			switch {
			case !known || force:
			case c.AcqNs < old.AcqNs:
				want = ErrBehind
			case c.Question == "":
				c.Question = old.Question
			case old.Question != "" && c.Question != old.Question:
				want = ErrQuestion
			}
			sent := c
			if sent.Question == old.Question && !force && rng.IntN(2) == 0 {
				sent.Question = "" // leaves it as it is
			}
			if err := f.Commit(sent, force); !errors.Is(err, want) {
				t.Fatalf("step %d: from %+v to %+v: %v", step, old, c, err)
			} else if err == nil {
				model[name] = c
			}
		case op < 18:
			if err := f.Remove(name); known != (err == nil) || !known && !errors.Is(err,
				ErrUnknown) {
				t.Fatalf("step %d: remove: %v", step, err)
			}
			delete(model, name)
		default:
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			f = open(t, dir)
			f.mostLines = most
		}
		if got, err := f.Get(name); err == nil && got != model[name] {
			t.Fatalf("step %d: %+v, want %+v", step, got, model[name])
		}
	}
	want := slices.SortedFunc(maps.Values(model), func(a, b Cursor) int {
		return strings.Compare(a.Name, b.Name)
	})
	f = open(t, dir)
	if got := f.List(); !slices.Equal(got, want) || len(f.damage) > 0 {
		t.Fatalf("%+v, want %+v, damage %v", got, want, f.damage)
	}
	if n := f.journal.Lines(); n > most+len(model) {
		t.Errorf("%d lines were never written again", n)
	}
}

// A torn end is cut, and a damaged line leaves what was there before it.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	for acq := range int64(3) {
		if err := f.Commit(Cursor{Name: "a", AcqNs: acq}, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, Name)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	starts := []int{0}
	for i, v := range whole {
		if v == '\n' {
			starts = append(starts, i+1)
		}
	}
	last := starts[3]
	if err := os.WriteFile(name, whole[:last], 0o600); err != nil {
		t.Fatal(err)
	}
	if damage, _, err := CheckFile(dir); err != nil || len(damage) != 1 {
		t.Fatalf("a line that was counted is lost: %v, %v", damage, err)
	}
	f = open(t, dir)
	if c, err := f.Get("a"); err != nil || c.AcqNs != 1 || len(f.damage) != 1 {
		t.Fatalf("a line that was counted is lost: %+v, %v, damage %v", c, err, f.damage)
	}
	if damage, _, err := CheckFile(dir); err != nil || len(damage) != 1 {
		t.Fatalf("opening has hidden that a line was lost: %v, %v", damage, err)
	}
	bent := slices.Clone(whole)
	bent[last+12] ^= 1
	// As it was while the last line was being written.
	whole = append(journal.AppendLine(nil, head(journal.CountOf(3))), whole[starts[1]:]...)
	for cut := last; cut < len(whole); cut++ {
		if err := os.WriteFile(name, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		f := open(t, dir)
		if c, err := f.Get("a"); err != nil || c.AcqNs != 1 || len(f.damage) > 0 {
			t.Fatalf("cut at %d: %+v, %v, %v", cut, c, err, f.damage)
		}
		if err := f.Commit(Cursor{Name: "a", AcqNs: 9}, false); err != nil {
			t.Fatal(err)
		}
		if c, err := open(t, dir).Get("a"); err != nil || c.AcqNs != 9 {
			t.Fatalf("cut at %d and appended to: %+v, %v", cut, c, err)
		}
	}
	if err := os.WriteFile(name, bent, 0o600); err != nil {
		t.Fatal(err)
	}
	f = open(t, dir)
	if c, err := f.Get("a"); err != nil || c.AcqNs != 1 || len(f.damage) != 1 ||
		!strings.Contains(f.damage[0], "line 4") {
		t.Fatalf("%+v, %v, damage %v", c, err, f.damage)
	}
}

// Damage is a problem until a cursor is put right, and a file that was emptied is not one without
// cursors.
func TestDamageIsAProblem(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, Name)
	f := open(t, dir)
	for acq := range int64(3) {
		if err := f.Commit(Cursor{Name: "a", AcqNs: acq}, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-20] ^= 1
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f = open(t, dir)
	if all := f.Problems(); len(all) != 1 || all[0].Code != "cursors_damaged" {
		t.Fatalf("a line is damaged: problems %+v", all)
	}
	if err := f.Commit(Cursor{Name: "a", AcqNs: 1}, true); err != nil || len(f.Problems()) > 0 {
		t.Fatalf("it was corrected: %v, problems %+v", err, f.Problems())
	}
	if damage, _, err := CheckFile(dir); err != nil || len(damage) > 0 {
		t.Fatalf("it was corrected: %v, %v", damage, err)
	}
	if err := os.Truncate(name, 0); err != nil {
		t.Fatal(err)
	}
	if f, err := Open(dir); err == nil || f != nil {
		t.Fatal("an emptied file is taken for one without cursors")
	}
}

func TestCopyEndsAtAnAcq(t *testing.T) {
	f, dir := open(t, t.TempDir()), t.TempDir()
	for name, acq := range map[string]int64{"low": 5, "high": 50} {
		if err := f.Commit(Cursor{Name: name, AcqNs: acq}, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.CopyTo(dir, 20); err != nil {
		t.Fatal(err)
	}
	got := open(t, dir).List()
	if len(got) != 2 || got[0].AcqNs != 20 || got[1].AcqNs != 5 {
		t.Fatalf("%+v", got)
	}
}

func FuzzParse(f *testing.F) {
	dir := f.TempDir()
	c, err := Open(dir)
	if err != nil {
		f.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := errors.Join(c.Commit(Cursor{Name: "a", AcqNs: 1}, false), c.Commit(Cursor{Name: "b"},
		false), c.Remove("a")); err != nil {
		f.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, Name))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		read := func(data []byte) (*File, *journal.Content, error) {
			f := &File{all: map[string]Cursor{}}
			content, err := journal.Read(data, format, f.apply)
			return f, content, err
		}
		one, content, err := read(data)
		if err != nil {
			return
		}
		if int(content.Size)+content.Torn != len(data) || len(one.all) > Max {
			t.Fatalf("%+v of %d bytes, %d cursors", content, len(data), len(one.all))
		}
		again, content, err := read(encode(Sorted(one.all), 1<<63-1))
		if err != nil || len(content.Damage) > 0 || !maps.Equal(one.all, again.all) {
			t.Fatalf("%+v written and read is %+v, %v %v", one.all, again.all, err, content.Damage)
		}
	})
}
