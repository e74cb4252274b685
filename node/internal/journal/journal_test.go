package journal

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/durable/memdir"
	"github.com/pentad-db/pentad/node/internal/formats"
)

const testFormat = 3

var (
	errInjected = errors.New("injected")
	errFailed   = errors.New("open it again")
)

type testFirst struct {
	Format int   `json:"format"`
	Lines  Count `json:"lines,omitempty"`
}

type testLine struct {
	N    int    `json:"n"`
	Text string `json:"text,omitempty"`
}

// testJournal is a journal in memory and what was read of it.
type testJournal struct {
	opt  Options
	dir  *memdir.Dir
	read []testLine
}

func newTestJournal(counted bool) *testJournal {
	j := &testJournal{dir: new(memdir.Dir)}
	j.opt = Options{Folder: j.dir, Name: "JOURNAL", Dir: "dir", What: "journal",
		Format: testFormat, Apply: j.apply, Failed: errFailed}
	if counted {
		j.opt.Head = func(n Count) any { return testFirst{testFormat, n} }
	}
	return j
}

func (j *testJournal) apply(number int, line []byte) error {
	if number == 1 {
		return ParseLine(line, new(testFirst))
	}
	var l testLine
	err := ParseLine(line, &l)
	if err == nil {
		j.read = append(j.read, l)
	}
	return err
}

func (j *testJournal) text(all []testLine) []byte {
	head := testFirst{Format: testFormat}
	if j.opt.Head != nil {
		head.Lines = CountOf(1 + len(all))
	}
	out := AppendLine(nil, head)
	for _, l := range all {
		out = AppendLine(out, l)
	}
	return out
}

func (j *testJournal) open() (*File, error) {
	j.read = nil
	f, err := Open(j.opt)
	if errors.Is(err, os.ErrNotExist) {
		f, err = Create(j.opt, j.text(nil))
	}
	return f, err
}

// TestModel appends and rewrites at random, on a disk that fails, is full and loses power: what was
// acknowledged is there whenever the journal is opened, and what was refused is not.
func TestModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("PENTAD_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("again: PENTAD_SEED=%d go test -run TestModel$ ./node/internal/journal", seed)
	for run := range uint64(40) {
		m := &model{T: t, rng: rand.New(rand.NewPCG(seed, run)),
			testJournal: newTestJournal(run%2 == 0)}
		m.dir.Fail = m.fail
		m.reopen()
		for range 200 {
			m.step()
		}
	}
}

type model struct {
	*testing.T
	*testJournal
	rng   *rand.Rand
	f     *File
	want  []testLine
	other []testLine // what may be there instead, once the journal failed
	fails int        // operations until one fails; below 0: none
	next  int
}

func (m *model) fail(string) error {
	if m.fails--; m.fails == -1 {
		return errInjected
	}
	return nil
}

func (m *model) step() {
	m.Helper()
	if m.rng.IntN(10) == 0 {
		m.fails = m.rng.IntN(8)
	}
	if m.rng.IntN(10) == 0 {
		m.dir.SetFree(m.rng.IntN(1000))
	}
	switch op := m.rng.IntN(20); {
	case op < 14:
		m.append()
	case op < 16:
		m.rewrite()
	case op == 16:
		m.fails = -1
		if err := m.f.Close(); err != nil && m.f.Failure() == nil {
			m.Fatal(err)
		}
		m.flip()
		m.reopen()
	case op == 17:
		m.dir.LosePower(m.rng)
		m.reopen()
	default: // it is killed
		m.reopen()
	}
}

func (m *model) append() {
	m.Helper()
	m.next++
	l := testLine{N: m.next, Text: strings.Repeat("x", m.rng.IntN(600))}
	m.check(m.f.Append(l), append(slices.Clone(m.want), l))
}

func (m *model) rewrite() {
	m.Helper()
	few := slices.Clone(m.want[max(0, len(m.want)-3):])
	m.check(m.f.Rewrite(m.text(few)), few)
}

