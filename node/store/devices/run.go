package devices

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"unsafe"
)

// sparse: a run of fewer devices than one of this many of its block has no list by device.
const sparse = 8

// run has the values of one kind that devices have for one key.
type run[T cmp.Ordered] struct {
	values []T // ascending
	// Devices with values[i] are ords[starts[i]:starts[i+1]], ascending.
	starts, ords []uint32
	byOrd        []uint32 // of each device the index of its value and 1, 0 for none; nil if sparse
	// sets has bitmaps of the devices of values that many have, by index: some 100,000 look-ups at
	// random meet the caches there, and not in byOrd.
	sets map[uint32][]uint64
}

// frequent: a value of more devices than one of this many has a bitmap, smaller than its list.
const frequent = 32

// span is some neighbouring values of a run, by index.
type span struct{ from, to uint32 }

// at returns the span of a value, empty if no device has it.
func (r *run[T]) at(v T) span {
	i, ok := slices.BinarySearch(r.values, v)
	if !ok {
		return span{}
	}
	return span{uint32(i), uint32(i + 1)}
}

// between returns the span of the values from the first that is not below on, up to the first that
// is above. The values for which these hold are at the beginning and at the end.
func (r *run[T]) between(below, above func(T) bool) span {
	from := sort.Search(len(r.values), func(i int) bool { return !below(r.values[i]) })
	to := from + sort.Search(len(r.values)-from, func(i int) bool {
		return above(r.values[from+i])
	})
	return span{uint32(from), uint32(to)}
}

// devices returns those that have the values of a span.
func (r *run[T]) devices(s span) []uint32 {
	if s.from >= s.to {
		return nil
	}
	return r.ords[r.starts[s.from]:r.starts[s.to]]
}

// filter returns a filter of the devices that have values of some spans: those that overlap are
// equal.
func (r *run[T]) filter(spans []span) filter {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	spans = slices.Compact(spans)
	var f filter
	spans = slices.DeleteFunc(spans, func(s span) bool { return s.from >= s.to })
	for _, s := range spans {
		f.list(ordinals{some: r.devices(s)})
	}
	f.set = r.setOf(spans)
	switch {
	case len(f.set) == 1:
		set := f.set[0]
		f.test = func(ord uint32) bool { return set[ord>>6]>>(ord&63)&1 == 1 }
	case r.byOrd == nil:
		f.test = testOf(f.lists)
	case len(spans) == 1:
		one := spans[0]
		f.test = func(ord uint32) bool { return one.from < r.byOrd[ord] && r.byOrd[ord] <= one.to }
	default:
		f.test = func(ord uint32) bool {
			i := r.byOrd[ord]
			at := sort.Search(len(spans), func(k int) bool { return i <= spans[k].to })
			return at < len(spans) && spans[at].from < i
		}
	}
	return f
}

// setOf returns the bitmaps of the values of some spans, nil unless all have one.
func (r *run[T]) setOf(spans []span) (sets union) {
	for _, s := range spans {
		for value := s.from; value < s.to; value++ {
			set := r.sets[value]
			if set == nil {
				return nil
			}
			sets = append(sets, set)
		}
	}
	return sets
}

// testOf returns a test of whether a device is in one of some lists. It makes a set at its first
// call.
func testOf(lists []ordinals) func(ord uint32) bool {
	var set []uint64 // of bits
	return func(ord uint32) bool {
		if set == nil {
			most := uint32(0)
			for _, list := range lists {
				for ord := range list.each() {
					most = max(most, ord)
				}
			}
			set = make([]uint64, most/64+1)
			for _, list := range lists {
				for one := range list.each() {
					set[one/64] |= 1 << (one % 64)
				}
			}
		}
		return int(ord/64) < len(set) && set[ord/64]>>(ord%64)&1 == 1
	}
}

