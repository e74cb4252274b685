package template_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/plugin/template"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

// loadGrowing returns the growing template in all languages.
func loadGrowing(t *testing.T) ([]*wasmhost.Module, *plugin.Doc) {
	t.Helper()
	h, err := wasmhost.New(t.Context(), wasmhost.Options{GoProfile: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close(t.Context()) })
	var all []*wasmhost.Module
	for _, language := range template.Languages() {
		if language == "go" && testing.Short() {
			continue // its 2.5 MB take minutes to compile under the race detector
		}
		m, err := h.Load(t.Context(), module(t, language, "texts", true))
		if err != nil {
			t.Fatalf("%s: %v", language, err)
		}
		t.Cleanup(func() { m.Close() })
		all = append(all, m)
		d, c := m.Describe(), all[0].Describe()
		if string(d.Doc) != string(c.Doc) || d.Need != c.Need || d.Flags != c.Flags ||
			d.ParamsMax != c.ParamsMax || d.ResultSize != c.ResultSize || d.Name != "texts" {
			t.Errorf("%s describes itself as %+v, document %s; C as %+v, document %s", language, d,
				d.Doc, c, c.Doc)
		}
	}
	doc, err := plugin.ParseDoc(all[0].Describe().Doc)
	if err != nil {
		t.Fatal(err)
	}
	return all, doc
}

// model is what the plugin keeps of a group.
type model struct {
	counts       map[string]uint64
	cap          int64
	last, before string
}

func (m *model) add(capNs int64, text string) {
	m.counts[text]++
	if capNs > m.cap || capNs == m.cap && text > m.last {
		m.cap, m.last = capNs, text
	}
}

func (m *model) saved() []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(m.cap))
	out = appendText(out, m.last)
	for _, text := range slices.Sorted(maps.Keys(m.counts)) {
		out = appendText(binary.LittleEndian.AppendUint64(out, m.counts[text]), text)
	}
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(out))), out...)
}

func (m *model) result() []byte {
	out := binary.LittleEndian.AppendUint64(appendText(nil, m.before), uint64(len(m.counts)))
	for _, text := range slices.Sorted(maps.Keys(m.counts)) {
		out = binary.LittleEndian.AppendUint64(appendText(out, text), m.counts[text])
	}
	return out
}

func appendText(dst []byte, text string) []byte {
	dst = append(binary.LittleEndian.AppendUint64(dst, uint64(len(text))), text...)
	return append(dst, make([]byte, -len(text)&7)...)
}

// randomTexts appends rows to a batch and tells the models of them.
func randomTexts(r *rand.Rand, until string, rows int, models []model) (*record.Batch, []uint32) {
	b, gid := &record.Batch{}, []uint32(nil)
	kinds := 1 + r.IntN(200)
	for range rows {
		payload := strings.Repeat("x\x00é"[:1+r.IntN(4)], r.IntN(12)) + fmt.Sprint(r.IntN(kinds))
		if r.IntN(3) == 0 {
			payload += until + "rest" + until
		}
		g, capNs := uint32(r.IntN(len(models))), r.Int64N(100)-50
		b.AppendStamped(record.Key{MID: int64(g), CapNs: capNs}, []byte(payload))
		gid = append(gid, g)
		text := payload[:min(len(payload), 32)]
		if until != "" {
			text, _, _ = strings.Cut(text, until)
		}
		models[g].add(capNs, text)
	}
	return b, gid
}

// TestGrowing compiles the growing template in all languages once for all that is asked of it.
func TestGrowing(t *testing.T) {
	all, doc := loadGrowing(t)
	for _, seed := range []uint64{1, 1795630433381626840} { // ran out of fuel in Go
		t.Run("dear", func(t *testing.T) { growAlike(t, all, doc, seed) })
	}
	seed := uint64(time.Now().UnixNano())
	t.Run("alike", func(t *testing.T) { growAlike(t, all, doc, seed) })
	t.Run("cut", func(t *testing.T) { growCut(t, all) })
	t.Run("many", func(t *testing.T) { growMany(t, all) })
	t.Run("memory", func(t *testing.T) { growAll(t, all) })
}

// growAlike gives the same rows to instances in all languages, cut in random ways, moves the states
// of each into an instance of the next, and holds states and results against a model.
func growAlike(t *testing.T, all []*wasmhost.Module, doc *plugin.Doc, seed uint64) {
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for round := range 30 {
		until := []string{";", "-", "--", ", ", ""}[round%5]
		params := []byte{8, 7: 0} // an empty text, which the document cannot say
		var err error
		switch {
		case until == ";" && r.IntN(2) == 0:
			params = nil
		case until != "":
			params, err = doc.EncodeParams(map[string]string{"until": until})
		}
		if err != nil {
			t.Fatal(err)
		}
		growingRound(t, r, all, params, until, fmt.Sprintf("round %d, until %q", round, until))
	}
}

