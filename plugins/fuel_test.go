package plugins_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/plugins"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

// course is a series of numbers that is dear for some plugin.
type course struct {
	name   string
	number func(row, nth int) float64 // the number of a row, the nth of its group
}

// courses are what costs most: what every record displaces, and sketches that grow in all ways.
func courses() []course {
	spread := []float64{1, 150, 1e4, 1e-3, 1e8, -1e-7, -1e12, 1e18, -1e-9, 1e26, -1e26}
	return []course{
		{"rising", func(row, _ int) float64 { return float64(row) * 1e19 }},
		{"falling", func(row, _ int) float64 { return -float64(row) / 3e4 }},
		{"spreading", func(_, nth int) float64 { return spread[nth%len(spread)] }},
		{"widening", func(_, nth int) float64 {
			return math.Ldexp(1+1/float64(nth+2), nth%180/2*(1-nth%2*2))
		}},
		{"deepening", func(_, nth int) float64 { return math.Ldexp(1.99, 80-nth%160) }},
	}
}

// longest is x, or what text can hold of it, as text of 19 digits, with a point and an exponent.
func longest(x float64) string {
	text := strconv.FormatFloat(x, 'e', 18, 64)
	if size := math.Abs(x); size < 1e-8 || size >= 1e27 {
		digits, _, _ := strings.Cut(text, "e")
		return digits + "e-9"
	}
	return text
}

// dearRows are rows of some groups that go on where the last ones ended.
func dearRows(c course, kind string, offset, from, n, groups int) (*record.Batch, []uint32) {
	b, gid := &record.Batch{}, []uint32(nil)
	for row := from; row < from+n; row++ {
		payload, x := make([]byte, offset, offset+40), c.number(row, row/groups)
		if kind == "text" {
			payload = append(payload, longest(x)...)
		} else {
			payload, _ = appendNumber(payload, kind, x)
		}
		if row%2 == 0 && offset > 0 {
			payload = append(payload, 0) // and so they differ in size
		}
		b.AppendStamped(record.Key{MID: int64(row * 7919 % 5003), CapNs: int64(row)}, payload)
		gid = append(gid, uint32(row*7919%groups))
	}
	return b, gid
}

// cheapRows are rows after which the host takes a plugin for cheap.
func cheapRows(kind string, offset int) *record.Batch {
	b := &record.Batch{}
	for range 4096 {
		payload, _ := appendNumber(make([]byte, offset), kind, 1)
		b.AppendStamped(record.Key{}, payload)
	}
	return b
}

// use is what of its fuel the dearest call used.
func use(u wasmhost.Usage) float64 { return float64(u.PeakFuel) / float64(u.PeakBudget) }

// addDear gives an aggregate cheap rows, so that the host takes it for cheap, and then dear ones.
func addDear(t *testing.T, m *wasmhost.Module, params []byte, c course, kind string,
	offset, n, groups int) float64 {
	t.Helper()
	a := newAggregate(t, m, params)
	defer a.Close()
	for range 3 {
		if err := a.Add(t.Context(), cheapRows(kind, offset), nil, groups); err != nil {
			t.Fatalf("%s, %s at %d, as cheap as can be: %v", m.Name(), kind, offset, err)
		}
	}
	for from := 0; from < 12*groups || from < 3*n; from += n {
		b, gid := dearRows(c, kind, offset, from, n, groups)
		if err := a.Add(t.Context(), b, gid, groups); err != nil {
			t.Fatalf("%s, %s at %d, %s, %d rows of %d groups: %v", m.Name(), kind, offset, c.name,
				n, groups, err)
		}
	}
	return use(a.Usage())
}

// keepDear is addDear for a filter.
func keepDear(t *testing.T, m *wasmhost.Module, params []byte, c course, kind string,
	offset, n int) float64 {
	t.Helper()
	f, err := m.NewFilter(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dear, _ := dearRows(c, kind, offset, 0, n, 1)
	for _, b := range []*record.Batch{cheapRows(kind, offset), dear} {
		if err := f.Keep(t.Context(), b, make([]uint64, (b.Len()+63)/64)); err != nil {
			t.Fatalf("%s, %s at %d, %s, %d rows: %v", m.Name(), kind, offset, c.name, n, err)
		}
	}
	return use(f.Usage())
}

// checkFuel checks that the dearest of rows leave a part of the fuel of each call.
func checkFuel(t *testing.T, m *wasmhost.Module, values map[string]string) {
	t.Helper()
	doc, err := plugin.ParseDoc(m.Describe().Doc)
	if err != nil {
		t.Fatal(err)
	}
	kinds := []string{"text", "i32", "f64"}
	if _, typed := values["type"]; !typed {
		kinds = kinds[2:]
	}
	worst, where := 0.0, ""
	f := func(c course, kind string, offset, n, groups int) {
		if values["type"] != "" {
			values["type"], values["offset"] = kind, strconv.Itoa(offset)
		}
		params, used := encode(t, doc, values), 0.0
		if m.Describe().Kinds == plugin.KindFilter {
			used = keepDear(t, m, params, c, kind, offset, n)
		} else {
			used = addDear(t, m, params, c, kind, offset, n, groups)
		}
		if used > worst {
			worst = used
			where = fmt.Sprintf("%s, %s, %d rows of %d groups", kind, c.name, n, groups)
		}
	}
	for _, c := range courses() {
		for i, kind := range kinds {
			f(c, kind, i%2*3, 40, 3)
			f(c, kind, i%2*3, 256, 256)
			f(c, kind, i%2*3, 1024, 1024)
			if !testing.Short() {
				f(c, kind, 3-i%2*3, 1, 1)
				f(c, kind, 3-i%2*3, 1024, 1)
				f(c, kind, 3-i%2*3, 4096, 1900)
			}
		}
	}
	t.Logf("%s used %.0f %% of the fuel of a call: %s", m.Name(), 100*worst, where)
	if worst > 0.9 {
		t.Errorf("a call of %s may use up to %.0f %% of its fuel", m.Name(), 100*worst)
	}
}

// Whatever the records are, a standard plugin has the fuel for them, and a tenth to spare.
func TestFuelForDearestRows(t *testing.T) {
	for _, p := range plugins.Standard() {
		if p.Name == "delta" || strings.HasPrefix(p.Name, "sealed-") {
			continue // see TestDeltaFuel and sealed_test.go: the rows here are none for them
		}
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			m, _ := standard(t, p.Name)
			values := map[string]string{"type": "f64"}
			switch p.Name {
			case "count":
				delete(values, "type")
			case "gaps":
				values = map[string]string{"every": "1", "unit": "s", "slots": "4096"}
			case "histogram":
				values["lo"], values["hi"] = "-100", "100"
			case "threshold":
				values["value"] = "5"
			case "top-k":
				values["per"] = "device"
			case "distinct":
				values["of"] = "number"
			}
			checkFuel(t, m, values)
		})
	}
	for _, language := range []string{"rust", "as"} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			wasm, err := os.ReadFile(filepath.Join("stats", language, "stats.wasm"))
			if err != nil {
				t.Fatal(err)
			}
			checkFuel(t, load(t, newHost(t), wasm), map[string]string{"type": "f64"})
		})
	}
}
