package devices

import (
	"cmp"
	"errors"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/sdk/registry"
)

// Values says which values of some keys each of some devices has. It is immutable once [Gathering]
// has made it.
type Values struct {
	list [][]registry.Value // ascending, each once; the first is zero values: none

	// A hash table with open addressing, at most half full, with a random factor, so that clients
	// cannot choose devices that collide. Numbers of values are 0 where there is no device.
	mids    []int64
	numbers []uint32
	factor  uint64
	shift   uint
}

// List returns the values of all keys, ascending: their number is their index. The first are none.
func (v *Values) List() [][]registry.Value { return v.list }

// Of returns the number of the values of a device, 0 without any.
//
// Cost: one look into a table of 24 bytes or more for each device with a value.
func (v *Values) Of(mid int64) uint32 {
	if len(v.mids) == 0 {
		return 0
	}
	mask := uint64(len(v.mids) - 1)
	for at := uint64(mid) * v.factor >> v.shift; ; at = (at + 1) & mask {
		if v.mids[at] == mid || v.numbers[at] == 0 {
			return v.numbers[at]
		}
	}
}

// ErrTooMany is the error of devices and values that take too much memory.
var ErrTooMany = errors.New("devices: too many to be grouped")

// Gathering makes [Values] of devices that come in any order, each once; Add may be called by
// several goroutines.
type Gathering struct {
	keep func(mid int64) bool // leaves out devices
	max  int64                // bytes

	mu    sync.Mutex // guards all below
	bytes int64
	of    []*gathered // by key
}

// gathered is what devices have for one key.
type gathered struct {
	*Gathering
	key     registry.Key
	numbers map[registry.Value]uint32
	list    []registry.Value // by the numbers that values have so far
	devices []numbered
}

type numbered struct {
	mid    int64
	number uint32
}

// NewGathering returns one for keys and the devices that keep names, that is to take that many
// bytes at most.
func NewGathering(keys registry.Keys, maxBytes int64, keep func(mid int64) bool) *Gathering {
	g := &Gathering{max: maxBytes, keep: keep}
	for _, key := range keys {
		g.of = append(g.of, &gathered{Gathering: g, key: key, list: make([]registry.Value, 1),
			numbers: map[registry.Value]uint32{{}: 0}})
	}
	return g
}

const (
	// deviceBytes is what a device takes: in the gathering, and in a table that is a quarter full.
	deviceBytes = 16 + 4*12
	// valueBytes is what a value takes beside its text: in the list, and in a map.
	valueBytes = 3 * 40
)

// Add adds a device with its description.
func (g *Gathering) Add(mid int64, d *registry.Description) {
	if !g.keep(mid) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, one := range g.of {
		if v, ok := one.key.Of(d); ok {
			one.put(mid, one.number(v))
		}
	}
}

// number returns the number of a value, a new one for a new value; 0 if there are too many.
func (g *gathered) number(v registry.Value) uint32 {
	n, ok := g.numbers[v]
	if !ok {
		if g.bytes > g.max {
			return 0
		}
		n = uint32(len(g.list))
		g.numbers[v] = n
		g.list = append(g.list, v)
		g.bytes += int64(valueBytes + len(v.Text()))
	}
	return n
}

// put adds a device unless there are too many.
func (g *gathered) put(mid int64, number uint32) {
	if number > 0 {
		if g.bytes += deviceBytes; g.bytes <= g.max {
			g.devices = append(g.devices, numbered{mid, number})
		}
	}
}

// Values returns what was gathered, which is used up.
//
// Errors: ErrTooMany.
func (g *Gathering) Values() (*Values, error) {
	tables := make([]*Values, len(g.of))
	for i, one := range g.of {
		if g.bytes > g.max {
			return nil, ErrTooMany
		}
		list := make([][]registry.Value, len(one.list))
		for n := range list {
			list[n] = one.list[n : n+1 : n+1]
		}
		tables[i] = newValues(list, one.devices)
	}
	if len(tables) == 1 {
		return tables[0], nil
	}
	return g.combine(tables)
}

// combine returns the values of several keys of all devices that have any.
func (g *Gathering) combine(tables []*Values) (*Values, error) {
	type tuple [registry.MaxKeys]uint32
	numbers := map[tuple]uint32{{}: 0}
	list := [][]registry.Value{make([]registry.Value, len(tables))}
	var devices []numbered
	for i, t := range tables {
		for at, n := range t.numbers {
			mid := t.mids[at]
			if n == 0 || slices.ContainsFunc(tables[:i], func(before *Values) bool {
				return before.Of(mid) > 0
			}) {
				continue
			}
			var all tuple
			for k, of := range tables {
				all[k] = of.Of(mid)
			}
			number, ok := numbers[all]
			if !ok {
				number = uint32(len(list))
				numbers[all] = number
				values := make([]registry.Value, len(tables))
				for k, of := range tables {
					values[k] = of.list[all[k]][0]
				}
				list = append(list, values)
				g.bytes += int64(valueBytes + len(values)*valueBytes/3)
			}
			devices = append(devices, numbered{mid, number})
			if g.bytes += deviceBytes; g.bytes > g.max {
				return nil, ErrTooMany
			}
		}
	}
	return newValues(list, devices), nil
}

