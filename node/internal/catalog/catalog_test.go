package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/journal"
	"github.com/pentad-db/pentad/sdk/plugin"
)

func digest(c string) string { return strings.Repeat(c, 64) }

func push(name, c string) Change {
	return Change{Push: &Push{Name: name, Version: Version{SHA256: digest(c), Bytes: 7,
		Owner: "me", Description: "what " + c, UploadedNs: 5}}}
}

func promote(name, c string) Change { return Change{Promote: &Ref{name, digest(c)}} }
func remove(name, c string) Change  { return Change{Remove: &Ref{name, digest(c)}} }
func removeAll(name string) Change  { return Change{Remove: &Ref{Name: name}} }

// tell writes a state as name:versions, the current one in brackets.
func tell(s *State) string {
	var out []string
	for _, c := range s.Changes() {
		if c.Push != nil {
			p := s.Plugins[c.Push.Name]
			v := c.Push.SHA256[:1]
			if p.Versions[p.Current].SHA256 == c.Push.SHA256 {
				v = "[" + v + "]"
			}
			out = append(out, c.Push.Name+":"+v)
		}
	}
	for _, q := range s.Sorted() {
		out = append(out, fmt.Sprintf("%d=%s", q.MOID, q.Name))
	}
	return strings.Join(out, " ")
}

func quantity(moid int32, name string) Change {
	return Change{Quantity: &plugin.Quantity{MOID: moid, Name: name, Type: plugin.F64}}
}

func forget(moid int32) Change { return Change{Forget: &moid} }

// history is changes, and what the catalogue says after each.
func history() (changes []Change, want []string) {
	for _, step := range []struct {
		change Change
		want   string
	}{
		{push("a", "1"), "a:[1]"},
		{push("a", "2"), "a:1 a:[2]"},
		{push("b", "2"), "a:1 a:[2] b:[2]"},
		{push("a", "3"), "a:1 a:2 a:[3] b:[2]"},
		{promote("a", "1"), "a:[1] a:2 a:3 b:[2]"},
		{remove("a", "2"), "a:[1] a:3 b:[2]"},
		{push("a", "1"), "a:3 a:[1] b:[2]"},
		{remove("a", "3"), "a:[1] b:[2]"},
		{remove("b", "2"), "a:[1]"},
		{push("c", "4"), "a:[1] c:[4]"},
		{push("c", "5"), "a:[1] c:4 c:[5]"},
		{removeAll("c"), "a:[1]"},
		{quantity(7, "energy"), "a:[1] 7=energy"},
		{quantity(3, "power"), "a:[1] 3=power 7=energy"},
		{quantity(7, "work"), "a:[1] 3=power 7=work"},
		{forget(3), "a:[1] 7=work"},
		{forget(7), "a:[1]"},
	} {
		changes, want = append(changes, step.change), append(want, step.want)
	}
	return changes, want
}

func TestApply(t *testing.T) {
	var s State
	changes, want := history()
	for i, c := range changes {
		before := s
		if err := s.Apply(&c); err != nil || tell(&s) != want[i] {
			t.Fatalf("change %d: %s, %v, want %s", i, tell(&s), err, want[i])
		}
		if i > 0 && tell(&before) != want[i-1] {
			t.Fatalf("change %d changed the state before it to %s", i, tell(&before))
		}
		var again State
		for _, c := range s.Changes() {
			if err := again.Apply(&c); err != nil {
				t.Fatal(err)
			}
		}
		if tell(&again) != tell(&s) || len(s.Plugins) > 0 &&
			!reflect.DeepEqual(again.Plugins, s.Plugins) {
			t.Errorf("change %d: the changes of a state make %s of %s", i, tell(&again), tell(&s))
		}
	}
}

