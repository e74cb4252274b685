package devices

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pentad-db/pentad/sdk/registry"
)

// random makes descriptions and selectors that meet some of them.
type random struct{ *rand.Rand }

func (r random) of(values ...string) string { return values[r.IntN(len(values))] }

// lat and lon are often at a pole or at the antimeridian, or close to one of few places.
func (r random) lat() float64 {
	switch r.IntN(5) {
	case 0:
		return []float64{90, -90, 0, 89.99999999, -89.99999}[r.IntN(5)]
	case 1:
		return 180*r.Float64() - 90
	}
	return 65 + 0.1*r.Float64()
}

func (r random) lon() float64 {
	switch r.IntN(5) {
	case 0:
		return []float64{180, -180, 0, 179.9999999999, -179.99}[r.IntN(5)]
	case 1:
		return 360*r.Float64() - 180
	}
	return 25.4 + 0.1*r.Float64()
}

func (r random) description() *registry.Description {
	d := &registry.Description{Attributes: map[string]registry.Value{}}
	if r.IntN(10) > 0 {
		d.Name = fmt.Sprintf("t%d", r.IntN(1000))
	}
	if r.IntN(10) > 0 {
		d.Type = r.of("thermometer", "meter", "valve")
	}
	if r.IntN(10) > 0 {
		d.Group = strings.Repeat(r.of("oulu", "oulu/b7", "oulu/b70", "oulu-b", "x"), 1)
		if r.IntN(2) == 0 {
			d.Group += fmt.Sprintf("/f%d", r.IntN(4))
		}
	}
	if r.IntN(5) > 0 {
		d.Place = &registry.Place{Lat: r.lat(), Lon: r.lon(), HasAlt: r.IntN(2) == 0}
		if d.Place.HasAlt {
			d.Place.Alt = float64(r.IntN(30))
		}
	}
	for range r.IntN(4) {
		d.Attributes[r.of("floor", "owner", "serial", "rare", "ok", "connection")] = r.value()
	}
	d.Retired = r.IntN(5) == 0
	return d
}

func (r random) value() registry.Value {
	switch r.IntN(3) {
	case 0:
		return registry.Number(float64(r.IntN(10)) / 2)
	case 1:
		return registry.Bool(r.IntN(2) == 0)
	}
	return registry.Text(r.of("acme", "beta", "2", "true", "acme gmbh", ""))
}

func (r random) selector(depth int) string {
	if depth > 0 && r.IntN(2) == 0 {
		switch r.IntN(4) {
		case 0:
			return "!(" + r.selector(depth-1) + ")"
		case 1:
			return "(" + r.selector(depth-1) + " or " + r.selector(depth-1) + ")"
		}
		return r.selector(depth-1) + ", " + r.selector(depth-1)
	}
	for {
		text := r.test()
		if _, err := registry.ParseSelector(text); err == nil {
			return text
		}
	}
}

// test returns one test of a selector, which may be of a kind that its key does not have.
func (r random) test() string {
	key := r.of("floor", "owner", "serial", "rare", "ok", "connection", "alt", "name", "type",
		"group", "retired", "missing")
	switch r.IntN(9) {
	case 0:
		return fmt.Sprintf("%s=%s", key, r.of("acme", "2", `"2"`, "true", "t7", "meter", "1.5",
			`"acme gmbh"`, "oulu/b7", "false"))
	case 1:
		return key + r.of("=1..3", ">2", "<=2", "=0..=2.5", ">=2", "<1")
	case 2:
		return key + "^=" + r.of("t1", "oulu/b7/", "oulu/b7", "oulu", "acme", `""`, "/", "th")
	case 3:
		return fmt.Sprintf("%s in (acme, 2, 2.0, true, %s)", key, r.of("meter", `"2"`, "t3", "x"))
	case 4:
		return key
	case 5, 6:
		south, north := r.lat(), r.lat()
		return fmt.Sprintf("within(%v,%v,%v,%v)", min(south, north), r.lon(), max(south, north),
			r.lon())
	case 7:
		return fmt.Sprintf("near(%v,%v,%vm)", r.lat(), r.lon(), 1+r.ExpFloat64()*5000)
	}
	return fmt.Sprintf("near(%v,%v,%vkm)", r.lat(), r.lon(), 1+20000*r.Float64())
}

