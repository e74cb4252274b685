package partials

import (
	"slices"
	"unsafe"
)

// Saved is a state in a table of states of different sizes. It is not to be changed.
type Saved struct {
	State []byte
	Rows  uint32 // that it covers

	number uint32 // of its entry + 1; 0: it is not in the table
	age    uint32 // how many entries the table had replaced when it was found or put
}

// FindSaved returns the state of a partial in a table of states of different sizes, if there is
// one.
func (t *Table) FindSaved(p *Partial) (s Saved, found bool) {
	i := t.lookup(p)
	if i < 0 {
		t.misses++
		return s, false
	}
	t.hits++
	return Saved{t.saved[i], t.entries[i].rows, uint32(i + 1), t.unions.age}, true
}

// PutSaved is Put in a table of states of different sizes. It notes in s where the state is.
func (t *Table) PutSaved(p *Partial, s *Saved) {
	if t.lookup(p) >= 0 || !t.reserve(int64(len(s.State))) {
		return
	}
	at, ok := t.enter(p, s.Rows)
	if !ok {
		t.release(int64(len(s.State)))
		return
	}
	if before := t.saved[at]; len(before) > 0 {
		t.release(int64(len(before)))
	}
	t.saved[at] = s.State
	s.number, s.age = uint32(at+1), t.unions.age
}

// Set is a set of saved states of one table. The zero value has none.
type Set struct {
	bits  []uint64 // of the numbers of their entries
	age   uint32   // of all of them
	mixed bool     // there are some of other ages, or some that are not in the table
}

// Reset returns an empty set with the memory of s.
func (s *Set) Reset() Set { return Set{bits: s.bits[:0]} }

// Add adds a state.
func (s *Set) Add(x *Saved) {
	word := int(x.number / 64)
	if len(s.bits) == 0 {
		s.age = x.age
	}
	s.mixed = s.mixed || x.number == 0 || x.age != s.age
	for len(s.bits) <= word {
		s.bits = append(s.bits, 0)
	}
	s.bits[word] |= 1 << (x.number % 64)
}

// AddAll adds the states of another set.
func (s *Set) AddAll(o *Set) {
	if len(o.bits) == 0 {
		return
	}
	if len(s.bits) == 0 {
		s.age = o.age
	}
	s.mixed = s.mixed || o.mixed || o.age != s.age
	for len(s.bits) < len(o.bits) {
		s.bits = append(s.bits, 0)
	}
	for i, word := range o.bits {
		s.bits[i] |= word
	}
}

// Cached reports whether all states of the set were in the table, under the same numbers: without
// that there is no union of them.
func (s *Set) Cached() bool { return !s.mixed }

// unions are states of several partials together.
type unions struct {
	age    uint32 // how many entries of the table were replaced: numbers mean others since then
	list   []union
	oldest int // index into list, once there are maxVariants
}

type union struct {
	bits  []uint64
	state []byte // nil: there is none, and there shall be none
}

func (u *union) bytes() int64 {
	return int64(unsafe.Sizeof(*u)) + int64(8*len(u.bits)+len(u.state))
}

// dropUnions forgets all unions, as an entry gets another partial.
func (t *Table) dropUnions() {
	for i := range t.unions.list {
		t.release(t.unions.list[i].bytes())
	}
	t.unions = unions{age: t.unions.age + 1}
}

// FindUnion returns the state that was put for all of these states together. It is not to be
// changed.
func (t *Table) FindUnion(of *Set) (state []byte, found bool) {
	if of.mixed || of.age != t.unions.age {
		return nil, false
	}
	for i := range t.unions.list {
		if slices.Equal(t.unions.list[i].bits, of.bits) {
			return t.unions.list[i].state, true
		}
	}
	return nil, false
}

// PutUnion stores the state of several states together, in place of an older one of others if there
// are many, and if memory allows. State nil notes that it is not worth storing.
func (t *Table) PutUnion(of *Set, state []byte) {
	if _, found := t.FindUnion(of); found || of.mixed || of.age != t.unions.age {
		return
	}
	u, all := union{slices.Clone(of.bits), state}, &t.unions
	if !t.reserve(u.bytes()) {
		return
	}
	if len(all.list) < maxVariants {
		all.list = append(all.list, u)
		return
	}
	t.release(all.list[all.oldest].bytes())
	all.list[all.oldest] = u
	all.oldest = (all.oldest + 1) % maxVariants
}
