package wasmhost

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
)

// numbers is a batch of int64, and their sum.
func numbers(rng *rand.Rand, rows int) (b *record.Batch, sum int64) {
	b = &record.Batch{}
	for i := range rows {
		v := rng.Int64N(1 << 40)
		b.Append(record.Key{MID: int64(i)}, binary.LittleEndian.AppendUint64(nil, uint64(v)))
		sum += v
	}
	return b, sum
}

// apartModel adds rows to groups and apart, and what they should come to.
type apartModel struct {
	t         *testing.T
	rng       *rand.Rand
	a         *Aggregate
	rows, sum int64
	gathered  []byte
	known     *apartKnown
}

// apartKnown is a state that was apart before.
type apartKnown struct {
	state     []byte
	rows, sum int64
}

func (m *apartModel) add(b *record.Batch, sum int64, err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
	m.rows, m.sum = m.rows+int64(b.Len()), m.sum+sum
}

// round fills places, some from what was known, and gathers them.
func (m *apartModel) round(places int) {
	b, s := numbers(m.rng, 100)
	m.add(b, s, m.a.Add(m.t.Context(), b, nil, 2))
	states, copies := make([]byte, 16*places), make([]StateCopy, places)
	for i := range places {
		copies[i].Index = i
		switch kind := m.rng.IntN(4); {
		case kind == 0 && m.known.state != nil:
			copies[i].Load = true
			copy(states[16*i:], m.known.state)
			m.rows, m.sum = m.rows+m.known.rows, m.sum+m.known.sum
		case kind == 1: // no rows come
		default:
			b, s := numbers(m.rng, 1+m.rng.IntN(3000))
			m.add(b, s, m.a.AddPartial(m.t.Context(), b, i))
		}
	}
	out := make([]byte, 16)
	if err := m.a.GatherPartials(m.t.Context(), places, copies, states, out); err != nil {
		m.t.Fatal(err)
	}
	m.gathered = append(m.gathered, out...)
	for i := range places { // the newest that was not known
		if rows := decodeSum(states[16*i:][:16])[0]; !copies[i].Load && rows > 0 {
			*m.known = apartKnown{bytes.Clone(states[16*i:][:16]), rows,
				decodeSum(states[16*i:][:16])[1]}
		}
	}
}