func (r *run[T]) bytes() int64 {
	var v T
	n := cap(r.values)*int(unsafe.Sizeof(v)) + 4*(cap(r.starts)+cap(r.ords)+cap(r.byOrd))
	for _, set := range r.sets {
		n += 8 * cap(set)
	}
	for _, v := range r.values {
		if text, ok := any(v).(string); ok {
			n += len(text)
		}
	}
	return int64(n)
}

// runBuilder gathers what is to be a run.
type runBuilder[T cmp.Ordered] struct {
	codes  map[T]uint32 // of values; nil if most values came once
	values []T          // by code, in the order in which they came
	pairs  []pair
}

// manyValues are enough to see that most devices have values of their own: these are not looked up.
const manyValues = 1 << 12

// pair is a device, by the order in which it came, and the code of its value.
type pair struct{ code, came uint32 }

func (b *runBuilder[T]) add(v T, came uint32) {
	code, known := uint32(len(b.values)), false
	switch {
	case len(b.pairs) == 0:
		b.codes = map[T]uint32{}
	case len(b.values) > manyValues && len(b.values) > len(b.pairs)/2:
		b.codes = nil
	}
	if b.codes != nil {
		if found, ok := b.codes[v]; ok {
			code, known = found, true
		} else {
			b.codes[v] = code
		}
	}
	if !known {
		b.values = append(b.values, v)
	}
	b.pairs = append(b.pairs, pair{code, came})
}

// finish makes the run; ords has the ordinal of each device by the order in which it came.
func (b *runBuilder[T]) finish(ords []uint32) *run[T] {
	if len(b.pairs) == 0 {
		return nil
	}
	byValue := make([]uint32, len(b.values)) // codes
	for i := range byValue {
		byValue[i] = uint32(i)
	}
	slices.SortFunc(byValue, func(i, k uint32) int { return cmp.Compare(b.values[i], b.values[k]) })
	r := &run[T]{values: make([]T, 0, len(b.values)), ords: make([]uint32, len(b.pairs))}
	indexes := make([]uint32, len(b.values)) // of codes
	for _, code := range byValue {
		if n, v := len(r.values), b.values[code]; n == 0 || r.values[n-1] != v {
			r.values = append(r.values, v)
		}
		indexes[code] = uint32(len(r.values) - 1)
	}
	compact(r.values)
	r.starts = make([]uint32, len(r.values)+1)
	for _, p := range b.pairs {
		r.starts[indexes[p.code]+1]++
	}
	for i := range r.values {
		r.starts[i+1] += r.starts[i]
	}
	next := slices.Clone(r.starts)
	if len(b.pairs) >= len(ords)/sparse {
		r.byOrd = make([]uint32, len(ords))
	}
	for _, p := range b.pairs {
		i, ord := indexes[p.code], ords[p.came]
		r.ords[next[i]] = ord
		next[i]++
		if r.byOrd != nil {
			r.byOrd[ord] = i + 1
		}
	}
	for i := range r.values {
		list := r.ords[r.starts[i]:r.starts[i+1]]
		if !slices.IsSorted(list) {
			slices.Sort(list)
		}
		if len(list) > len(ords)/frequent && len(ords) > frequent {
			r.keepSet(uint32(i), list, len(ords))
		}
	}
	return r
}

// keepSet makes the bitmap of a value of some of all devices.
func (r *run[T]) keepSet(value uint32, list []uint32, devices int) {
	set := make([]uint64, (devices+63)/64)
	for _, ord := range list {
		set[ord>>6] |= 1 << (ord & 63)
	}
	if r.sets == nil {
		r.sets = map[uint32][]uint64{}
	}
	r.sets[value] = set
}

// compact moves texts into one, so that they keep nothing else in memory and have no space between
// them.
func compact[T cmp.Ordered](values []T) {
	texts, ok := any(values).([]string)
	if !ok {
		return
	}
	var all strings.Builder
	size := 0
	for _, text := range texts {
		size += len(text)
	}
	all.Grow(size)
	for _, text := range texts {
		all.WriteString(text)
	}
	rest := all.String()
	for i, text := range texts {
		texts[i], rest = rest[:len(text)], rest[len(text):]
	}
}
