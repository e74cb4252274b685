package sealed

import "encoding/binary"

// seriesID names a series in a sum.
type seriesID struct {
	mid       int64
	cid, moid int32
}

// chainID names a chain of a series.
type chainID struct {
	seriesID
	id  uint64
	key uint32
}

// chain is which records of a chain are in a sum: runs in the order in which they came. It names
// them by numbers, as Go's collector is paid in fuel and looks at each pointer.
type chain struct {
	id          chainID
	first, last int32 // in the runs of the sum
	n           int32
	next        int32 // in the list of its slot, from 1
	unsorted    bool
}

// maxSlots bounds the table of chains: there is no fuel to place more than some thousand again, so
// from then on lists grow.
const maxSlots = 4096

func (id *chainID) hash() uint64 {
	h := id.id ^ uint64(id.mid)*0x9e3779b97f4a7c15 ^ uint64(uint32(id.cid))<<32 ^
		uint64(uint32(id.moid))
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	return h ^ h>>31
}

// chain returns the number of a chain of the sum. It is a function of its own and small, and so are
// others here: a turn in a function of Go pays the fuel of all that is in it.
func (s *Sum) chain(id *chainID) int {
	if s.last >= len(s.chains) || s.chains[s.last].id != *id {
		s.last = s.find(id)
	}
	return s.last
}

//go:noinline
func (s *Sum) find(id *chainID) int {
	if at := s.look(id); at > 0 {
		return int(at - 1)
	}
	if len(s.chains) == len(s.slots) && len(s.slots) < maxSlots {
		s.grow()
	}
	s.chains = append(s.chains, chain{id: *id})
	s.place(len(s.chains) - 1)
	return len(s.chains) - 1
}

//go:noinline
func (s *Sum) look(id *chainID) int32 {
	if len(s.slots) == 0 {
		return 0
	}
	at := s.slots[id.hash()&uint64(len(s.slots)-1)]
	for at > 0 && s.chains[at-1].id != *id {
		at = s.chains[at-1].next
	}
	return at
}

func (s *Sum) grow() {
	s.slots = make([]int32, max(4, 2*len(s.slots)))
	for i := range s.chains {
		s.place(i)
	}
}

func (s *Sum) place(i int) {
	c := &s.chains[i]
	slot := &s.slots[c.id.hash()&uint64(len(s.slots)-1)]
	c.next = *slot
	*slot = int32(i + 1)
}

// appendChains appends which records a sum is of; neighbouring chains of one series share its name.
func (s *Sum) appendChains(dst []byte) []byte {
	chains, series := s.chains, 0
	for i := range chains {
		if i == 0 || chains[i].id.seriesID != chains[i-1].id.seriesID {
			series++
		}
	}
	dst = binary.AppendUvarint(dst, uint64(series))
	for len(chains) > 0 {
		one, n := chains[0].id.seriesID, 1
		for n < len(chains) && chains[n].id.seriesID == one {
			n++
		}
		dst = binary.LittleEndian.AppendUint32(dst, uint32(one.cid))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(one.mid))
		dst = binary.LittleEndian.AppendUint32(dst, uint32(one.moid))
		dst = binary.AppendUvarint(dst, uint64(n))
		for i := range chains[:n] {
			dst = binary.LittleEndian.AppendUint64(dst, chains[i].id.id)
			dst = binary.LittleEndian.AppendUint32(dst, chains[i].id.key)
			dst = s.appendRuns(dst, &chains[i])
		}
		chains = chains[n:]
	}
	return dst
}
