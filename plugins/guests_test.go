package plugins_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
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

// sibling is the plugin stats in one language.
type sibling struct {
	language string
	module   *wasmhost.Module
}

// loadSiblings returns the plugin stats in every language, that in C first. Go builds its own;
// make guests-verify holds the others against their sources.
func loadSiblings(t testing.TB) []sibling {
	t.Helper()
	c, _ := standard(t, "stats")
	h := newHost(t)
	all := []sibling{{"C", c}, {"Go", load(t, h, buildGo(t, "./stats/go"))}}
	for _, l := range [][2]string{{"Rust", "rust"}, {"AssemblyScript", "as"}} {
		wasm, err := os.ReadFile(filepath.Join("stats", l[1], "stats.wasm"))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, sibling{l[0], load(t, h, wasm)})
	}
	return all
}

// TestLanguages builds and compiles the guests once for all that is asked of them.
func TestLanguages(t *testing.T) {
	all := loadSiblings(t)
	_, doc := standard(t, "stats")
	for _, s := range all[1:] {
		t.Run(s.language, func(t *testing.T) {
			wantSameDescriptor(t, s.module.Describe(), all[0].module.Describe())
			for _, values := range []map[string]string{nil, {"type": "f32", "offset": "9"},
				{"type": "text"}} {
				params := encode(t, doc, values)
				if got, c := frontOf(t, s.module, params),
					frontOf(t, all[0].module, params); got != c {
					t.Errorf("%v: it reads %d bytes of payloads, C %d", values, got, c)
				}
			}
			if got := frontOf(t, s.module, nil); got != 8 {
				t.Errorf("without parameters it reads %d bytes", got)
			}
			checkShortPayloads(t, s.module, encode(t, doc, map[string]string{"offset": "4"}))
			checkStatsParams(t, s.module)
		})
	}
	t.Run("equal", func(t *testing.T) { equalStats(t, all, doc) })
	t.Run("text", func(t *testing.T) { equalTexts(t, all, doc) })
	t.Run("many", func(t *testing.T) { equalMany(t, all, doc) })
}

// equalMany has as many rows as a tenant asks for in one query, of which texts are dearest; of
// numbers it has a fifth of them, and all in the long form.
func equalMany(t *testing.T, all []sibling, doc *plugin.Doc) {
	const most, groups = 100_000, 100
	for _, kind := range []string{"text", "f64", "i32"} {
		params, c := encode(t, doc, map[string]string{"type": kind}), chorus{languages: all}
		rows := most
		if kind != "text" && !rounds.Long() {
			rows = most / 5
		}
		for _, s := range all {
			a := newAggregate(t, s.module, params)
			defer a.Close()
			c.aggregates = append(c.aggregates, a)
		}
		for row := 0; row < rows; {
			b, gid := &record.Batch{}, []uint32(nil)
			for ; b.Len() < 4096 && row < rows; row++ {
				x := float64(row*7919%100_003) / 7
				payload := strconv.AppendFloat(nil, x, 'e', 18, 64)
				if kind != "text" {
					payload, _ = appendNumber(nil, kind, x)
				}
				b.AppendStamped(record.Key{MID: int64(row)}, payload)
				gid = append(gid, uint32(row*31%groups))
			}
			for i, a := range c.aggregates {
				if err := a.Add(t.Context(), b, gid, groups); err != nil {
					t.Fatalf("%s, %s, before row %d: %v", all[i].language, kind, row, err)
				}
			}
		}
		c.sameStates(t, fmt.Sprintf("%d rows of %s", rows, kind))
		for i, a := range c.aggregates {
			if used := use(a.Usage()); used > 0.9*float64(rows)/most {
				t.Errorf("%s used %.0f %% of the fuel of a call of %s", all[i].language, 100*used,
					kind)
			}
		}
	}
}

// frontOf returns how many bytes a module says that it reads at the front of payloads.
func frontOf(t *testing.T, m *wasmhost.Module, params []byte) uint32 {
	t.Helper()
	a := newAggregate(t, m, params)
	defer a.Close()
	return a.PayloadPrefix()
}

func wantSameDescriptor(t *testing.T, got, c wasmhost.Descriptor) {
	t.Helper()
	if string(got.Doc) != string(c.Doc) {
		t.Errorf("documents differ:\n%s\nC has\n%s", got.Doc, c.Doc)
	}
	got.Doc, c.Doc = nil, nil
	if got, want := fmt.Sprint(got), fmt.Sprint(c); got != want {
		t.Errorf("it describes itself as %s, C as %s", got, want)
	}
}

