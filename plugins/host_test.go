package plugins_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/leaks"
	"github.com/pentad-db/pentad/plugins"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// seeded returns random numbers whose seed is in the log of a test that fails.
func seeded(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func newHost(t testing.TB) *wasmhost.Host {
	t.Helper()
	h, err := wasmhost.New(t.Context(), wasmhost.Options{GoProfile: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return h
}

func load(t testing.TB, h *wasmhost.Host, wasm []byte) *wasmhost.Module {
	t.Helper()
	m, err := h.Load(t.Context(), wasm)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// standard is a standard plugin with its document.
func standard(t testing.TB, name string) (*wasmhost.Module, *plugin.Doc) {
	t.Helper()
	for _, p := range plugins.Standard() {
		if p.Name != name {
			continue
		}
		m := load(t, newHost(t), p.Wasm)
		doc, err := plugin.ParseDoc(m.Describe().Doc)
		if err != nil {
			t.Fatal(err)
		}
		if doc.Name != name || m.Name() != name {
			t.Errorf("%s calls itself %q and %q", name, m.Name(), doc.Name)
		}
		return m, doc
	}
	t.Fatalf("there is no plugin %q", name)
	return nil, nil
}

func encode(t testing.TB, doc *plugin.Doc, values map[string]string) []byte {
	t.Helper()
	params, err := doc.EncodeParams(values)
	if err != nil {
		t.Fatal(err)
	}
	return params
}

func newAggregate(t testing.TB, m *wasmhost.Module, params []byte) *wasmhost.Aggregate {
	t.Helper()
	a, err := m.NewAggregate(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

// numberTypes are the values of the parameter type.
func numberTypes() []string { return []string{"f64", "f32", "i64", "i32", "u32", "text"} }

// appendNumber writes x as a type, and returns what the type made of it.
func appendNumber(dst []byte, kind string, x float64) ([]byte, float64) {
	switch kind {
	case "f32":
		y := float32(x)
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(y)), float64(y)
	case "i64":
		y := clampInt(x, math.MinInt64, math.MaxInt64)
		return binary.LittleEndian.AppendUint64(dst, uint64(y)), float64(y)
	case "i32":
		y := int32(clampInt(x, math.MinInt32, math.MaxInt32))
		return binary.LittleEndian.AppendUint32(dst, uint32(y)), float64(y)
	case "u32":
		y := uint32(clampInt(x, 0, math.MaxUint32))
		return binary.LittleEndian.AppendUint32(dst, y), float64(y)
	case "text":
		return appendDecimal(dst, x)
	}
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(x)), x
}

// appendDecimal writes what text can hold of x.
func appendDecimal(dst []byte, x float64) ([]byte, float64) {
	if size := math.Abs(x); !(size == 0 || size > 1e-9 && size < 1e27) {
		x = math.Copysign(0.1, x)
	}
	return strconv.AppendFloat(dst, x, 'g', -1, 64), x
}

func clampInt(x float64, low, high int64) int64 {
	switch {
	case x != x:
		return 0
	case x <= float64(low):
		return low
	case x >= float64(high):
		return high
	}
	return int64(x)
}

// series describes random records.
type series struct {
	kind    string
	offset  int       // of the number in the payload
	ragged  bool      // payloads differ in length
	odd     bool      // with infinities, not-a-number and both zeros
	few     []float64 // the only numbers, if any
	groups  int
	long    bool // groups come in runs
	records int
}

// rows is a batch with what a model needs to know of it.
type rows struct {
	batch   record.Batch
	gid     []uint32
	numbers []float64
}

func (s *series) make(r *rand.Rand) *rows {
	out := &rows{}
	group := uint32(0)
	for range s.records {
		if !s.long || r.IntN(40) == 0 {
			group = uint32(r.IntN(s.groups))
		}
		out.gid = append(out.gid, group)
		s.append(out, s.number(r))
		if s.ragged { // the same number in a longer payload
			last := out.batch.Payload(out.batch.Len() - 1)
			payload := append(last, make([]byte, 1+r.IntN(8))...)
			out.gid = append(out.gid, group)
			out.numbers = append(out.numbers, out.numbers[len(out.numbers)-1])
			out.batch.AppendStamped(record.Key{}, payload)
		}
	}
	return out
}

// append adds a record with a number.
func (s *series) append(to *rows, x float64) {
	payload, x := appendNumber(make([]byte, s.offset, s.offset+8), s.kind, x)
	at := int64(to.batch.Len())
	key := record.Key{CID: 1, MID: at * 7919 % 13, CapNs: at*104729%97 - 40, AcqNs: at % 11}
	to.batch.AppendStamped(key, payload)
	to.numbers = append(to.numbers, x)
}

func (s *series) number(r *rand.Rand) float64 {
	if len(s.few) > 0 {
		return s.few[r.IntN(len(s.few))]
	}
	if s.odd && r.IntN(20) == 0 {
		odd := [...]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1),
			math.MaxFloat64, math.SmallestNonzeroFloat64,
			math.Float64frombits(0xfff8000000000123)}
		return odd[r.IntN(len(odd))]
	}
	return math.Round(r.NormFloat64()*1e6) / 100
}

// randomSeries is one of the forms in which records come.
func randomSeries(r *rand.Rand, kind string) *series {
	groups := [...]int{1, 2, 7, 300}
	records := [...]int{1, 2, 3, 63, 64, 65, 1000, 4096, 5000}
	few := [][]float64{5: {0, math.Copysign(0, -1)}, 6: {1, math.Inf(1)}, 7: {2, math.Inf(-1)}}
	return &series{kind: kind, offset: r.IntN(3) * r.IntN(9), ragged: r.IntN(3) == 0,
		odd: r.IntN(4) == 0, few: few[r.IntN(len(few))], groups: groups[r.IntN(len(groups))],
		long:    r.IntN(2) == 0,
		records: records[r.IntN(len(records))]}
}