// growMany has as many rows as a tenant asks for in one query: 100,000 of 500 devices, in
// batches as a scan has them, with few texts or many.
func growMany(t *testing.T, all []*wasmhost.Module) {
	const rows, devices = 100_000, 500
	for _, kinds := range []int{10, 100} {
		models := make([]model, devices)
		for g := range models {
			models[g] = model{counts: map[string]uint64{}, cap: math.MinInt64}
		}
		var batches []*record.Batch
		var gids [][]uint32
		for row := 0; row < rows; {
			b, gid := &record.Batch{}, []uint32(nil)
			for ; b.Len() < 4096 && row < rows; row++ {
				g, text := uint32(row*7919%devices), fmt.Sprint("text ", row*31%kinds)
				b.AppendStamped(record.Key{MID: int64(g), CapNs: int64(row)}, []byte(text))
				gid = append(gid, g)
				models[g].add(int64(row), text)
			}
			batches, gids = append(batches, b), append(gids, gid)
		}
		for i, m := range all {
			a := aggregate(t, m, nil)
			defer a.Close()
			for k, b := range batches {
				if err := a.Add(t.Context(), b, gids[k], devices); err != nil {
					t.Fatalf("language %d, %d texts, batch %d: %v", i, kinds, k, err)
				}
			}
			results, err := a.Finish(t.Context())
			if err != nil {
				t.Fatalf("language %d, %d texts: %v", i, kinds, err)
			}
			for g := range models {
				if string(results[g]) != string(models[g].result()) {
					t.Fatalf("language %d, %d texts: group %d is %x, want %x", i, kinds, g,
						results[g], models[g].result())
				}
			}
			u := a.Usage()
			t.Logf("language %d, %d texts: %s used %d of %d", i, kinds, u.PeakExport, u.PeakFuel,
				u.PeakBudget)
		}
	}
}

func growingRound(
	t *testing.T, r *rand.Rand, all []*wasmhost.Module, params []byte, until, what string,
) {
	t.Helper()
	models := make([]model, 1+r.IntN(20))
	for g := range models {
		models[g] = model{counts: map[string]uint64{}, cap: math.MinInt64}
	}
	var states [2][][]byte // of both parts in each language
	for part := range states {
		b, gid := randomTexts(r, until, r.IntN(400), models)
		for _, m := range all {
			a := aggregate(t, m, params)
			defer a.Close()
			if err := errors.Join(a.Add(t.Context(), b, gid, len(models)),
				a.Add(t.Context(), &record.Batch{}, nil, len(models))); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			saved, err := a.States(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			states[part] = append(states[part], saved)
		}
	}
	var want []byte
	var links []wasmhost.Link
	for g := range models {
		want = append(want, models[g].saved()...)
		if g > 0 && r.IntN(3) > 0 {
			links = append(links, wasmhost.Link{Group: uint32(g), Predecessor: uint32(g - 1)})
			if models[g].before = models[g-1].last; len(models[g-1].counts) == 0 {
				models[g].before = models[g-1].before
			}
		}
	}
	for i, m := range all {
		a := aggregate(t, m, params)
		defer a.Close()
		other := states[1][(i+1)%len(all)]
		err := errors.Join(a.Merge(t.Context(), states[0][i], nil),
			a.Merge(t.Context(), other, nil))
		saved, err2 := a.States(t.Context())
		if err := errors.Join(err, err2); err != nil || string(saved) != string(want) {
			t.Fatalf("%s, language %d: states %x, %v; want %x", what, i, saved, err, want)
		}
		err = a.LinkPredecessors(t.Context(), links)
		results, err2 := a.Finish(t.Context())
		if err := errors.Join(err, err2); err != nil || len(results) != len(models) {
			t.Fatalf("%s, language %d: %d results, %v", what, i, len(results), err)
		}
		for g := range models {
			if got := results[g]; string(got) != string(models[g].result()) {
				t.Fatalf("%s, language %d: result %x, want %x", what, i, got, models[g].result())
			}
		}
	}
}

// A saved state is bytes from outside. One that ends anywhere is refused, or whole by itself.
func growCut(t *testing.T, all []*wasmhost.Module) {
	m := model{counts: map[string]uint64{}, cap: math.MinInt64}
	m.add(1, "abc")
	m.add(2, "12345678")
	saved := m.saved()[4:]
	texts := [][]byte{nil, saved, append(slices.Clone(saved), make([]byte, 15)...)}
	for n := range saved {
		texts = append(texts, saved[:n])
	}
	for _, size := range []uint64{9, 1 << 31, 1<<32 - 1, 1 << 32, 1<<64 - 8, 1<<64 - 1} {
		texts = append(texts, binary.LittleEndian.AppendUint64(slices.Clone(saved[:8]), size))
	}
	taken := 0
	for _, text := range texts {
		in := append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...)
		for i, module := range all {
			a := aggregate(t, module, nil)
			err := a.Merge(t.Context(), in, nil)
			var e *wasmhost.Error
			whole := len(text) == 24 || len(text) == 48 || len(text) == len(saved)
			switch {
			case whole && err == nil:
				taken++
			case whole || !errors.As(err, &e) || e.Status != plugin.StatusPayload ||
				e.Message != "a saved state ends too early":
				t.Errorf("language %d: %x: %v", i, text, err)
			}
			a.Close()
		}
	}
	if taken == 0 {
		t.Error("nothing was taken")
	}
}

// What states own is bounded by the memory of the instance; that it is used up is an error with
// words of the plugin. Go's runtime ends the program.
func growAll(t *testing.T, all []*wasmhost.Module) {
	gid := make([]uint32, 4000)
	for g := range gid {
		gid[g] = uint32(g)
	}
	for i, m := range all {
		a := aggregate(t, m, nil)
		var err error
		for n := 0; n < 1<<19 && err == nil; n += len(gid) {
			b := &record.Batch{}
			for k := range gid {
				payload := append(fmt.Append(nil, n+k), make([]byte, 32)...)
				b.AppendStamped(record.Key{}, payload)
			}
			err = a.Add(t.Context(), b, gid, len(gid))
		}
		a.Close()
		var e *wasmhost.Error
		isGo := len(all) == len(template.Languages()) && template.Languages()[i] == "go"
		if !errors.As(err, &e) || !isGo && (e.Kind != wasmhost.Memory ||
			!strings.HasPrefix(e.Message, "no memory is left for ")) {
			t.Errorf("module %d: %v", i, err)
		}
	}
}