// wantSameStates compares words of 8 bytes; what is not a number may be so with any bits, because
// WebAssembly leaves them open.
func wantSameStates(t *testing.T, what string, got, c []byte) {
	t.Helper()
	if bytes.Equal(got, c) {
		return
	}
	if len(got) != len(c) {
		t.Fatalf("%s: %d bytes of states, C has %d", what, len(got), len(c))
	}
	for i := 0; i < len(c); i += 8 {
		g, w := binary.LittleEndian.Uint64(got[i:]), binary.LittleEndian.Uint64(c[i:])
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

// chorus is one instance in each language, all of which are told the same.
type chorus struct {
	languages  []sibling
	aggregates []*wasmhost.Aggregate
}

// sameStates returns the states of all, having compared each with those of C.
func (c *chorus) sameStates(t *testing.T, what string) [][]byte {
	t.Helper()
	all := make([][]byte, len(c.aggregates))
	for i, a := range c.aggregates {
		all[i] = statesOf(t, a)
		wantSameStates(t, what+", "+c.languages[i].language, all[i], all[0])
	}
	return all
}

// merge folds the states of another chorus in, those of each language into the one shift further.
func (c *chorus) merge(t *testing.T, states [][]byte, gid []uint32, shift int) {
	t.Helper()
	for i, a := range c.aggregates {
		if err := a.Merge(t.Context(), states[(i+shift)%len(states)], gid); err != nil {
			t.Fatalf("%s: %v", c.languages[i].language, err)
		}
	}
}

// equalStats checks that the same records, cut and merged in the same random way, make the same
// states and results in all languages, and that each merges the states of any other.
func equalStats(t *testing.T, all []sibling, doc *plugin.Doc) {
	r := seeded(t)
	rounds := 100
	if testing.Short() {
		rounds = 25
	}
	for round := range rounds {
		s := randomSeries(r, numberTypes()[round%6])
		all := limitSeries(s, all, round/6%2 == 0)
		what := fmt.Sprintf("round %d, %+v", round, *s)
		params := encode(t, doc, map[string]string{"type": s.kind,
			"offset": strconv.Itoa(s.offset)})
		leaves := make([]chorus, 1+r.IntN(4))
		for i := range leaves {
			leaves[i] = newChorus(t, r, all, params, s)
			leaves[i].sameStates(t, what)
		}
		for len(leaves) > 1 {
			from, gid := 1+r.IntN(len(leaves)-1), []uint32(nil)
			if r.IntN(2) == 0 {
				gid = make([]uint32, s.groups)
				for i := range gid {
					gid[i] = uint32(r.IntN(s.groups))
				}
			}
			into := &leaves[r.IntN(from)]
			into.merge(t, leaves[from].sameStates(t, what), gid, r.IntN(len(all)))
			into.sameStates(t, what+", merged")
			leaves = append(leaves[:from], leaves[from+1:]...)
		}
		leaves[0].sameResults(t, what)
	}
}

// limitSeries returns the languages for a series, and makes it shorter where fuel would have the
// host cut batches in another way for each: where Go is among them, and where rows are dear.
func limitSeries(s *series, all []sibling, withGo bool) []sibling {
	if withGo || s.ragged || s.kind == "text" {
		s.records = min(s.records, 500)
	}
	if !withGo {
		return append(all[:1:1], all[2:]...)
	}
	if s.kind == "text" {
		s.records = min(s.records, 64)
	}
	return all
}

// equalTexts checks that all languages take the same texts for the same numbers and refuse others
// with the same words. strconv judges C in TestText.
func equalTexts(t *testing.T, all []sibling, doc *plugin.Doc) {
	r := seeded(t)
	params := encode(t, doc, map[string]string{"type": "text", "offset": "1"})
	texts := []string{"", "-", "18446744073709551616", "18446744073709551616e1", "1\x0e", "1\x13",
		"1\x7f", strings.Repeat("0", 31), strings.Repeat("0", 31) + ".", strings.Repeat("0", 32),
		strings.Repeat("0", 30) + ".5", strings.Repeat("0", 29) + ".5", "0e10000", "1e0000000027",
		"0." + strings.Repeat("0", 27), "0." + strings.Repeat("0", 28) + "e9", "1e-27", "1e28"}
	const part = "0123456789012345678900..eE+-_x;\x10\x7f"
	for len(texts) < 400 {
		text, _ := randomDecimal(r)
		if at := r.IntN(len(text)); r.IntN(3) > 0 {
			text = text[:at] + part[r.IntN(len(part)):][:1] + text[at+r.IntN(2):]
		}
		texts = append(texts, text)
	}
	taken := 0
	for _, text := range texts {
		var want, answer string
		for i, l := range all {
			var b record.Batch
			b.Append(record.Key{}, []byte("x"+text))
			a := newAggregate(t, l.module, params)
			if err := a.Add(t.Context(), &b, nil, 1); err != nil {
				_, answer, _ = strings.Cut(err.Error(), "the plugin says")
			} else {
				answer = fmt.Sprintf("%x", statesOf(t, a))
				taken++
			}
			a.Close()
			if i == 0 {
				want = answer
			}
			if answer != want {
				t.Errorf("%q: %s has %s, C has %s", text, l.language, answer, want)
			}
		}
	}
	if taken < 400 || taken > 4*(len(texts)-6) { // six of the first ones are no numbers
		t.Errorf("%d of %d texts were taken", taken, 4*len(texts))
	}
}

// newChorus gives random batches to one instance in each language.
func newChorus(t *testing.T, r *rand.Rand, all []sibling, params []byte, s *series) chorus {
	t.Helper()
	c := chorus{languages: all}
	for _, l := range all {
		c.aggregates = append(c.aggregates, newAggregate(t, l.module, params))
	}
	batches := []*rows{{}} // the empty one makes the groups
	for range r.IntN(4) {
		batches = append(batches, s.make(r))
	}
	for _, x := range batches {
		for i, a := range c.aggregates {
			if err := a.Add(t.Context(), &x.batch, x.gid, s.groups); err != nil {
				t.Fatalf("%s, %+v: %v", all[i].language, *s, err)
			}
		}
	}
	return c
}

func (c *chorus) sameResults(t *testing.T, what string) {
	t.Helper()
	var want [][]byte
	for i, a := range c.aggregates {
		got, err := a.Finish(t.Context())
		if err != nil {
			t.Fatalf("%s, %s: %v", what, c.languages[i].language, err)
		}
		if i == 0 {
			want = got
		}
		for g := range want {
			if !bytes.Equal(got[g], want[g]) {
				t.Fatalf("%s, %s: result %d is %x, C has %x", what, c.languages[i].language, g,
					got[g], want[g])
			}
		}
	}
}
