package plugins_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/wasmhost"
)

// buildGo builds a guest with the Go command that runs the tests.
func buildGo(t testing.TB, folder string) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "guest.wasm")
	c := exec.CommandContext(t.Context(), "go", "build", "-buildmode=c-shared", "-trimpath",
		"-ldflags=-s -w -buildid=", "-o", out, folder)
	c.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", folder, err, text)
	}
	wasm, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// twins are the plugin stats in C and in Go, in one host.
type twins struct{ c, golang *wasmhost.Module }

func loadTwins(t testing.TB) *twins {
	t.Helper()
	c, _ := standard(t, "stats")
	return &twins{c: c, golang: load(t, newHost(t), buildGo(t, "./stats/go"))}
}

// TestGo builds and compiles the guest once for all that is asked of it.
func TestGo(t *testing.T) {
	w := loadTwins(t)
	_, doc := standard(t, "stats")
	t.Run("describes itself as C", w.describe)
	t.Run("equals C", func(t *testing.T) { w.equal(t, doc) })
	t.Run("payloads", func(t *testing.T) {
		checkShortPayloads(t, w.golang, encode(t, doc, map[string]string{"offset": "4"}))
	})
	t.Run("params", func(t *testing.T) { checkStatsParams(t, w.golang) })
}

func (w *twins) describe(t *testing.T) {
	c, golang := w.c.Describe(), w.golang.Describe()
	if string(c.Doc) != string(golang.Doc) {
		t.Errorf("documents differ:\nC  %s\nGo %s", c.Doc, golang.Doc)
	}
	c.Doc, golang.Doc = nil, nil
	if got, want := fmt.Sprint(golang), fmt.Sprint(c); got != want {
		t.Errorf("Go describes itself as %s, C as %s", got, want)
	}
}

// wantSameStates compares words of 8 bytes; what is not a number may be so with any bits, because
// WebAssembly leaves them open.
func wantSameStates(t *testing.T, what string, golang, c []byte) {
	t.Helper()
	if bytes.Equal(golang, c) {
		return
	}
	if len(golang) != len(c) {
		t.Fatalf("%s: %d bytes of states, C has %d", what, len(golang), len(c))
	}
	for i := 0; i < len(c); i += 8 {
		g, w := binary.LittleEndian.Uint64(golang[i:]), binary.LittleEndian.Uint64(c[i:])
		x, y := math.Float64frombits(g), math.Float64frombits(w)
		if g != w && (i%48 == 0 || x == x || y == y) {
			t.Fatalf("%s: state %d word %d is %x (%v), C has %x (%v)", what, i/48,
				i%48/8, g, x, w, y)
		}
	}
}

func statesOf(t *testing.T, a *wasmhost.Aggregate) []byte {
	t.Helper()
	states, err := a.States(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return states
}

// equal checks that the same records make the same states and results in C and in Go, and that
// either merges the states of the other.
func (w *twins) equal(t *testing.T, doc *plugin.Doc) {
	r := seeded(t)
	for round := range 40 {
		s := randomSeries(r, numberTypes()[round%4])
		what := fmt.Sprintf("round %d, %+v", round, *s)
		params := encode(t, doc, map[string]string{"type": s.kind,
			"offset": strconv.Itoa(s.offset)})
		c, golang := newAggregate(t, w.c, params), newAggregate(t, w.golang, params)
		for range 1 + r.IntN(3) {
			x := s.make(r)
			for _, a := range []*wasmhost.Aggregate{c, golang} {
				if err := a.Add(t.Context(), &x.batch, x.gid, s.groups); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
		}
		inC, inGo := statesOf(t, c), statesOf(t, golang)
		wantSameStates(t, what, inGo, inC)
		gid := make([]uint32, s.groups)
		for i := range gid {
			gid[i] = uint32(r.IntN(s.groups + 1))
		}
		// Each merges what the other made.
		if err := c.Merge(t.Context(), inGo, gid); err != nil {
			t.Fatal(err)
		}
		if err := golang.Merge(t.Context(), inC, gid); err != nil {
			t.Fatal(err)
		}
		wantSameStates(t, what+", merged", statesOf(t, golang), statesOf(t, c))
		fromC, err := c.Finish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		fromGo, err := golang.Finish(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range fromC {
			if !bytes.Equal(fromGo[i], fromC[i]) {
				t.Fatalf("%s: result %d is %x, C has %x", what, i, fromGo[i], fromC[i])
			}
		}
	}
}
