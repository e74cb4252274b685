package required

import (
	"os"
	"path/filepath"
	"testing"
)

func TestIsRequired(t *testing.T) {
	f := func(list string, what Thing, want bool) {
		t.Helper()
		if got := isRequired(list, what); got != want {
			t.Errorf("%q requires %s: %v", list, what, got)
		}
	}
	f("", Data, false)
	f("all", Data, true)
	f("data", Data, true)
	f("clang,data", Data, true)
	f("clang, data", Clang, true)
	f("network", Data, false)
	f("databases", Data, false) // no prefix of another name
}

// fake is a test that records what it is told.
type fake struct {
	testing.TB
	failed, skipped bool
}

func (f *fake) Helper()               {}
func (f *fake) Name() string          { return "TestFake" }
func (f *fake) Fatalf(string, ...any) { f.failed = true; panic(f) }
func (f *fake) Skipf(string, ...any)  { f.skipped = true; panic(f) }

func outcome(do func(t testing.TB)) (f *fake) {
	f = &fake{}
	defer func() {
		if e := recover(); e != nil && e != any(f) {
			panic(e)
		}
	}()
	do(f)
	return f
}

// What is lacking is noted, and fails where it is required.
func TestSkip(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notes")
	t.Setenv("PENTAD_NOT_TESTED", name)
	t.Setenv("PENTAD_REQUIRE", "clang")
	if f := outcome(func(t testing.TB) { Skip(t, Data, "no data") }); !f.skipped || f.failed {
		t.Errorf("without data: %+v", f)
	}
	if f := outcome(func(t testing.TB) { Lacks(t, Disks, "no disks") }); f.skipped || f.failed {
		t.Errorf("without disks: %+v", f)
	}
	if f := outcome(func(t testing.TB) { Skip(t, Clang, "no clang") }); f.skipped || !f.failed {
		t.Errorf("without clang, which is required: %+v", f)
	}
	const want = "NOT TESTED: TestFake (data): no data\nNOT TESTED: TestFake (disks): no disks\n"
	if text, err := os.ReadFile(name); err != nil || string(text) != want {
		t.Errorf("notes %q, %v", text, err)
	}
}
