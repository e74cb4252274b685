package wasmhost

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/pentad-db/pentad/cluster-test/leaks"
	"github.com/pentad-db/pentad/sdk/record"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func newTestHost(t testing.TB, opt Options) *Host {
	t.Helper()
	h, err := New(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if s := h.Stats(); s.MemoryBytes != 0 {
			t.Errorf("%d bytes of guest memory left after Close", s.MemoryBytes)
		}
	})
	return h
}

func mustLoad(t testing.TB, h *Host, wasm []byte) *Module {
	t.Helper()
	m, err := h.Load(t.Context(), wasm)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// values is a stamped batch whose payloads are the given numbers, eight bytes each.
func values(list ...int64) *record.Batch {
	b := &record.Batch{}
	for i, v := range list {
		b.AppendStamped(record.Key{CID: 1, MID: int64(i), AcqNs: int64(i)},
			binary.LittleEndian.AppendUint64(nil, uint64(v)))
	}
	return b
}

func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func TestGoodPlugin(t *testing.T) {
	h := newTestHost(t, Options{})
	m := mustLoad(t, h, good(nil))
	checkGood(t, m)
	if m.Name() != "sum" || m.Describe().StateSize != 16 {
		t.Errorf("described as %+v", m.Describe())
	}
}

// checkGood runs the good plugin as a filter and as an aggregate.
func checkGood(t testing.TB, m *Module) {
	t.Helper()
	ctx := t.Context()
	f, err := m.NewFilter(ctx, binary.LittleEndian.AppendUint64(nil, 5))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := values(9, 1, 6, 5, 7)
	keep := []uint64{^uint64(0)}
	if err := f.Keep(ctx, b, keep); err != nil {
		t.Fatal(err)
	}
	if keep[0] != 0b10101 {
		t.Errorf("kept %b, want 10101", keep[0])
	}
	a, err := m.NewAggregate(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := a.Add(ctx, b, []uint32{0, 1, 0, 1, 2}, 4); err != nil {
		t.Fatal(err)
	}
	results, err := a.Finish(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][2]int64{{2, 15}, {2, 6}, {1, 7}, {0, 0}} {
		if got := decodeSum(results[i]); got != want {
			t.Errorf("group %d is %v, want %v", i, got, want)
		}
	}
}

func decodeSum(b []byte) [2]int64 {
	return [2]int64{int64(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint64(b[8:]))}
}

// Instances have what Options.TotalBytes says together, also those of a host beside, and what one
// had is there for others when it ends.
func TestTotalBytes(t *testing.T) {
	h := newTestHost(t, Options{TotalBytes: 3 << 16})
	beside := newTestHost(t, Options{ShareWith: h})
	m, lent := mustLoad(t, h, good(nil)), mustLoad(t, beside, good(nil))
	defer m.Close()
	defer lent.Close()
	var open []*Aggregate
	for _, m := range []*Module{m, m, lent} {
		a, err := m.NewAggregate(t.Context(), nil) // a page each
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		open = append(open, a)
	}
	var e *Error
	if _, err := lent.NewAggregate(t.Context(), nil); !errors.As(err, &e) || e.Kind != Busy {
		t.Errorf("a fourth page: %v", err)
	}
	const groups = 8192 // whose states do not fit into a page
	// It is closed as it fails.
	err := open[0].Add(t.Context(), values(1), []uint32{0}, groups)
	if !errors.As(err, &e) || e.Kind != Busy || e.Export != exportAlloc {
		t.Errorf("a fourth page: %v", err)
	}
	if err := open[1].Close(); err != nil {
		t.Fatal(err)
	}
	if err := open[2].Add(t.Context(), values(1), nil, 1); err != nil {
		t.Error(err)
	}
	if err := open[2].Close(); err != nil || h.budget.used.Load() != 0 {
		t.Errorf("%d bytes are left, %v", h.budget.used.Load(), err)
	}
}
