package devices

import (
	"math"
	"slices"
	"sync"
	"unsafe"

	"github.com/pentad-db/pentad/sdk/registry"
)

// block has the descriptions of some devices in columns. All of it but which are dead is immutable.
type block struct {
	mids []int64 // ascending; the index of a device is its ordinal

	columns map[string]*column // by key
	places  places

	isDead []uint64 // a bit for each ordinal
	dead   int
	bytes  int64
}

// column has what devices have for one key; a run is nil if none has a value of its kind.
type column struct {
	texts   *run[string]
	numbers *run[float64]
	bools   *run[float64] // 0 and 1
}

// kill marks a device as described elsewhere, or not any more.
func (b *block) kill(mid int64) {
	if ord, ok := find(b.mids, mid); ok && b.lives(uint32(ord)) {
		b.isDead[ord>>6] |= 1 << (ord & 63)
		b.dead++
	}
}

func (b *block) lives(ord uint32) bool { return b.isDead[ord>>6]>>(ord&63)&1 == 0 }

func (b *block) living() int { return len(b.mids) - b.dead }

// find appends the devices that an expression finds, some more than once, in any order.
func (b *block) find(x registry.Expr, dst []int64) []int64 {
	f := b.compile(x)
	if f.all {
		for ord := range uint32(len(b.mids)) {
			if b.lives(ord) && f.test(ord) {
				dst = append(dst, b.mids[ord])
			}
		}
		return dst
	}
	if len(f.sets) > 0 && f.count >= len(b.isDead) {
		return b.findInAll(&f, dst)
	}
	for _, list := range f.lists {
		for _, ord := range list {
			if b.lives(ord) && (f.check == nil || f.check(ord)) {
				dst = append(dst, b.mids[ord])
			}
		}
	}
	return dst
}

// bitmaps keep their memory.
var bitmaps = sync.Pool{New: func() any { return new([]uint64) }}

// findInAll is find where so many devices are listed that it pays to intersect all sets of the
// filter first.
func (b *block) findInAll(f *filter, dst []int64) []int64 {
	memory := bitmaps.Get().(*[]uint64)
	defer bitmaps.Put(memory)
	all := append((*memory)[:0], f.sets[0]...)
	*memory = all
	for i, word := range b.isDead {
		all[i] &^= word
	}
	for _, set := range f.sets[1:] {
		for i, word := range set {
			all[i] &= word
		}
	}
	for _, list := range f.lists {
		for _, ord := range list {
			if all[ord>>6]>>(ord&63)&1 == 1 && f.rest(ord) {
				dst = append(dst, b.mids[ord])
			}
		}
	}
	return dst
}

// Builder gathers descriptions for [Index.Load].
type Builder struct {
	mids    []int64
	columns map[string]*columnBuilder
	lats    []float64 // of each device, NaN without a place
	lons    []float64
	size    int64 // about what it takes
}

type columnBuilder struct {
	texts   runBuilder[string]
	numbers runBuilder[float64]
	bools   runBuilder[float64]
}

// Add adds a device, which comes once. The builder keeps texts of the description.
func (b *Builder) Add(mid int64, d *registry.Description) {
	lat, lon := math.NaN(), math.NaN()
	if d.Place != nil {
		lat, lon = d.Place.Lat, d.Place.Lon
	}
	came := b.addDevice(mid, lat, lon)
	for _, key := range []string{registry.KeyName, registry.KeyType, registry.KeyGroup,
		registry.KeyAlt} {
		if v, ok := d.Value(key); ok {
			b.addValue(key, v, came)
		}
	}
	if d.Retired {
		b.addValue(registry.KeyRetired, registry.Bool(true), came)
	}
	for key, v := range d.Attributes {
		b.addValue(key, v, came)
	}
}

// Bytes returns about how much memory the builder takes.
func (b *Builder) Bytes() int64 { return b.size }

func (b *Builder) addDevice(mid int64, lat, lon float64) (came uint32) {
	b.mids = append(b.mids, mid)
	b.lats, b.lons = append(b.lats, lat), append(b.lons, lon)
	b.size += int64(3 * 8)
	return uint32(len(b.mids) - 1)
}

func (b *Builder) addValue(key string, v registry.Value, came uint32) {
	c := b.column(key)
	b.size += int64(unsafe.Sizeof(pair{}))
	switch v.Kind() {
	case registry.KindText:
		c.texts.add(v.Text(), came)
	case registry.KindNumber:
		c.numbers.add(v.Number(), came)
	case registry.KindBool:
		c.bools.add(v.Number(), came)
	}
}

func (b *Builder) column(key string) *columnBuilder {
	c := b.columns[key]
	if c == nil {
		if b.columns == nil {
			b.columns = map[string]*columnBuilder{}
		}
		c = &columnBuilder{}
		b.columns[key] = c
	}
	return c
}

// finish makes a block of all that was added.
func (b *Builder) finish() *block {
	n := len(b.mids)
	byMID := make([]uint32, n)
	for i := range byMID {
		byMID[i] = uint32(i)
	}
	slices.SortFunc(byMID, func(i, k uint32) int {
		if b.mids[i] < b.mids[k] {
			return -1
		}
		return 1
	})
	out := &block{mids: make([]int64, n), columns: make(map[string]*column, len(b.columns)),
		isDead: make([]uint64, (n+63)/64)}
	ords := make([]uint32, n)
	for ord, came := range byMID {
		out.mids[ord], ords[came] = b.mids[came], uint32(ord)
	}
	out.places = newPlaces(b.lats, b.lons, byMID)
	b.lats, b.lons = nil, nil
	out.bytes = int64(unsafe.Sizeof(*out)) + int64(8*n+8*len(out.isDead)) + out.places.bytes()
	for key, c := range b.columns {
		made := &column{c.texts.finish(ords), c.numbers.finish(ords), c.bools.finish(ords)}
		delete(b.columns, key)
		if *made == (column{}) {
			continue // of a merge: those that had a value are dead
		}
		out.columns[key] = made
		out.bytes += made.bytes() + int64(len(key))
	}
	return out
}

func (c *column) bytes() int64 {
	const overhead = 128 // of it, and of its place in a map
	n := int64(overhead)
	if c.texts != nil {
		n += c.texts.bytes()
	}
	if c.numbers != nil {
		n += c.numbers.bytes()
	}
	if c.bools != nil {
		n += c.bools.bytes()
	}
	return n
}

// mergeBlocks makes one block of some, without the dead.
func mergeBlocks(some []*block) *block {
	var to Builder
	for _, b := range some {
		came := make([]uint32, len(b.mids))
		for ord, mid := range b.mids {
			if b.lives(uint32(ord)) {
				lat, lon := b.places.of(uint32(ord))
				came[ord] = to.addDevice(mid, lat, lon)
			}
		}
		for key, c := range b.columns {
			moved := to.column(key)
			moveRun(b, c.texts, came, &moved.texts)
			moveRun(b, c.numbers, came, &moved.numbers)
			moveRun(b, c.bools, came, &moved.bools)
		}
	}
	return to.finish()
}
