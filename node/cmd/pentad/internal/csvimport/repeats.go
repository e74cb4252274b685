package csvimport

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"sort"

	"github.com/pentad-db/pentad/sdk/record"
)

// Bounds of what is remembered of the keys of an import.
const (
	firstKeySlots = 1 << 10
	// maxKeySlots are 64 MiB, of which three quarters are filled: 3.1 million keys.
	maxKeySlots = 1 << 22
	// maxKeySpans are about 30 MB.
	maxKeySpans = 1 << 18
)

// Repeats are lines with a key (cid, mid, moid, cap) that an earlier line of the import has, too:
// they are stored as newer versions.
type Repeats struct {
	Lines int64
	Equal int64 // of these, lines that say the same as the earlier ones
	// AtLeast says that some lines could not be compared with all earlier ones: there were more
	// keys than are remembered, and the times of a series go back and forth.
	AtLeast bool
	First   *Repeat
}

// Repeat is one line that repeats a key. Both lines are one if two of its values have one key.
type Repeat struct {
	File        string
	Line        int64
	EarlierFile string
	EarlierLine int64
}

// keySlot is a key that was seen: its hash, not 0, and its newest version. Two keys of some
// millions have one hash once in a million imports.
type keySlot struct {
	hash uint64
	lineVersion
}

// lineVersion says what a line has of a key.
type lineVersion struct {
	line    uint32 // of all files together, from 1
	payload uint32 // hash
}

type seriesKey struct {
	cid, moid int32
	mid       int64
}

// keySpan is the least and the greatest time of a series: what is beyond them is new.
type keySpan struct {
	least, most     int64
	leastAt, mostAt lineVersion
}

// repeatFinder finds lines that repeat a key. It remembers all keys until its memory is full. From
// then on it still knows what is new in a series whose times ascend or descend.
type repeatFinder struct {
	found      Repeats
	seed       maphash.Seed
	slots      []keySlot // open addressing; the length is a power of two
	used       int
	full       bool
	spans      map[seriesKey]*keySpan
	spansFull  bool
	series     seriesKey // of the last record, and its span
	span       *keySpan
	maxSlots   int
	maxSpans   int
	files      []fileStart
	last, base int64 // lines of all files so far, and before the present one
	buf        [24]byte
}

// fileStart is a file and the number of lines before it.
type fileStart struct {
	name string
	base int64
}

func newRepeatFinder() *repeatFinder {
	return &repeatFinder{seed: maphash.MakeSeed(), slots: make([]keySlot, firstKeySlots),
		spans: map[seriesKey]*keySpan{}, maxSlots: maxKeySlots, maxSpans: maxKeySpans}
}

// begin takes the next file.
func (r *repeatFinder) begin(name string) {
	r.base = r.last
	r.files = append(r.files, fileStart{name, r.base})
}

// add takes the records of a line, given its number in the file.
func (r *repeatFinder) add(number int64, p *plan) {
	r.last = r.base + number
	if r.last > math.MaxUint32 {
		r.found.AtLeast = true
		return
	}
	repeats, equal := 0, 0
	from := 0
	for i := range p.keys {
		v := lineVersion{line: uint32(r.last)}
		if !p.tomb {
			v.payload = uint32(maphash.Bytes(r.seed, p.payloads[from:p.ends[i]])) | 1
			from = p.ends[i]
		}
		earlier, repeated := r.addKey(&p.keys[i], v)
		if !repeated {
			continue
		}
		if repeats++; earlier.payload == v.payload {
			equal++
		}
		if r.found.First == nil {
			r.found.First = r.example(v, earlier)
		}
	}
	if repeats > 0 {
		r.found.Lines++
	}
	if repeats > 0 && equal == len(p.keys) {
		r.found.Equal++
	}
}

// addKey remembers a version of a key and returns the earlier one, if there is one.
func (r *repeatFinder) addKey(k *record.Key, v lineVersion) (earlier lineVersion, repeated bool) {
	hash := r.hash(k)
	mask := uint64(len(r.slots) - 1)
	at := hash & mask
	for r.slots[at].hash != 0 && r.slots[at].hash != hash {
		at = (at + 1) & mask
	}
	slot := &r.slots[at]
	known := slot.hash == hash
	if known {
		earlier = slot.lineVersion
	}
	if known || !r.full {
		*slot = keySlot{hash, v}
	}
	end, certain := r.extend(k, v)
	switch {
	case known:
		return earlier, true
	case r.full && end != nil:
		return *end, true
	case r.full && !certain:
		r.found.AtLeast = true
	case !r.full:
		r.grow()
	}
	return earlier, false
}

// hash is that of a key without its acq.
func (r *repeatFinder) hash(k *record.Key) uint64 {
	binary.LittleEndian.PutUint32(r.buf[0:], uint32(k.CID))
	binary.LittleEndian.PutUint32(r.buf[4:], uint32(k.MOID))
	binary.LittleEndian.PutUint64(r.buf[8:], uint64(k.MID))
	binary.LittleEndian.PutUint64(r.buf[16:], uint64(k.CapNs))
	return max(maphash.Bytes(r.seed, r.buf[:]), 1)
}

// grow counts a new key and makes room for the next.
func (r *repeatFinder) grow() {
	if r.used++; r.used < len(r.slots)/4*3 {
		return
	}
	if len(r.slots) >= r.maxSlots {
		r.full = true
		return
	}
	old := r.slots
	r.slots = make([]keySlot, 2*len(old))
	mask := uint64(len(r.slots) - 1)
	for _, slot := range old {
		if slot.hash == 0 {
			continue
		}
		at := slot.hash & mask
		for r.slots[at].hash != 0 {
			at = (at + 1) & mask
		}
		r.slots[at] = slot
	}
}

// extend adds a version to the span of its series. It returns the earlier version at an end of the
// span, or whether the time is beyond the span and so certainly new.
func (r *repeatFinder) extend(k *record.Key, v lineVersion) (end *lineVersion, certain bool) {
	key := seriesKey{k.CID, k.MOID, k.MID}
	if r.span == nil || key != r.series {
		r.series, r.span = key, r.spans[key]
	}
	s := r.span
	switch {
	case s == nil && r.spansFull:
		return nil, false // an earlier record may be of this series
	case s == nil && len(r.spans) >= r.maxSpans:
		r.spansFull = true
		return nil, true
	case s == nil:
		r.span = &keySpan{k.CapNs, k.CapNs, v, v}
		r.spans[key] = r.span
		return nil, true
	case k.CapNs > s.most:
		s.most, s.mostAt = k.CapNs, v
		return nil, true
	case k.CapNs < s.least:
		s.least, s.leastAt = k.CapNs, v
		return nil, true
	case k.CapNs == s.most:
		earlier := s.mostAt
		s.mostAt = v
		if s.least == s.most {
			s.leastAt = v
		}
		return &earlier, false
	case k.CapNs == s.least:
		earlier := s.leastAt
		s.leastAt = v
		return &earlier, false
	}
	return nil, false
}

// example names the lines of two versions.
func (r *repeatFinder) example(later, earlier lineVersion) *Repeat {
	file, line := r.place(later)
	earlierFile, earlierLine := r.place(earlier)
	return &Repeat{file, line, earlierFile, earlierLine}
}

// place is the file of a version and its line there.
func (r *repeatFinder) place(v lineVersion) (file string, line int64) {
	after := sort.Search(len(r.files), func(i int) bool { return r.files[i].base >= int64(v.line) })
	f := r.files[after-1]
	return f.name, int64(v.line) - f.base
}