// TestAgainstMap compares selections after random changes with those from a map.
func TestAgainstMap(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := random{rand.New(rand.NewPCG(seed, 0))}
	var x Index
	model := map[int64]*registry.Description{}
	for round := range 120 {
		if round%40 == 39 { // a new index of what is there
			var b Builder
			for mid, d := range model {
				b.Add(mid, d)
			}
			x.Load(&b)
		}
		for range r.IntN(200) {
			mid := r.Int64N(3000) - 1000
			if r.IntN(4) == 0 {
				delete(model, mid)
				x.Set(mid, nil)
				continue
			}
			d := r.description()
			model[mid] = d
			x.Set(mid, d)
		}
		for range 20 {
			compare(t, &x, model, r.selector(3))
		}
	}
	if len(x.blocks) == 0 || len(x.tail) == 0 {
		t.Errorf("%d blocks and %d devices in the tail: both should be tested", len(x.blocks),
			len(x.tail))
	}
	for mid := range model {
		x.Set(mid, nil)
	}
	if x.Len() != 0 || x.Bytes() != 0 {
		t.Errorf("%d devices, %d bytes are left", x.Len(), x.Bytes())
	}
}

// TestRangesOfManyDevices selects from more devices than are looked at at once.
func TestRangesOfManyDevices(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := random{rand.New(rand.NewPCG(seed, 0))}
	model := map[int64]*registry.Description{}
	var b Builder
	for mid := range int64(15_000) {
		model[mid] = r.description()
		b.Add(mid, model[mid])
	}
	var x Index
	x.Load(&b)
	for round := range 60 {
		if round == 30 { // from here on some are dead
			for mid := range int64(300) {
				x.Set(mid*40, nil)
				delete(model, mid*40)
			}
		}
		compare(t, &x, model, "within(-80,-170,80,170), "+r.selector(2))
		compare(t, &x, model, "type in (meter, valve), "+r.selector(2))
	}
}

func compare(t *testing.T, x *Index, model map[int64]*registry.Description, text string) {
	t.Helper()
	s, err := registry.ParseSelector(text)
	if err != nil {
		t.Fatal(err)
	}
	var want []int64
	for mid, d := range model {
		if s.Match(d) {
			want = append(want, mid)
		}
	}
	slices.Sort(want)
	if got := x.Select(s, nil); !slices.Equal(got, want) {
		t.Fatalf("%s: %d devices, want %d: %v, want %v", text, len(got), len(want), got, want)
	}
	var all []int64
	x.Each(func(mid int64) { all = append(all, mid) })
	if slices.Sort(all); !slices.Equal(all, slices.Sorted(maps.Keys(model))) ||
		x.Len() != len(model) {
		t.Fatalf("%d devices, and %d, want %d", len(all), x.Len(), len(model))
	}
}

// TestMergedWithoutValue merges blocks after the only device with some values has died.
func TestMergedWithoutValue(t *testing.T) {
	var x Index
	model := map[int64]*registry.Description{}
	set := func(mid int64, d *registry.Description) {
		x.Set(mid, d)
		model[mid] = d
	}
	set(-1, &registry.Description{Retired: true, Type: "valve",
		Attributes: map[string]registry.Value{"floor": registry.Number(1)}})
	for mid := range int64(maxTail) {
		set(mid, &registry.Description{Name: "t"})
	}
	set(-1, &registry.Description{})
	for mid := range int64(maxTail) {
		set(maxTail+mid, &registry.Description{Name: "t"})
	}
	for _, text := range []string{"retired", "!retired", "type=valve", "floor=1", "floor>0",
		"type^=v", "name=t"} {
		compare(t, &x, model, text)
	}
}

// TestBlocksStayFew changes devices one by one: selections look into few blocks.
func TestBlocksStayFew(t *testing.T) {
	var x Index
	d := &registry.Description{Type: "meter"}
	for mid := range int64(200 * maxTail) {
		x.Set(mid, d)
		x.Set(mid/2, d)
		if len(x.blocks) > 6 {
			t.Fatalf("%d blocks of %d devices", len(x.blocks), x.Len())
		}
	}
	if x.Len() != 200*maxTail {
		t.Fatalf("%d devices", x.Len())
	}
}
