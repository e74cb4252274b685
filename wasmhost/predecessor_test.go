package wasmhost

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/pentad-db/pentad/sdk/plugin"
)

// linking makes of the good plugin one whose states take the sum of their predecessor: the lower
// half of it becomes the upper half of their count.
func linking(change code) func(a *asm) {
	return func(a *asm) {
		a.data[descAt] = descriptor(func(field func(int, uint32)) {
			field(32, plugin.FlagLinksPredecessors)
		})
		a.funcs = append(a.funcs, asmFunc{export: exportLinkPredecessor, params: i32 + i32,
			results: i32, code: cat(store(4, get(0), cat(get(1), load(8))), change)})
	}
}

// Each state gets its predecessor, in the order of the links.
func TestLinkPredecessors(t *testing.T) {
	h := newTestHost(t, Options{})
	m := mustLoad(t, h, good(linking(i32c(0))))
	defer m.Close()
	a, err := m.NewAggregate(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := a.Add(t.Context(), values(10, 20, 30), []uint32{2, 0, 1}, 3); err != nil {
		t.Fatal(err)
	}
	links := []Link{{0, 2}, {1, 0}, {1, 2}}
	if err := a.LinkPredecessors(t.Context(), links); err != nil {
		t.Fatal(err)
	}
	results, err := a.Finish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for group, want := range []uint64{10<<32 | 1, 10<<32 | 1, 1} {
		if got := binary.LittleEndian.Uint64(results[group]); got != want {
			t.Errorf("group %d: count %#x, want %#x", group, got, want)
		}
	}
}

// A link that fails or does not end is an error of the plugin, after which its instance is gone.
func TestLinkPredecessorsFails(t *testing.T) {
	h := newTestHost(t, Options{})
	f := func(kind ErrorKind, c code) {
		t.Helper()
		m := mustLoad(t, h, good(linking(c)))
		defer m.Close()
		a, err := m.NewAggregate(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		if err := a.Add(t.Context(), values(1, 2), []uint32{0, 1}, 2); err != nil {
			t.Fatal(err)
		}
		var e *Error
		err = a.LinkPredecessors(t.Context(), []Link{{Group: 1, Predecessor: 0}})
		if !errors.As(err, &e) || e.Kind != kind || e.Export != exportLinkPredecessor {
			t.Errorf("%v, want kind %v of %s", err, kind, exportLinkPredecessor)
		}
		if _, err := a.Finish(t.Context()); err == nil {
			t.Error("the instance is still there")
		}
	}
	f(Status, i32c(-100))
	f(Output, i32c(5))
	f(Trap, ops(opUnreachable))
	f(Fuel, cat(loop(i32c(1), brIf(0)), i32c(0)))
}