// check notes what a change did.
func (m *model) check(err error, after []testLine) {
	m.Helper()
	failed := m.f.Failure()
	switch {
	case err == nil && failed == nil:
		m.want = after
	case err == nil:
		m.Fatalf("a change of a journal that failed: %v", failed)
	case failed != nil && (!errors.Is(err, errFailed) || durable.IsNoSpace(err)):
		m.Fatalf("it failed, and says %v", err)
	case failed != nil && m.other == nil:
		m.other = after
	case failed == nil && !durable.IsNoSpace(err) && !errors.Is(err, errInjected):
		m.Fatal(err)
	}
}

// reopen opens the journal as whatever happened before left it.
func (m *model) reopen() {
	m.Helper()
	m.fails = -1
	m.dir.SetFree(-1)
	var err error
	if m.f, err = m.open(); err != nil {
		m.Fatal(err)
	}
	if !slices.Equal(m.read, m.want) && (m.other == nil || !slices.Equal(m.read, m.other)) {
		m.Fatalf("%d lines are read, %d are wanted, or %d", len(m.read), len(m.want),
			len(m.other))
	}
	if lines := m.f.Lines(); lines != 1+len(m.read) || len(m.f.Damage()) > 0 {
		m.Fatalf("%d lines of %d, damage %v", lines, len(m.read), m.f.Damage())
	}
	m.want, m.other = m.read, nil
}

// flip flips a bit: the journal is refused, or tells what it lost.
func (m *model) flip() {
	m.Helper()
	whole := m.dir.Content(m.opt.Name)
	if m.other != nil || m.rng.IntN(2) == 0 {
		return // its end may be torn
	}
	changed := bytes.Clone(whole)
	bit := m.rng.IntN(8 * len(changed))
	changed[bit/8] ^= 1 << (bit % 8)
	m.dir.Put(m.opt.Name, changed)
	var damage *Damage
	if _, err := m.open(); !errors.As(err, &damage) {
		m.Fatalf("bit %d of %d is flipped: %v", bit, 8*len(whole), err)
	}
	m.opt.KeepsDamaged = true
	f, err := m.open()
	m.opt.KeepsDamaged = false
	if only := bytes.Count(whole, []byte("\n")) == 1; err != nil && !only ||
		err == nil && len(f.Damage()) == 0 {
		m.Fatalf("bit %d of %d is flipped: %v, and the journal is opened without damage", bit,
			8*len(whole), err)
	}
	for _, l := range m.read {
		if !slices.Contains(m.want, l) {
			m.Fatalf("bit %d of %d is flipped: %+v is read", bit, 8*len(whole), l)
		}
	}
	m.dir.Put(m.opt.Name, whole)
}

// A line whose newline is another byte is damage; where damage is kept it is there, and mended.
func TestUnended(t *testing.T) {
	j := newTestJournal(true)
	want := []testLine{{N: 1}, {N: 2}}
	whole := j.text(want)
	changed := bytes.Clone(whole)
	changed[len(changed)-1] ^= 1
	j.dir.Put(j.opt.Name, changed)
	var damage *Damage
	if _, err := j.open(); !errors.As(err, &damage) || damage.Line != 3 ||
		!bytes.Equal(j.dir.Content(j.opt.Name), changed) {
		t.Fatalf("%v", err)
	}
	j.opt.KeepsDamaged = true
	f, err := j.open()
	if err != nil || len(f.Damage()) != 1 || !reflect.DeepEqual(j.read, want) {
		t.Fatalf("%+v, %v", j.read, err)
	}
	if got := j.dir.Content(j.opt.Name); !bytes.Equal(got, whole) {
		t.Errorf("it is left as %q", got)
	}
}

