package devices

import (
	"math"
	"slices"
	"strings"

	"github.com/pentad-db/pentad/sdk/registry"
)

// filter is an expression as a block answers it: which devices it may find, and whether it does.
type filter struct {
	test func(ord uint32) bool // exact, of any device
	// lists have all devices that pass the test, some more than once, and others that do not pass
	// check; nil: all that are listed pass. Where all is set any device may pass, and lists say
	// nothing.
	lists []ordinals
	check func(ord uint32) bool
	count int // of devices in lists
	all   bool
	slow  bool  // the test computes, and is made after others
	set   union // of the devices that pass; nil: there are no such bitmaps
	// sets and rest are the same as check, where some of its tests have bitmaps; sets and others
	// are what is left of it for lists that pass.
	sets   []union
	rest   func(ord uint32) bool
	others func(ord uint32) bool // nil: no test
}

// union is what is in one of some bitmaps, which have a bit for each device.
type union [][]uint64

// restrict clears the bits of a bitmap, from a word on, of what is in none.
func (u union) restrict(words []uint64, from int) {
	if len(u) == 1 {
		set := u[0][from:][:len(words)]
		for i, word := range set {
			words[i] &= word
		}
		return
	}
	const atOnce = 64
	var memory [atOnce]uint64
	for len(words) > 0 {
		some := words[:min(len(words), atOnce)]
		all := memory[:len(some)]
		copy(all, u[0][from:])
		for _, set := range u[1:] {
			for i, word := range set[from:][:len(all)] {
				all[i] |= word
			}
		}
		for i, word := range all {
			some[i] &= word
		}
		words, from = words[len(some):], from+len(some)
	}
}

// without clears the bits of a bitmap that another has.
func without(words, other []uint64) {
	for i, word := range other[:len(words)] {
		words[i] &^= word
	}
}

// list adds devices to the lists of a filter, a range to the one before if that ends there.
func (f *filter) list(some ordinals) {
	n := some.len()
	if n == 0 {
		return
	}
	f.count += n
	if k := len(f.lists) - 1; k >= 0 && some.some == nil && f.lists[k].some == nil &&
		f.lists[k].to == some.from && f.lists[k].passes == some.passes {
		f.lists[k].to = some.to
		return
	}
	f.lists = append(f.lists, some)
}

// forAnother returns the lists for a filter that has this one's test as its check, or as a part.
func (f *filter) forAnother() []ordinals {
	if f.others != nil { // passing is not all
		for i := range f.lists {
			f.lists[i].passes = false
		}
	}
	return f.lists
}

// none returns a filter that no device passes.
func none() filter { return filter{test: func(uint32) bool { return false }} }

func (b *block) compile(x registry.Expr) filter {
	switch x := x.(type) {
	case registry.And:
		return b.and(x)
	case registry.Or:
		return b.or(x)
	case registry.Not:
		f := b.compile(x.Expr)
		test := f.test
		return filter{all: true, slow: f.slow, test: func(ord uint32) bool { return !test(ord) }}
	case registry.In:
		f := b.in(x)
		if x.Key == registry.KeyConnection {
			x.Key = registry.KeyName
			return b.orNamed(f, b.in(x))
		}
		return f
	case registry.Prefix:
		f := b.prefix(x)
		if x.Key == registry.KeyConnection {
			x.Key = registry.KeyName
			return b.orNamed(f, b.prefix(x))
		}
		return f
	case registry.Between:
		return b.between(x) // of numbers, and names are texts
	case registry.Within:
		return b.places.filter(x.Has, rectsWithin(x), true)
	case registry.Near:
		return b.places.filter(x.Has, rectsNear(x), false)
	}
	panic("BUG: an expression that the index does not know")
}

// orNamed is a filter of devices by their connection, or where they have none by their name.
func (b *block) orNamed(connected, named filter) filter {
	if b.columns[registry.KeyConnection] == nil {
		return named
	}
	has, test := b.columns[registry.KeyConnection].test(), named.test
	named.test = func(ord uint32) bool { return test(ord) && !has(ord) }
	named.check = named.test
	return joined([]filter{connected, named})
}

// test returns a test of whether a device has a value.
func (c *column) test() func(ord uint32) bool {
	var tests []func(uint32) bool
	if c.texts != nil {
		tests = append(tests, c.texts.test())
	}
	if c.numbers != nil {
		tests = append(tests, c.numbers.test())
	}
	if c.bools != nil {
		tests = append(tests, c.bools.test())
	}
	return func(ord uint32) bool {
		return slices.ContainsFunc(tests, func(has func(uint32) bool) bool { return has(ord) })
	}
}

func (r *run[T]) test() func(ord uint32) bool {
	return r.filter([]span{{0, uint32(len(r.values))}}).test
}

