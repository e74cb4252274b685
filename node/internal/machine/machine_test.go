package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/sdk/record"
)

const group = "00112233445566778899aabbccddeeff"

func randomSource(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// entries are random ones from an index on, of clocks that go back and forth.
func entries(t testing.TB, rng *rand.Rand, from uint64, count int) []replica.Entry {
	t.Helper()
	var all []replica.Entry
	for i := range count {
		e := replica.Entry{Index: from + uint64(i), Term: 1}
		data := AppendClock(nil, int64(e.Index)*1000+rng.Int64N(20_000))
		var err error
		var box record.Box
		box[record.MID] = record.RangeSet{record.At(rng.Int64N(20))}
		switch op := rng.IntN(20); {
		case op < 14:
			b := &record.Batch{}
			for range 1 + rng.IntN(20) {
				b.Append(record.Key{MID: rng.Int64N(20), CapNs: rng.Int64N(50)}, []byte("abc"))
			}
			e.Data, err = commands.AppendPut(data, b,
				store.WriterSeq{ID: [16]byte{1}, Seq: rng.Uint64N(e.Index + 10)})
		case op < 16:
			e.Data, err = commands.AppendErase(data, box)
		case op < 17:
			e.Data, err = commands.AppendPurge(data, box)
		case op < 19:
			e.Data = commands.AppendHorizon(data)
		default: // a new leader's
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

func open(t testing.TB, dir string) *Machine {
	t.Helper()
	m, _, err := Open(context.Background(), dir, store.Options{Group: group, SealRows: 200})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil && !errors.Is(err, store.ErrClosed) {
			t.Error(err)
		}
	})
	return m
}

func apply(t testing.TB, m *Machine, all []replica.Entry) []any {
	t.Helper()
	results := make([]any, len(all))
	if err := m.Apply(all, results); err != nil {
		t.Fatal(err)
	}
	return results
}

// state is what a replica shows: all records, events and its horizon.
func state(t testing.TB, m *Machine) string {
	t.Helper()
	s := m.Store()
	h, err := s.ExtendHorizon(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("applied %d, horizon %d", m.Applied(), h)
	for _, e := range s.Events() {
		text += fmt.Sprint("; ", e.AcqNs, e.Kind, e.Box)
	}
	if h == 0 {
		return text
	}
	sums, _, err := s.Digest(t.Context(), record.Box{}, []int64{0, h})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s; %+v", text, sums)
}

func fetchFrom(s replica.Snapshot) replica.Fetch {
	return func(_ context.Context, name string, offset int64) (io.ReadCloser, error) {
		src, err := s.Open(name)
		if err == nil {
			_, err = io.CopyN(io.Discard, src, offset)
		}
		return src, err
	}
}

// Replicas that apply the same entries, or install what others have applied, answer and show the
// same, and a snapshot stays what it was while its replica goes on.
func TestInstalledIsApplied(t *testing.T) {
	rng := randomSource(t)
	first, second := open(t, t.TempDir()), open(t, t.TempDir())
	late := t.TempDir()
	next := uint64(1)
	for round := range 6 {
		all := entries(t, rng, next, 30)
		next += 30
		if a, b := apply(t, first, all), apply(t, second, all); !slices.EqualFunc(a, b, alike) {
			t.Fatalf("round %d: %v and %v", round, a, b)
		}
		want := state(t, first)
		if got := state(t, second); got != want {
			t.Fatalf("round %d: %s, want %s", round, got, want)
		}
		s, err := first.Snapshot()
		if err != nil || s.Index() != first.Applied() {
			t.Fatalf("snapshot of %d, applied %d, %v", s.Index(), first.Applied(), err)
		}
		more := entries(t, rng, next, 10)
		next += 10
		apply(t, first, more)
		m := open(t, late)
		if err := m.Install(t.Context(), s.Manifest(), fetchFrom(s)); err != nil {
			t.Fatal(err)
		}
		if err := m.Install(t.Context(), s.Manifest(), fetchFrom(s)); err == nil {
			t.Fatal("what was applied already was installed")
		}
		s.Close()
		if got := state(t, m); got != want || m.Durable() != m.Applied() {
			t.Fatalf("round %d: installed %s, want %s", round, got, want)
		}
		a, b := apply(t, m, more), apply(t, second, more)
		if !slices.EqualFunc(a, b, alike) || state(t, m) != state(t, first) {
			t.Fatalf("round %d: after the snapshot %v and %v", round, a, b)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(first.path(snapshotsDir)); err != nil || len(left) > 0 {
			t.Fatalf("round %d: %v are left of snapshots, %v", round, left, err)
		}
	}
}

func alike(a, b any) bool {
	x, y := a.(store.Outcome), b.(store.Outcome)
	return x.Put == y.Put && x.AcqNs == y.AcqNs && fmt.Sprint(x.Err) == fmt.Sprint(y.Err) &&
		!x.Skipped && !y.Skipped
}

// What comes of a snapshot bent, cut, longer or not at all is refused, and nothing has changed.
func TestInstallOfDamage(t *testing.T) {
	rng := randomSource(t)
	from, to := open(t, t.TempDir()), open(t, t.TempDir())
	all := entries(t, rng, 1, 80)
	apply(t, from, all)
	apply(t, to, all[:20])
	if err := from.Store().Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	apply(t, from, entries(t, rng, 81, 5))
	want := state(t, to)
	s, err := from.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	meta, err := parseManifest(s.Manifest())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range meta.Files {
		for what, change := range map[string]func([]byte) ([]byte, error){
			"bent": func(b []byte) ([]byte, error) {
				b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
				return b, nil
			},
			"cut":     func(b []byte) ([]byte, error) { return b[:rng.IntN(len(b))], nil },
			"missing": func([]byte) ([]byte, error) { return nil, fs.ErrNotExist },
		} {
			err := to.Install(t.Context(), s.Manifest(), func(
				ctx context.Context, name string, offset int64,
			) (io.ReadCloser, error) {
				src, err := fetchFrom(s)(ctx, name, offset)
				if err != nil || name != f.Name {
					return src, err
				}
				defer func() { _ = src.Close() }()
				data, err := io.ReadAll(src)
				if err == nil {
					data, err = change(data)
				}
				return io.NopCloser(bytes.NewReader(data)), err
			})
			if err == nil || !errors.Is(err, ErrDamaged) && !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("%s %s: %v", f.Name, what, err)
			}
			if got := state(t, to); got != want {
				t.Fatalf("%s %s: %s, want %s", f.Name, what, got, want)
			}
		}
	}
	if err := to.Install(t.Context(), s.Manifest(), fetchFrom(s)); err != nil {
		t.Fatal(err)
	}
	if got := state(t, to); got != state(t, from) {
		t.Fatalf("installed %s, want %s", got, state(t, from))
	}
}

// A transfer that breaks off again and again goes on where it was, for the same snapshot.
func TestInstallGoesOn(t *testing.T) {
	rng := randomSource(t)
	from, to := open(t, t.TempDir()), open(t, t.TempDir())
	apply(t, from, entries(t, rng, 1, 100))
	s, err := from.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	meta, err := parseManifest(s.Manifest())
	if err != nil {
		t.Fatal(err)
	}
	total, came := int64(0), int64(0)
	for _, f := range meta.Files {
		total += f.Bytes
	}
	broken := errors.New("the line is cut")
	tries := 0
	for ; ; tries++ {
		left := total / 5
		err := to.Install(t.Context(), s.Manifest(), func(
			ctx context.Context, name string, offset int64,
		) (io.ReadCloser, error) {
			src, err := fetchFrom(s)(ctx, name, offset)
			return &brokenReader{src, &left, &came, broken}, err
		})
		if err == nil {
			break
		}
		if !errors.Is(err, broken) {
			t.Fatal(err)
		}
	}
	if tries != int((total-1)/(total/5)) || came != total || state(t, to) != state(t, from) {
		t.Fatalf("%d bytes came of %d, in %d tries: %s", came, total, tries, state(t, to))
	}
	if left, err := os.ReadDir(to.dir); err != nil || len(left) != 1 {
		t.Fatalf("%v are left, %v", left, err)
	}
}

// brokenReader hands out what is left and then fails.
type brokenReader struct {
	io.ReadCloser
	left, came *int64
	err        error
}

func (r *brokenReader) Read(p []byte) (int, error) {
	if *r.left == 0 {
		return 0, r.err
	}
	n, err := r.ReadCloser.Read(p[:min(int64(len(p)), *r.left)])
	*r.left -= int64(n)
	*r.came += int64(n)
	return n, err
}

// A snapshot of another group is not installed.
func TestInstallOfAnotherGroup(t *testing.T) {
	rng := randomSource(t)
	other, _, err := Open(t.Context(), t.TempDir(), store.Options{Group: "ff" + group[2:]})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	apply(t, other, entries(t, rng, 1, 10))
	s, err := other.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	m := open(t, t.TempDir())
	err = m.Install(t.Context(), s.Manifest(), fetchFrom(s))
	if !errors.Is(err, ErrDamaged) || !errors.Is(err, store.ErrNotReplicated) || m.Applied() != 0 {
		t.Fatalf("%v, applied %d", err, m.Applied())
	}
}

// A crash leaves an Install at any of its steps: the state is the old one until all has come, and
// the new one from then on.
func TestInstallCutShort(t *testing.T) {
	rng := randomSource(t)
	from := open(t, t.TempDir())
	all := entries(t, rng, 1, 60)
	apply(t, from, all)
	s, err := from.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	meta, err := parseManifest(s.Manifest())
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"receiving", "received", "installed", "removing", "removed"} {
		dir := t.TempDir()
		m := open(t, dir)
		apply(t, m, all[:20])
		want := state(t, m)
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		part := *meta
		if step == "receiving" {
			part.Files = part.Files[:rng.IntN(len(part.Files))]
		}
		name := receivedDir
		if !strings.HasPrefix(step, "rece") {
			name, want = installedDir, state(t, from)
		}
		if err := receive(t.Context(), filepath.Join(dir, name), &part, fetchFrom(s)); err != nil {
			t.Fatal(err)
		}
		switch step {
		case "removing":
			err = os.Remove(filepath.Join(dir, storeDir, "MANIFEST"))
		case "removed":
			err = os.RemoveAll(filepath.Join(dir, storeDir))
		}
		if err != nil {
			t.Fatal(err)
		}
		m = open(t, dir)
		if got := state(t, m); got != want {
			t.Fatalf("%s: %s, want %s", step, got, want)
		}
		left, err := os.ReadDir(dir)
		if err != nil || len(left) != 1 || left[0].Name() != storeDir {
			t.Fatalf("%s: %v are left, %v", step, left, err)
		}
	}
}

// An entry that is no proposal stops the replica after those before it.
func TestEntryIsNoProposal(t *testing.T) {
	m := open(t, t.TempDir())
	all := []replica.Entry{{Index: 1, Data: commands.AppendHorizon(AppendClock(nil, 5))},
		{Index: 2, Data: []byte("short")}}
	results := make([]any, 2)
	err := m.Apply(all, results)
	if !errors.Is(err, ErrNoProposal) || m.Applied() != 1 || results[0] == nil {
		t.Fatalf("%v, applied %d, %v", err, m.Applied(), results)
	}
	if h, err := m.Store().ExtendHorizon(t.Context()); err != nil || h != 5 {
		t.Fatalf("horizon %d, %v", h, err)
	}
	if m.Durable() != 0 || m.Sync() != nil || m.Durable() != 1 {
		t.Fatalf("durable %d", m.Durable())
	}
}

// FuzzParseManifest reads any bytes as the description of a snapshot: no name leads elsewhere.
func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(`{"format":1,"index":3,"files":[{"name":"MANIFEST","bytes":5},` +
		`{"name":"SNAPSHOT","bytes":5},{"name":"log/0000000001.log","bytes":0}]}`))
	f.Add([]byte(`{"format":1,"files":[{"name":"../MANIFEST","bytes":5}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := parseManifest(text)
		if err != nil {
			return
		}
		for _, file := range m.Files {
			if !filepath.IsLocal(file.Name) || strings.Count(file.Name, "/") > 1 || file.Bytes < 0 {
				t.Fatalf("takes %+v", file)
			}
		}
	})
}
