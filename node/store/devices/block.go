package devices

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sync"
	"unsafe"

	"github.com/pentad-db/pentad/sdk/registry"
)

// block has the descriptions of some devices in columns. All of it but which are dead is immutable.
type block struct {
	mids []int64 // ascending
	// Devices with places have the first ordinals, in the order of places, so that those of a
	// region are some ranges of ordinals.
	ords  []uint32 // by the index of the mid
	byOrd []uint32 // indexes of mids

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
	if ord, ok := b.ordinal(mid); ok && b.lives(ord) {
		b.isDead[ord>>6] |= 1 << (ord & 63)
		b.dead++
	}
}

// ordinal returns the ordinal of a device.
func (b *block) ordinal(mid int64) (ord uint32, ok bool) {
	i, ok := slices.BinarySearch(b.mids, mid)
	if !ok {
		return 0, false
	}
	return b.ords[i], true
}

// mid returns the mid of an ordinal.
func (b *block) mid(ord uint32) int64 { return b.mids[b.byOrd[ord]] }

// appendMIDs appends the mids of ordinals, ascending and each once.
func (b *block) appendMIDs(ords []uint32, dst []int64) []int64 {
	memory := bitmaps.Get().(*[]uint64)
	defer bitmaps.Put(memory)
	words := len(b.isDead)
	*memory = slices.Grow((*memory)[:0], words+(words+63)/64)
	set := (*memory)[:words+(words+63)/64]
	clear(set)
	set, used := set[:words], set[words:] // used has a bit for each word of set that is not 0
	for _, ord := range ords {
		i := b.byOrd[ord]
		set[i>>6] |= 1 << (i & 63)
		used[i>>12] |= 1 << (i >> 6 & 63)
	}
	dst = slices.Grow(dst, len(ords))
	for at, some := range used {
		for ; some != 0; some &= some - 1 {
			word := at<<6 + bits.TrailingZeros64(some)
			for rest := set[word]; rest != 0; rest &= rest - 1 {
				dst = append(dst, b.mids[word<<6+bits.TrailingZeros64(rest)])
			}
		}
	}
	return dst
}

func (b *block) lives(ord uint32) bool { return b.isDead[ord>>6]>>(ord&63)&1 == 0 }

func (b *block) living() int { return len(b.mids) - b.dead }

// find appends the ordinals that an expression finds, some more than once, in any order.
func (b *block) find(x registry.Expr, dst []uint32) []uint32 {
	f := b.compile(x)
	if f.all {
		for ord := range uint32(len(b.mids)) {
			if b.lives(ord) && f.test(ord) {
				dst = append(dst, ord)
			}
		}
		return dst
	}
	var both []uint64 // of all sets of the filter
	if len(f.sets) > 0 && f.count >= len(b.isDead) {
		memory := bitmaps.Get().(*[]uint64)
		defer bitmaps.Put(memory)
		*memory = slices.Grow((*memory)[:0], len(b.isDead))
		both = *memory
	}
	for _, list := range f.lists {
		switch {
		case list.some == nil:
			dst = b.findInRange(&f, list, dst)
		case cap(both) > 0:
			if len(both) == 0 {
				both = b.intersect(f.sets, both)
			}
			dst = b.findInSet(&f, list.some, both, dst)
		default:
			for _, ord := range list.some {
				if b.lives(ord) && (f.check == nil || f.check(ord)) {
					dst = append(dst, ord)
				}
			}
		}
	}
	return dst
}

// findInRange is find of a range of ordinals, of which many are looked at in each set at once.
func (b *block) findInRange(f *filter, list ordinals, dst []uint32) []uint32 {
	rest := f.others
	if !list.passes {
		rest = f.rest
		if rest == nil {
			rest = f.check
		}
	}
	var memory [64]uint64
	for word, end := list.from>>6, (list.to+63)>>6; word < end; {
		words := memory[:min(end-word, uint32(len(memory)))]
		for i := range words {
			words[i] = ^uint64(0)
		}
		if word == list.from>>6 {
			words[0] <<= list.from & 63
		}
		if last := len(words) - 1; word+uint32(len(words)) == end {
			words[last] &= ^uint64(0) >> (-list.to & 63)
		}
		if b.dead > 0 {
			without(words, b.isDead[word:])
		}
		for _, set := range f.sets {
			set.restrict(words, int(word))
		}
		for i, bitmap := range words {
			for ; bitmap != 0; bitmap &= bitmap - 1 {
				ord := (word+uint32(i))<<6 + uint32(bits.TrailingZeros64(bitmap))
				if rest == nil || rest(ord) {
					dst = append(dst, ord)
				}
			}
		}
		word += uint32(len(words))
	}
	return dst
}

// bitmaps keep their memory.
var bitmaps = sync.Pool{New: func() any { return new([]uint64) }}

// intersect appends the bitmap of the living devices that are in all of some sets.
func (b *block) intersect(sets []union, dst []uint64) []uint64 {
	for _, dead := range b.isDead {
		dst = append(dst, ^dead)
	}
	for _, set := range sets {
		set.restrict(dst, 0)
	}
	return dst
}

// findInSet is find where enough devices are listed that it pays to intersect all sets of the
// filter first.
func (b *block) findInSet(f *filter, list []uint32, set []uint64, dst []uint32) []uint32 {
	for _, ord := range list {
		if set[ord>>6]>>(ord&63)&1 == 1 && f.rest(ord) {
			dst = append(dst, ord)
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
	out := &block{mids: make([]int64, n), ords: make([]uint32, n), byOrd: make([]uint32, n),
		columns: make(map[string]*column, len(b.columns)), isDead: make([]uint64, (n+63)/64)}
	order, byMID := placeOrder(b.lats, b.lons), make([]uint32, n)
	ords := make([]uint32, n) // by the order in which devices came
	for ord, came := range order {
		ords[came], byMID[ord] = uint32(ord), uint32(ord)
	}
	slices.SortFunc(byMID, func(i, k uint32) int { return cmp.Compare(b.mids[i], b.mids[k]) })
	for i, came := range byMID {
		out.mids[i], out.ords[i], out.byOrd[ords[came]] = b.mids[came], ords[came], uint32(i)
	}
	out.places = newPlaces(b.lats, b.lons, order)
	b.lats, b.lons = nil, nil
	out.bytes = int64(unsafe.Sizeof(*out)) + int64(16*n+8*len(out.isDead)) + out.places.bytes()
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
		for ord := range came {
			if b.lives(uint32(ord)) {
				lat, lon := b.places.of(uint32(ord))
				came[ord] = to.addDevice(b.mid(uint32(ord)), lat, lon)
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