// TestPartials adds rows to groups and apart in turn, and takes states that were apart before for
// some of the places.
func TestPartials(t *testing.T) {
	h := newTestHost(t, Options{})
	for _, flags := range []uint32{0, plugin.FlagMergeOrdered} {
		m := mustLoad(t, h, good(func(a *asm) {
			a.data[descAt] = descriptor(func(field func(int, uint32)) { field(32, flags) })
		}))
		defer m.Close()
		rng := rand.New(rand.NewPCG(3, uint64(flags)))
		known := &apartKnown{}
		for _, places := range []int{1, 2, 3, 17, 256} {
			a, err := m.NewAggregate(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if a.MaxPartials() != 256 || a.StateSize() != 16 {
				t.Fatalf("%d places of %d bytes", a.MaxPartials(), a.StateSize())
			}
			model := &apartModel{t: t, rng: rng, a: a, known: known}
			for range 3 {
				model.round(places)
			}
			// More than there are places; these count no rows.
			model.gathered = append(model.gathered, make([]byte, 300*16)...)
			if err := a.MergePartials(t.Context(), model.gathered, 0, 2); err != nil {
				t.Fatal(err)
			}
			results, err := a.Finish(t.Context())
			if err != nil || len(results) != 2 {
				t.Fatal(results, err)
			}
			for i, want := range [][2]int64{{model.rows, model.sum}, {}} {
				if got := decodeSum(results[i]); got != want {
					t.Errorf("%d places, flags %d: group %d is %d, want %d", places, flags, i, got,
						want)
				}
			}
			_ = a.Close() // its failures were returned
		}
	}
}

// TestPartialsRowsFixed: where sums depend on how rows are cut, nothing that came before does.
func TestPartialsRowsFixed(t *testing.T) {
	h := newTestHost(t, Options{})
	m := mustLoad(t, h, good(func(a *asm) {
		a.data[descAt] = descriptor(func(field func(int, uint32)) {
			field(32, plugin.FlagDependsOnBatches)
		})
	}))
	defer m.Close()
	a, err := m.NewAggregate(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, _ := numbers(rand.New(rand.NewPCG(1, 1)), 2000)
	for place := range 8 {
		if err := a.Add(t.Context(), b, nil, 1); err != nil {
			t.Fatal(err)
		}
		if err := a.AddPartial(t.Context(), b, place); err != nil {
			t.Fatal(err)
		}
		if a.columns.rows != firstRows {
			t.Fatalf("%d rows next", a.columns.rows)
		}
	}
}

func TestPartialsRejects(t *testing.T) {
	h := newTestHost(t, Options{})
	m := mustLoad(t, h, good(func(a *asm) {
		a.data[descAt] = descriptor(func(field func(int, uint32)) {
			field(16, maxPartialStateBytes+8)
		})
	}))
	defer m.Close()
	a, err := m.NewAggregate(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if a.MaxPartials() != 0 {
		t.Errorf("%d places for states of %d bytes", a.MaxPartials(), a.StateSize())
	}
	if err := a.GatherPartials(t.Context(), 1, nil, nil, make([]byte, a.StateSize())); err == nil {
		t.Error("a place more than there are was gathered")
	}
	if err := a.MergePartials(t.Context(), make([]byte, a.StateSize()), 0, 1); err == nil {
		t.Error("a state was merged where there is no place for it")
	}
	small := mustLoad(t, h, good(nil))
	defer small.Close()
	if a, err = small.NewAggregate(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for _, place := range []int{-1, 2} {
		if err := a.GatherPartials(t.Context(), 2, []StateCopy{{Index: place}}, make([]byte, 16),
			make([]byte, 16)); err == nil {
			t.Errorf("place %d of 2 was copied", place)
		}
	}
	for _, out := range []int{0, 15, 17} {
		if err := a.GatherPartials(t.Context(), 1, nil, nil, make([]byte, out)); err == nil {
			t.Errorf("a state was copied into %d bytes", out)
		}
	}
	if err := a.MergePartials(t.Context(), make([]byte, 17), 0, 1); err == nil {
		t.Error("17 bytes were merged")
	}
	if err := a.MergePartials(t.Context(), make([]byte, 16), 1, 1); err == nil {
		t.Error("a state was merged into a group that there is not")
	}
}

// TestPartialsHostile: whatever goes wrong with states apart is an error that names it, and the
// instance is gone.
func TestPartialsHostile(t *testing.T) {
	h := newTestHost(t, Options{})
	f := func(kind ErrorKind, want string, change func(*asm)) {
		t.Helper()
		m := mustLoad(t, h, good(change))
		defer m.Close()
		a, err := m.NewAggregate(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for place := 0; place < 5 && err == nil; place++ {
			err = a.AddPartial(t.Context(), values(1, 2, 3), place)
		}
		if err == nil {
			err = a.GatherPartials(t.Context(), 5, []StateCopy{{Index: 2, Load: true}, {Index: 4}},
				make([]byte, 2*16), make([]byte, 16))
		}
		var e *Error
		if !errors.As(err, &e) || e.Kind != kind || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want kind %v with %q", err, kind, want)
		}
		if err := a.AddPartial(t.Context(), values(1), 0); !errors.Is(err, ErrClosed) {
			t.Errorf("after %q: %v", want, err)
		}
		if n := h.Stats().Instances; n != 0 || h.budget.used.Load() != 0 {
			t.Errorf("after %q: %d instances, %d bytes", want, n, h.budget.used.Load())
		}
	}
	body := func(kind ErrorKind, want, export, locals string, c code) {
		t.Helper()
		f(kind, export+": "+want, func(a *asm) { a.replace(export, locals, c) })
	}
	for _, export := range []string{exportStateInit, exportAdd, exportMerge} {
		body(Fuel, "out of fuel", export, "", spin)
		body(Trap, "unreachable", export, "", ops(opUnreachable))
	}
	body(Output, "returned 7", exportMerge, "", i32c(7))
	body(Status, "failed (status -123)", exportMerge, "", i32c(-123))
	body(Trap, "out of bounds memory access", exportMerge, "",
		cat(store(0, i32c(-4), i32c(1)), i32c(0)))
	// Memory is handed out once, and then no more, or the same again.
	once := func(then int32) func(*asm) {
		return func(a *asm) {
			a.memoryMin = 256
			a.globals = append(a.globals, cat(ops(typeI32, 1), i32c(4096), ops(opEnd)))
			a.replace(exportAlloc, "", cat(gget(2), i32c(then), gset(2)))
		}
	}
	f(Memory, "no memory for", once(0))
	f(Output, "overlap the", once(4096))
}

// TestGatherFirst: merging may change what is merged; the states that are kept are those from
// before.
func TestGatherFirst(t *testing.T) {
	h := newTestHost(t, Options{})
	m := mustLoad(t, h, good(func(a *asm) { // the sum of a state that was merged becomes 77
		i := slices.IndexFunc(a.funcs, func(f asmFunc) bool { return f.export == exportMerge })
		a.funcs[i].export = ""
		a.funcs = append(a.funcs, asmFunc{export: exportMerge, params: i32 + i32 + i32,
			results: i32, code: cat(get(0), get(1), get(2), call(uint32(i)),
				store8(8, get(1), i64c(77)))})
	}))
	defer m.Close()
	a, err := m.NewAggregate(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	var gathered [2 * 16]byte
	for i := range 2 {
		states, copies := make([]byte, 4*16), make([]StateCopy, 4)
		for place := range 4 {
			copies[place].Index = place
			if err := a.AddPartial(t.Context(), values(1, 2, 3), place); err != nil {
				t.Fatal(err)
			}
		}
		err := a.GatherPartials(t.Context(), 4, copies, states, gathered[16*i:][:16])
		if err != nil {
			t.Fatal(err)
		}
		for place := range 4 {
			if got := decodeSum(states[16*place:]); got != [2]int64{3, 6} {
				t.Errorf("place %d: %v", place, got)
			}
		}
	}
	if err := a.MergePartials(t.Context(), gathered[:], 0, 1); err != nil {
		t.Fatal(err)
	}
	results, err := a.Finish(t.Context())
	if err != nil || decodeSum(results[0]) != [2]int64{24, 48} {
		t.Errorf("%v, %v", results, err)
	}
}