// and lists what the rarest of its expressions lists.
func (b *block) and(x registry.And) filter {
	filters := make([]filter, len(x))
	for i, one := range x {
		filters[i] = b.compile(one)
	}
	slices.SortStableFunc(filters, func(f, g filter) int { return b.most(f) - b.most(g) })
	out := filters[0]
	out.lists = out.forAnother()
	checks := slices.Clone(filters)
	if out.check == nil {
		checks = checks[1:]
	}
	slices.SortStableFunc(checks, func(f, g filter) int { return f.order() - g.order() })
	out.test, out.check = allOf(filters), allOf(checks)
	out.set, out.sets = nil, nil
	for _, f := range checks {
		if f.set != nil {
			out.sets = append(out.sets, f.set)
		}
	}
	hasSet := func(f filter) bool { return f.set != nil }
	out.rest = allOf(slices.DeleteFunc(slices.Clone(checks), hasSet))
	out.others = allOf(slices.DeleteFunc(slices.Clone(filters[1:]), hasSet))
	return out
}

func (f filter) order() int {
	if f.slow {
		return 1
	}
	return 0
}

func allOf(filters []filter) func(ord uint32) bool {
	if len(filters) == 1 {
		return filters[0].test
	}
	return func(ord uint32) bool {
		for i := range filters {
			if !filters[i].test(ord) {
				return false
			}
		}
		return true
	}
}

// most is how many devices a filter can find at most.
func (b *block) most(f filter) int {
	if f.all {
		return len(b.mids)
	}
	return f.count
}

func (b *block) or(x registry.Or) filter {
	filters := make([]filter, len(x))
	for i, one := range x {
		filters[i] = b.compile(one)
	}
	out := joined(filters)
	out.all = out.all || out.count > len(b.mids)
	return out
}

// joined is a filter of what passes one of some filters.
func joined(filters []filter) filter {
	if len(filters) == 1 {
		return filters[0]
	}
	var out filter
	out.test = func(ord uint32) bool {
		return slices.ContainsFunc(filters, func(f filter) bool { return f.test(ord) })
	}
	for _, f := range filters {
		out.lists = append(out.lists, f.forAnother()...)
		out.count += f.count
		out.all, out.slow = out.all || f.all, out.slow || f.slow
		if f.check != nil {
			out.check = out.test
		}
	}
	return out
}

func (b *block) in(x registry.In) filter {
	if x.Key == registry.KeyRetired {
		return b.retired(x)
	}
	c := b.columns[x.Key]
	if c == nil {
		return none()
	}
	var texts, numbers, bools []span
	for _, l := range x.Values {
		for _, v := range l.Meanings() {
			switch {
			case v.Kind() == registry.KindText && c.texts != nil:
				texts = append(texts, c.texts.at(v.Text()))
			case v.Kind() == registry.KindNumber && c.numbers != nil:
				numbers = append(numbers, c.numbers.at(v.Number()))
			case v.Kind() == registry.KindBool && c.bools != nil:
				bools = append(bools, c.bools.at(v.Number()))
			}
		}
	}
	var filters []filter
	if len(texts) > 0 {
		filters = append(filters, c.texts.filter(texts))
	}
	if len(numbers) > 0 {
		filters = append(filters, c.numbers.filter(numbers))
	}
	if len(bools) > 0 {
		filters = append(filters, c.bools.filter(bools))
	}
	if len(filters) == 0 {
		return none()
	}
	return joined(filters)
}

// retired is in of what all devices have: those that are not retired have no entry.
func (b *block) retired(x registry.In) filter {
	has := func(is bool) bool {
		return slices.ContainsFunc(x.Values, func(l registry.Literal) bool {
			return l.Means(registry.Bool(is))
		})
	}
	retired := none()
	if c := b.columns[x.Key]; c != nil {
		retired = c.bools.filter([]span{c.bools.at(1)})
	}
	test := retired.test
	switch {
	case has(true) && has(false):
		return filter{all: true, test: func(uint32) bool { return true }}
	case has(true):
		return retired
	case has(false):
		return filter{all: true, test: func(ord uint32) bool { return !test(ord) }}
	}
	return none()
}

func (b *block) prefix(x registry.Prefix) filter {
	c := b.columns[x.Key]
	if c == nil || c.texts == nil {
		return none()
	}
	spans := []span{c.texts.between(
		func(v string) bool { return v < x.Text },
		func(v string) bool { return !strings.HasPrefix(v, x.Text) })}
	if whole, ok := strings.CutSuffix(x.Text, "/"); ok && x.Key == registry.KeyGroup {
		spans = append(spans, c.texts.at(whole))
	}
	return c.texts.filter(spans)
}

func (b *block) between(x registry.Between) filter {
	c := b.columns[x.Key]
	if c == nil || c.numbers == nil {
		return none()
	}
	low := registry.Between{Low: x.Low, High: registry.Limit{Number: math.Inf(1)}}
	return c.numbers.filter([]span{c.numbers.between(
		func(n float64) bool { return !low.Has(n) },
		func(n float64) bool { return !x.Has(n) })})
}

// moveRun adds the living devices of a run to a builder.
func moveRun[T string | float64](b *block, r *run[T], came []uint32, to *runBuilder[T]) {
	if r == nil {
		return
	}
	for i, v := range r.values {
		for _, ord := range r.devices(span{uint32(i), uint32(i + 1)}) {
			if b.lives(ord) {
				to.add(v, came[ord])
			}
		}
	}
}
