package wasmhost

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/plugin"
)

// growing makes of the good plugin an aggregate whose states are lists of all payloads: a state is
// the address and the size of its list, which is copied to a larger place for every payload.
func growing(a *asm) {
	a.data[descAt] = descriptor(func(field func(int, uint32)) {
		field(12, plugin.NeedGID|plugin.NeedData|plugin.NeedOffsets)
		field(24, 0)
		field(32, plugin.FlagGrows)
	})
	const head, src, size, p = 0, 1, 2, 3
	const alloc = 2
	list := uint32(len(a.funcs))
	at, bytes := cat(get(head), load(0)), cat(get(head), load(4))
	move := ops(opPrefixMisc, miscMemoryCopy, 0, 0)
	a.remove(exportMerge)
	a.funcs = append(a.funcs,
		asmFunc{params: i32 + i32 + i32, locals: i32, code: cat(
			add(bytes, get(size)), call(alloc), set(p),
			get(p), ops(i32Eqz), when(ops(opUnreachable)),
			get(p), at, bytes, move,
			add(get(p), bytes), get(src), get(size), move,
			store(0, get(head), get(p)), store(4, get(head), add(bytes, get(size))))},
		asmFunc{export: exportSave, params: i32 + i32 + i32, results: i32, code: cat(
			bytes, get(2), ops(i32GtU), when(i32c(-3), ops(opReturn)),
			get(1), at, bytes, move, bytes)},
		asmFunc{export: exportLoad, params: i32 + i32 + i32, results: i32, code: cat(
			get(0), get(1), get(2), call(list), i32c(0))})
	const batch, states, i = 0, 1, 2
	gid := cat(add(cat(get(batch), load(36)), cat(get(i), i32c(2), ops(i32Shl))), load(0))
	a.replace(exportAdd, i32, loop(
		add(get(states), mul(gid, i32c(16))),
		add(cat(get(batch), load(44)), mul(get(i), i32c(8))), i32c(8), call(list),
		inc(i, 1), get(i), get(batch), load(4), ops(0x49), brIf(0)))
	last := slices.IndexFunc(a.funcs, func(f asmFunc) bool { return f.export == exportAdd })
	a.funcs[last].code = cat(a.funcs[last].code, i32c(0))
	a.replace(exportFinish, "", cat(
		add(bytes, i32c(4)), get(3), ops(i32GtU), when(i32c(-3), ops(opReturn)),
		store(0, get(2), bytes), add(get(2), i32c(4)), at, bytes, move,
		add(bytes, i32c(4))))
}