// newValues returns the values of a list, and the devices that have them by their numbers there.
func newValues(list [][]registry.Value, devices []numbered) *Values {
	order := make([]uint32, len(list))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int {
		return registry.CompareValues(list[a], list[b])
	})
	v := &Values{list: make([][]registry.Value, len(order))}
	rank := make([]uint32, len(order))
	for i, n := range order {
		v.list[i], rank[n] = list[n], uint32(i)
	}
	if len(devices) > 0 {
		width := bits.Len(uint(2*len(devices) - 1))
		v.mids, v.numbers = make([]int64, 1<<width), make([]uint32, 1<<width)
		v.factor, v.shift = rand.Uint64()|1, uint(64-width)
	}
	for _, d := range devices {
		mask := uint64(len(v.mids) - 1)
		at := uint64(d.mid) * v.factor >> v.shift
		for v.numbers[at] != 0 {
			at = (at + 1) & mask
		}
		v.mids[at], v.numbers[at] = d.mid, rank[d.number]
	}
	return v
}

// Gather adds the devices of the index: of some, ascending, or where all is set all of them.
//
// Cost: some ns for each device with a value; of few devices among many, some look-ups of each.
func (x *Index) Gather(g *Gathering, some []int64, all bool) {
	for _, b := range x.blocks {
		b.gather(g, some, all)
	}
	for mid, d := range x.tail {
		if _, ok := slices.BinarySearch(some, mid); ok || all {
			g.Add(mid, d)
		}
	}
}

func (b *block) gather(g *Gathering, some []int64, all bool) {
	var ords []uint32 // ascending
	for _, mid := range some {
		if ord, ok := b.ordinal(mid); ok && b.lives(ord) && !all && g.keep(mid) {
			ords = append(ords, ord)
		}
	}
	slices.Sort(ords)
	if all {
		for ord := range uint32(len(b.mids)) {
			if b.lives(ord) && g.keep(b.mid(ord)) {
				ords = append(ords, ord)
			}
		}
	}
	for _, one := range g.of {
		one.gather(b, ords)
	}
}

// gather adds devices of a block, by ordinals that ascend.
func (g *gathered) gather(b *block, ords []uint32) {
	c := b.columns[g.key.Name()]
	switch g.key.Name() {
	case registry.KeyRetired:
		b.gatherRetired(g, c, ords)
		return
	case registry.KeyConnection:
		named := ords
		if c != nil {
			has := c.test()
			named = slices.DeleteFunc(slices.Clone(ords), has)
		}
		g.gatherColumn(b, b.columns[registry.KeyName], named)
	}
	g.gatherColumn(b, c, ords)
}

func (g *gathered) gatherColumn(b *block, c *column, ords []uint32) {
	if c == nil {
		return
	}
	gatherRun(b, g, c.texts, ords, registry.Text)
	gatherRun(b, g, c.numbers, ords, registry.Number)
	gatherRun(b, g, c.bools, ords, func(n float64) registry.Value { return registry.Bool(n == 1) })
}

// gatherRetired adds devices by whether they are retired: those that are not have no entry.
func (b *block) gatherRetired(g *gathered, c *column, ords []uint32) {
	var retired []uint32
	if c != nil {
		retired = c.bools.devices(c.bools.at(1))
	}
	for _, ord := range ords {
		_, is := slices.BinarySearch(retired, ord)
		g.put(b.mid(ord), g.number(registry.Bool(is)))
	}
}

// gatherRun adds those of some devices, by ordinals that ascend, that have values in a run.
func gatherRun[T cmp.Ordered](
	b *block, g *gathered, r *run[T], ords []uint32, value func(T) registry.Value,
) {
	if r == nil {
		return
	}
	known := make([]uint32, len(r.values)) // numbers, 0 if not known
	put := func(i, ord uint32) {
		if known[i] == 0 {
			if v, has := g.key.Cut(value(r.values[i])); has {
				known[i] = g.number(v)
			}
		}
		g.put(b.mid(ord), known[i])
	}
	if r.byOrd != nil {
		for _, ord := range ords {
			if i := r.byOrd[ord]; i > 0 {
				put(i-1, ord)
			}
		}
		return
	}
	for i := range r.values {
		for _, ord := range r.ords[r.starts[i]:r.starts[i+1]] {
			if _, ok := slices.BinarySearch(ords, ord); ok {
				put(uint32(i), ord)
			}
		}
	}
}