func TestRefused(t *testing.T) {
	var s State
	for _, c := range []Change{push("a", "1"), push("a", "2")} {
		if err := s.Apply(&c); err != nil {
			t.Fatal(err)
		}
	}
	f := func(c Change, want string) {
		t.Helper()
		if err := s.Apply(&c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
		if tell(&s) != "a:1 a:[2]" {
			t.Errorf("%+v: left %s", c, tell(&s))
		}
	}
	f(Change{}, "0 members")
	f(Change{Push: push("a", "3").Push, Remove: &Ref{Name: "a"}}, "2 members")
	f(quantity(1, ""), "the name not empty")
	f(forget(1), "quantity 1 is not in the catalogue")
	f(push("A", "3"), "no name")
	f(push("a", "x"), "no digest")
	f(Change{Push: &Push{Name: "a", Version: Version{SHA256: digest("3")}}}, "0 bytes")
	long := push("a", "3")
	long.Push.Owner = strings.Repeat("x", MaxOwnerBytes+1)
	f(long, "owner has 65 bytes")
	odd := push("a", "3")
	odd.Push.Description = "two\nlines"
	f(odd, "cannot be shown on one line")
	f(promote("a", "3"), "not in the catalogue")
	f(promote("b", "1"), "not in the catalogue")
	f(remove("a", "3"), "not in the catalogue")
	f(remove("a", "2"), "promote another")
	f(removeAll("b"), "not in the catalogue")
}

func TestFull(t *testing.T) {
	var s State
	p := Plugin{Versions: make([]Version, MaxVersions)}
	s.Plugins = map[string]Plugin{"a": p}
	c := push("b", "1")
	if err := s.Check(&c); !errors.Is(err, ErrFull) {
		t.Errorf("%v", err)
	}
	p.Versions[7] = push("a", "1").Push.Version
	if c = push("a", "1"); s.Check(&c) != nil {
		t.Errorf("the same version again: %v", s.Check(&c))
	}
}

func TestFullQuantities(t *testing.T) {
	s := State{Quantities: map[int32]plugin.Quantity{}}
	for i := range int32(MaxQuantities) {
		s.Quantities[i] = plugin.Quantity{MOID: i}
	}
	c := quantity(MaxQuantities, "more")
	if err := s.Check(&c); !errors.Is(err, ErrFullQuantities) {
		t.Errorf("%v", err)
	}
	if c = quantity(0, "other"); s.Check(&c) != nil {
		t.Errorf("one that is there: %v", s.Check(&c))
	}
}

func openTest(t *testing.T, dir string) *File {
	t.Helper()
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// written returns the file of the history, and where each of its lines ends.
func written(t *testing.T) (data []byte, ends []int, want []string) {
	t.Helper()
	dir := t.TempDir()
	f := openTest(t, dir)
	changes, want := history()
	size := func() int {
		data, err := os.ReadFile(filepath.Join(dir, Name))
		if err != nil {
			t.Fatal(err)
		}
		return len(data)
	}
	ends = append(ends, size())
	for i, c := range changes {
		if err := f.Append(&c); err != nil || tell(&f.State) != want[i] {
			t.Fatalf("change %d: %s, %v", i, tell(&f.State), err)
		}
		ends = append(ends, size())
	}
	data, err := os.ReadFile(filepath.Join(dir, Name))
	if err != nil {
		t.Fatal(err)
	}
	return data, ends, append([]string{""}, want...)
}

func sameWords(a, b string) bool {
	x, y := strings.Fields(a), strings.Fields(b)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

// TestCrash cuts the file at every byte, as a crash during a write may: what was acknowledged is
// there, the line that was cut is not, and the file goes on.
func TestCrash(t *testing.T) {
	data, ends, want := written(t)
	whole := 0
	for cut := ends[0]; cut <= len(data); cut++ {
		for whole+1 < len(ends) && ends[whole+1] <= cut {
			whole++
		}
		// As it was while the next line was being written: the first one counts those before.
		head := first{Format: format, Lines: journal.CountOf(whole + 1)}
		data := append(journal.AppendLine(nil, head), data[ends[0]:]...)
		parsed, content, err := parse(data[:cut])
		if err != nil || len(parsed.Damage) > 0 || tell(&parsed.State) != want[whole] ||
			content.Size != int64(ends[whole]) {
			t.Fatalf("cut at %d: %s, %d good bytes, damage %q, %v", cut, tell(&parsed.State),
				content.Size, parsed.Damage, err)
		}
		if cut%101 != 0 && cut != ends[whole] {
			continue // a disk takes long to sync
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, Name), data[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		f := openTest(t, dir)
		if len(f.Damage) > 0 || tell(&f.State) != want[whole] || f.Cut != cut-ends[whole] {
			t.Fatalf("cut at %d: %s, cut %d, damage %q, want %s", cut, tell(&f.State), f.Cut,
				f.Damage, want[whole])
		}
		c := push("z", "9")
		if err := f.Append(&c); err != nil {
			t.Fatal(err)
		}
		if again := openTest(t, dir); len(again.Damage) > 0 || again.Cut != 0 ||
			!sameWords(tell(&again.State), want[whole]+" z:[9]") {
			t.Fatalf("cut at %d and gone on: %s, damage %q", cut, tell(&again.State), again.Damage)
		}
	}
}

// Lines that the first one counts are lost, all but the newest, which it does not count yet:
// opening names that, also the next time, and so does a check.
func TestLostLines(t *testing.T) {
	data, ends, want := written(t)
	for whole := range ends {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, Name), data[:ends[whole]], 0o600); err != nil {
			t.Fatal(err)
		}
		lost := whole < len(ends)-2
		for range 2 {
			damage, err := Check(dir, func(int64) error { return nil })
			damage = slices.DeleteFunc(damage, func(d *durable.CorruptError) bool {
				return filepath.Base(d.File) != Name // modules that are not there
			})
			f := openTest(t, dir)
			if err != nil || (len(damage) > 0) != lost || (len(f.Damage) > 0) != lost ||
				tell(&f.State) != want[whole] {
				t.Fatalf("%d of %d lines: %v, %q, %v", whole+1, len(ends), damage, f.Damage, err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestDamage bends every byte of the file: the line is named, the others hold as far as they can,
// and the file goes on.
func TestDamage(t *testing.T) {
	data, ends, want := written(t)
	for at := range data {
		bent := bytes.Clone(data)
		bent[at] ^= 1
		parsed, _, err := parse(bent)
		if err != nil || len(parsed.Damage) == 0 {
			t.Fatalf("byte %d bent: damage %q, %v", at, parsed.Damage, err)
		}
		if at%101 != 0 && at != len(data)-1 {
			continue
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, Name), bent, 0o600); err != nil {
			t.Fatal(err)
		}
		f := openTest(t, dir)
		if at < ends[0]-1 && tell(&f.State) != want[len(want)-1] {
			t.Fatalf("byte %d of the first line bent: %s", at, tell(&f.State))
		}
		c := push("z", "9")
		if err := f.Append(&c); err != nil {
			t.Fatal(err)
		}
		if again := openTest(t, dir); !strings.Contains(tell(&again.State), "z:[9]") ||
			tell(&again.State) != tell(&f.State) {
			t.Fatalf("byte %d bent: %s became %s", at, tell(&f.State), tell(&again.State))
		}
	}
}

func TestLost(t *testing.T) {
	dir := t.TempDir()
	module := filepath.Join(dir, digest("1")+ModuleSuffix)
	if err := os.WriteFile(module, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if f := openTest(t, dir); !f.Unlisted || len(f.Damage) != 1 {
			t.Errorf("unlisted %v, damage %q", f.Unlisted, f.Damage)
		}
	}
	other := t.TempDir()
	newer := journal.AppendLine(nil, first{Format: format + 1})
	if err := os.WriteFile(filepath.Join(other, Name), newer, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(other); err == nil || !strings.Contains(err.Error(), "reads format 1") {
		t.Errorf("a later format: %v", err)
	}
}

// TestShortened writes more changes than the file keeps lines of.
func TestShortened(t *testing.T) {
	dir := t.TempDir()
	var long []byte
	long = journal.AppendLine(long, first{Format: format})
	for range rewriteLines / 2 {
		long = journal.AppendLine(journal.AppendLine(long, push("a", "1")), removeAll("a"))
	}
	long = journal.AppendLine(long, push("a", "2"))
	name := filepath.Join(dir, Name)
	if err := os.WriteFile(name, long, 0o600); err != nil {
		t.Fatal(err)
	}
	f := openTest(t, dir)
	short, err := os.ReadFile(name)
	if err != nil || tell(&f.State) != "a:[2]" || bytes.Count(short, []byte("\n")) != 2 {
		t.Fatalf("%s, %v\n%s", tell(&f.State), err, short)
	}
	if c := push("a", "3"); f.Append(&c) != nil {
		t.Fatal(f.Failure())
	}
	copied := t.TempDir()
	if err := f.CopyTo(copied); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{dir, copied} {
		if again := openTest(t, dir); tell(&again.State) != "a:2 a:[3]" {
			t.Errorf("%s", tell(&again.State))
		}
	}
}

func TestFailedStaysFailed(t *testing.T) {
	f := openTest(t, t.TempDir())
	if err := f.journal.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		c := push("a", "1")
		err := f.Append(&c)
		if err == nil || !strings.Contains(err.Error(), "start the node again") {
			t.Errorf("%v", err)
		}
		if len(f.State.Plugins) > 0 {
			t.Error("a change that is not on disk was applied")
		}
	}
}

func FuzzParse(f *testing.F) {
	seed := journal.AppendLine(nil, first{Format: format}) // short, as a fuzzer shortens it first
	for _, c := range []Change{push("a", "1"), promote("a", "1"), quantity(7, "q")} {
		seed = journal.AppendLine(seed, c)
	}
	f.Add(seed)
	f.Add(seed[:len(seed)-1])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		file, content, err := parse(data)
		if err != nil {
			return
		}
		if int(content.Size)+content.Torn != len(data) {
			t.Fatalf("%+v of %d bytes", content, len(data))
		}
		again, end, err := parse(file.bytes())
		if err != nil || int(end.Size) != len(file.bytes()) ||
			tell(&again.State) != tell(&file.State) {
			t.Fatalf("%s became %s, %v", tell(&file.State), tell(&again.State), err)
		}
	})
}