// The rules of the package comment, one by one.
func TestRules(t *testing.T) {
	f := func(change func(text []byte) []byte, lines int, want string) {
		t.Helper()
		for _, keeps := range []bool{false, true} {
			j := newTestJournal(true)
			j.opt.KeepsDamaged, j.opt.MaxBytes = keeps, 1<<20
			j.opt.Head = func(n Count) any { return testFirst{testFormat, n} }
			text := AppendLine(nil, testFirst{testFormat, CountOf(3)}) // when the last was written
			for n := range 3 {
				text = AppendLine(text, testLine{n, strings.Repeat("x", 300)})
			}
			j.dir.Put(j.opt.Name, change(text))
			f, err := j.open()
			got := ""
			if err == nil && len(f.Damage()) > 0 {
				got = f.Damage()[0].Error()
			} else if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, want) || (want == "") != (got == "") ||
				f != nil && f.Lines() != lines || f == nil && keeps && lines > 0 {
				t.Errorf("damage is kept %v: %v, %v, want %d lines, %q", keeps, f, err, lines, want)
			}
			if err == nil && f.Append(testLine{N: 9}) != nil {
				t.Errorf("nothing is appended: %v", f.Failure())
			}
		}
	}
	all := func(text []byte) []byte { return text }
	f(all, 4, "")
	f(func(text []byte) []byte { return text[:len(text)-1] }, 3, "")
	f(func(text []byte) []byte { return text[:len(text)-200] }, 3, "")
	f(func(text []byte) []byte { clear(text[1024:]); return text }, 3, "")
	f(func(text []byte) []byte { clear(text[800:900]); return text }, 4, "line 4: checksum")
	f(func(text []byte) []byte { text[len(text)-9] ^= 4; return text }, 4, "line 4: checksum")
	f(func(text []byte) []byte { text[100] ^= 4; return text }, 4, "line 2: checksum")
	f(func(text []byte) []byte { text[20] ^= 4; return text }, 4, "line 1: checksum")
	f(func(text []byte) []byte { return text[:30] }, 0, "the first line is missing")
	f(func([]byte) []byte { return nil }, 0, "the first line is missing")
	f(func(text []byte) []byte { return text[:bytes.IndexByte(text, '\n')+1] }, 1,
		"it ends with line 1 and had 3 lines: its end is missing")
	f(func(text []byte) []byte { return bytes.Repeat(text, 2000) }, 0, "1048576 at most")
	f(func([]byte) []byte { return AppendLine(nil, testFirst{Format: 1 << 20}) }, 0,
		"format 1048576; this version reads format 3")
}

func TestOtherVersion(t *testing.T) {
	for _, version := range []int{testFormat - 1, testFormat + 1} {
		j := newTestJournal(false)
		text := AppendLine(nil, testFirst{Format: version})
		j.dir.Put(j.opt.Name, text)
		if _, err := j.open(); !formats.Is(err) ||
			!strings.Contains(err.Error(), "dir/JOURNAL: ") ||
			!bytes.Equal(j.dir.Content(j.opt.Name), text) {
			t.Errorf("version %d: %v", version, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	j := newTestJournal(true)
	text := j.text([]testLine{{1, "a"}, {2, ""}})
	f.Add(text)
	f.Add(text[:len(text)-3])
	f.Add(append(bytes.Clone(text), make([]byte, 30)...))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		j := newTestJournal(true)
		content, err := Read(data, testFormat, j.apply)
		if err != nil {
			return
		}
		if content.Size+int64(content.Torn) != int64(len(data)) || content.Lines < 1 ||
			len(j.read)+len(content.Damage) < content.Lines-1 {
			t.Fatalf("%d bytes, %d lines read: %+v", len(data), len(j.read), content)
		}
		want := j.read
		j.read = nil
		content, err = Read(j.text(want), testFormat, j.apply)
		if err != nil || len(content.Damage) > 0 || content.Torn > 0 ||
			!slices.Equal(j.read, want) {
			t.Fatalf("%+v is read as %+v: %+v, %v", want, j.read, content, err)
		}
	})
}
