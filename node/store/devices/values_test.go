package devices

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pentad-db/pentad/sdk/registry"
)

var keys = []string{"name", "type", "group", "group[1]", "group[2]", "group[3]", "alt", "retired",
	"floor", "owner", "serial", "rare", "connection", "missing"}

// TestValuesAgainstMap compares the values that devices have for keys with those from a map, of all
// devices and of some.
func TestValuesAgainstMap(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := random{rand.New(rand.NewPCG(seed, 1))}
	var x Index
	model := map[int64]*registry.Description{}
	for range 60 {
		for range r.IntN(200) {
			mid := r.Int64N(3000) - 1000
			model[mid] = r.description()
			if r.IntN(5) == 0 {
				delete(model, mid)
			}
			x.Set(mid, model[mid])
		}
		for range 5 {
			var some []int64
			all := r.IntN(2) == 0
			for mid := range int64(3000) {
				if mid -= 1000; r.IntN(3) == 0 {
					some = append(some, mid)
				}
			}
			text := r.of(keys...)
			for range r.IntN(3) {
				if more, err := registry.AppendKey(text, r.of(keys...)); err == nil {
					text = more
				}
			}
			compareValues(t, &x, model, text, some, all)
		}
	}
}

func compareValues(t *testing.T, x *Index, model map[int64]*registry.Description, text string,
	some []int64, all bool) {
	t.Helper()
	keys, err := registry.ParseKeys(text)
	if err != nil {
		t.Fatal(err)
	}
	g := NewGathering(keys, 1<<30, func(mid int64) bool { return mid%7 != 0 })
	x.Gather(g, some, all)
	got, err := g.Values()
	if err != nil {
		t.Fatal(err)
	}
	list := got.List()
	none := make([]registry.Value, len(keys))
	if !slices.IsSortedFunc(list, registry.CompareValues) || !slices.Equal(list[0], none) ||
		len(slices.CompactFunc(slices.Clone(list), slices.Equal[[]registry.Value])) != len(list) {
		t.Fatalf("%s: values %v", text, list)
	}
	for mid := int64(-1000); mid < 2000; mid++ {
		want := slices.Clone(none)
		if _, is := slices.BinarySearch(some, mid); (is || all) && model[mid] != nil && mid%7 != 0 {
			for i, key := range keys {
				want[i], _ = key.Of(model[mid])
			}
		}
		if v := list[got.Of(mid)]; !slices.Equal(v, want) {
			t.Fatalf("%s of %d: %v, want %v", text, mid, v, want)
		}
	}
}

// TestTooManyValues gathers more than it may.
func TestTooManyValues(t *testing.T) {
	keys, err := registry.ParseKeys("name")
	if err != nil {
		t.Fatal(err)
	}
	g := NewGathering(keys, 1<<16, func(int64) bool { return true })
	for mid := range int64(1000) {
		g.Add(mid, &registry.Description{Name: string(rune('a' + mid))})
	}
	if _, err := g.Values(); !errors.Is(err, ErrTooMany) {
		t.Errorf("gathered, %v", err)
	}
	if len(g.of[0].devices) > 1000 || g.bytes > 1<<17 {
		t.Errorf("%d devices, %d bytes", len(g.of[0].devices), g.bytes)
	}
}
