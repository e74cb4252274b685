package wasmhost

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
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

// TestApart adds rows to groups and apart in turn, and takes states that were apart before for some
// of the places.
func TestApart(t *testing.T) {
	h := newTestHost(t, Options{})
	for _, flags := range []uint32{0, plugin.FlagMergeOrdered} {
		m := mustLoad(t, h, good(func(a *asm) {
			a.data[descAt] = descriptor(func(field func(int, uint32)) { field(32, flags) })
		}))
		defer m.Close()
		rng := rand.New(rand.NewPCG(3, uint64(flags)))
		var before []byte // a state that was apart
		var beforeRows, beforeSum int64
		for _, places := range []int{1, 2, 3, 17, 256} {
			a, err := m.NewAggregate(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if a.Apart() != 256 || a.StateSize() != 16 {
				t.Fatalf("%d places of %d bytes", a.Apart(), a.StateSize())
			}
			rows, sum := int64(0), int64(0)
			for range 3 {
				b, s := numbers(rng, 100)
				if err := a.Add(t.Context(), b, nil, 2); err != nil {
					t.Fatal(err)
				}
				rows, sum = rows+100, sum+s
				states, known := make([]byte, 16*places), make([]bool, places)
				for i := range places {
					switch kind := rng.IntN(4); {
					case kind == 0 && before != nil:
						known[i] = true
						copy(states[16*i:], before)
						rows, sum = rows+beforeRows, sum+beforeSum
					case kind == 1: // no rows come
					default:
						b, s := numbers(rng, 1+rng.IntN(3000))
						if err := a.AddApart(t.Context(), b, i); err != nil {
							t.Fatal(err)
						}
						rows, sum = rows+int64(b.Len()), sum+s
					}
				}
				if err := a.Gather(t.Context(), states, known, 0, 2); err != nil {
					t.Fatal(err)
				}
				for i := range places { // the newest that was not known
					if !known[i] && binary.LittleEndian.Uint64(states[16*i:]) > 0 {
						before = bytes.Clone(states[16*i:][:16])
						beforeRows = int64(binary.LittleEndian.Uint64(before))
						beforeSum = int64(binary.LittleEndian.Uint64(before[8:]))
					}
				}
			}
			results, err := a.Finish(t.Context())
			if err != nil || len(results) != 2 {
				t.Fatal(results, err)
			}
			for i, want := range [][2]int64{{rows, sum}, {}} {
				got := [2]int64{int64(binary.LittleEndian.Uint64(results[i])),
					int64(binary.LittleEndian.Uint64(results[i][8:]))}
				if got != want {
					t.Errorf("%d places, flags %d: group %d is %d, want %d", places, flags, i, got,
						want)
				}
			}
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestApartRows: how many rows a call gets follows from the rows apart alone, and can be set to
// what it was.
func TestApartRows(t *testing.T) {
	h := newTestHost(t, Options{})
	m := mustLoad(t, h, good(nil))
	defer m.Close()
	a, err := m.NewAggregate(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, _ := numbers(rand.New(rand.NewPCG(1, 1)), 2000)
	for range 8 { // whatever others bring
		if err := a.Add(t.Context(), b, nil, 1); err != nil {
			t.Fatal(err)
		}
	}
	f := func(want int) {
		t.Helper()
		if got := a.ApartRows(); got != want {
			t.Errorf("%d rows next, want %d", got, want)
		}
	}
	f(firstRows)
	if err := a.AddApart(t.Context(), b, 0); err != nil {
		t.Fatal(err)
	}
	f(maxBatchRows)
	a.SetApartRows(512)
	f(512)
	if err := a.AddApart(t.Context(), b.Head(10), 1); err != nil {
		t.Fatal(err)
	}
	f(512) // so few say nothing
}

// TestApartRowsFixed: where sums depend on how rows are cut, nothing that came before does.
func TestApartRowsFixed(t *testing.T) {
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
		if err := a.AddApart(t.Context(), b, place); err != nil {
			t.Fatal(err)
		}
		if a.ApartRows() != firstRows || a.columns.rows != firstRows {
			t.Fatalf("%d rows next, apart %d", a.columns.rows, a.ApartRows())
		}
	}
}

func TestApartRefuses(t *testing.T) {
	h := newTestHost(t, Options{})
	m := mustLoad(t, h, good(func(a *asm) {
		a.data[descAt] = descriptor(func(field func(int, uint32)) {
			field(16, maxApartState+8)
		})
	}))
	defer m.Close()
	a, err := m.NewAggregate(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if a.Apart() != 0 {
		t.Errorf("%d places for states of %d bytes", a.Apart(), a.StateSize())
	}
	if err := a.Gather(t.Context(), make([]byte, 16), []bool{true}, 0, 1); err == nil {
		t.Error("a place more than there are was gathered")
	}
}