// Lists of three instances, merged in other orders of groups, are those that slices make. The
// array of states moves while it grows.
func TestHeapStates(t *testing.T) {
	h := newTestHost(t, Options{})
	m := mustLoad(t, h, good(growing))
	defer m.Close()
	r := random(11)
	const groups = 5000 // 80,000 bytes of states: more than the first region
	want := make([][]byte, groups)
	var first *Aggregate
	for instance := range 3 {
		a, err := m.NewAggregate(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		own := make([][]byte, groups)
		for call := range 3 {
			among := []int{1, 50, groups}[call]
			list, gid := make([]int64, 150), make([]uint32, 150)
			for i := range list {
				list[i], gid[i] = r.Int64(), uint32(r.IntN(among))
				own[gid[i]] = binary.LittleEndian.AppendUint64(own[gid[i]], uint64(list[i]))
			}
			if err := a.Add(t.Context(), values(list...), gid, among); err != nil {
				t.Fatal(err)
			}
		}
		if instance == 0 {
			first, want = a, own
			continue
		}
		saved, err := a.States(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		order := make([]uint32, groups)
		for i, to := range r.Perm(groups) {
			order[i] = uint32(to)
			want[to] = append(want[to], own[i]...)
		}
		if err := first.Merge(t.Context(), saved, order); err != nil {
			t.Fatal(err)
		}
	}
	results, err := first.Finish(t.Context())
	if err != nil || len(results) != groups {
		t.Fatalf("%d results, %v", len(results), err)
	}
	for i := range results {
		if !bytes.Equal(results[i], want[i]) {
			t.Fatalf("group %d: %x, want %x", i, results[i], want[i])
		}
	}
}

func TestHeapStatesLie(t *testing.T) {
	h := newTestHost(t, Options{})
	f := func(name string, kind ErrorKind, want, export string, c code) {
		t.Helper()
		fails(t, h, name, kind, want, func(a *asm) {
			growing(a)
			a.replace(export, "", c)
		})
	}
	f("more than the room", Output, "pentad_save: says it wrote 1048577 bytes", exportSave,
		i32c(maxSavedSize+1))
	f("far more", Output, "says it wrote 2147483647", exportSave, i32c(math.MaxInt32))
	f("no room", Status, "pentad_save: the space for results is too small", exportSave, i32c(-3))
	f("save spins", Fuel, "pentad_save: out of fuel after 33,", exportSave, spin)
	f("save traps", Trap, "unreachable", exportSave, ops(opUnreachable))
	f("load spins", Fuel, "pentad_load: out of fuel after 33,", exportLoad, spin)
	f("load is no status", Output, "pentad_load: returned 9", exportLoad, i32c(9))
	f("load refuses", Status, "pentad_load: failed (status -200)", exportLoad, i32c(-200))
	f("finish spins", Fuel, "pentad_finish: out of fuel after 33,", exportFinish, spin)
	f("finish needs more", Status, "pentad_finish: the space", exportFinish, i32c(-3))
	// Every state is one of 1 MiB, as saved: the eighth with its size is more than 8 MiB.
	m := mustLoad(t, h, good(func(a *asm) {
		growing(a)
		a.replace(exportSave, "", i32c(maxSavedSize))
	}))
	defer m.Close()
	a, err := m.NewAggregate(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Add(t.Context(), values(1), nil, 100); err != nil {
		t.Fatal(err)
	}
	var e *Error
	if _, err := a.States(t.Context()); !errors.As(err, &e) || e.Kind != Limit {
		t.Errorf("states of 100 MiB: %v", err)
	}
}

func TestHeapStatesDeclared(t *testing.T) {
	h := newTestHost(t, Options{})
	f := func(name, want string, change func(*asm)) {
		t.Helper()
		refuse(t, h, name, good(change), want)
	}
	f("without save", "states grow and lacks the exports", func(a *asm) {
		a.data[descAt] = descriptor(func(field func(int, uint32)) { field(32, plugin.FlagGrows) })
	})
	f("without a word", "lacks the export pentad_merge", func(a *asm) {
		growing(a)
		a.data[descAt] = descriptor(nil)
	})
	f("without link", "lacks the export pentad_link_predecessor", func(a *asm) {
		a.data[descAt] = descriptor(func(field func(int, uint32)) {
			field(32, plugin.FlagLinksPredecessors)
		})
	})
	f("half of it", "a plugin is one of the two", func(a *asm) {
		growing(a)
		a.remove(exportLoad)
		a.remove(exportFilter)
	})
	f("unknown flag", "flags 0x10 that this host", func(a *asm) {
		a.data[descAt] = descriptor(func(field func(int, uint32)) { field(32, 16) })
	})
}

// The saved states of ABI.md come apart as it says.
func TestExampleSaved(t *testing.T) {
	saved, err := parseSaved(abiExample(t, "saved"))
	if err != nil || len(saved) != 3 || len(saved[0]) != 16 || len(saved[1]) != 0 ||
		len(saved[2]) != 8 {
		t.Errorf("%x, %v", saved, err)
	}
}

func FuzzParseSaved(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{3, 0, 0, 0, 1, 2, 3, 0, 0, 0, 0})
	f.Add([]byte{255, 255, 255, 255, 1})
	f.Add([]byte{1, 0})
	f.Fuzz(func(t *testing.T, src []byte) {
		saved, err := parseSaved(src)
		if err != nil {
			return
		}
		var again []byte
		for _, s := range saved {
			again = append(binary.LittleEndian.AppendUint32(again, uint32(len(s))), s...)
		}
		if !bytes.Equal(again, src) {
			t.Fatalf("%x comes back as %x", src, again)
		}
	})
}

// An allocator that could grow the memory pays for growth when it does, not whenever it is called.
func TestGrowthIsPaidWhereItHappens(t *testing.T) {
	h := newTestHost(t, Options{})
	m := mustLoad(t, h, good(growing))
	defer m.Close()
	a, err := m.NewAggregate(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := a.Add(t.Context(), values(make([]int64, 16)...), make([]uint32, 16), 1); err != nil {
		t.Fatal(err)
	}
	if a.guest.used >= growPrice {
		t.Errorf("16 small allocations cost %d units", a.guest.used)
	}
}

// Results for which there is too little space are asked for again, fewer at a time and then with
// more space; only the last refusal is a failure.
func TestFinishAgain(t *testing.T) {
	h := newTestHost(t, Options{})
	f := func(least int32, failures uint64) {
		t.Helper()
		m := mustLoad(t, h, good(func(a *asm) {
			a.data[descAt] = descriptor(func(field func(int, uint32)) { field(24, 0) })
			a.replace(exportFinish, "", cat(
				get(1), i32c(1), ops(i32GtU), when(i32c(-3), ops(opReturn)),
				i32c(least), get(3), ops(i32GtU), when(i32c(-3), ops(opReturn)),
				store(0, get(2), i32c(0)), i32c(4)))
		}))
		defer m.Close()
		a, err := m.NewAggregate(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		if err := a.Add(t.Context(), values(1, 2, 3), []uint32{0, 1, 99}, 100); err != nil {
			t.Fatal(err)
		}
		before := h.Stats().Failures[Status]
		results, err := a.Finish(t.Context())
		if tooSmall(err) != (failures > 0) || err == nil && len(results) != 100 {
			t.Errorf("space for %d: %d results, %v", least, len(results), err)
		}
		if n := h.Stats().Failures[Status] - before; n != failures {
			t.Errorf("space for %d: %d failures counted, want %d", least, n, failures)
		}
	}
	f(0, 0)
	f(largeOutBytes, 0)
	f(largeOutBytes+1, 1)
}
