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
	// maxKeyBytes hold 3 million keys, or up to 4 million in order.
	maxKeyBytes = 64 << 20
	keyBytes    = 16 // a keySlot, or a timeVersion
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

// timeVersion is a time of a series that was seen.
type timeVersion struct {
	capNs int64
	lineVersion
}

// keySpan is what is known of a series: the least and the greatest time, beyond which all is new,
// and the times that were the greatest when they came, ascending.
type keySpan struct {
	least, most     int64
	leastAt, mostAt lineVersion
	times           []timeVersion
}

// repeatFinder finds lines that repeat a key. It remembers all keys until its memory is full: times
// that ascend in their series, which costs little, and other keys in a hash table. From then on it
// still knows what is new in a series whose times ascend or descend.
type repeatFinder struct {
	found      Repeats
	seed       maphash.Seed
	slots      []keySlot // open addressing; the length is a power of two
	used       int
	bytes      int // of slots and of the times of series
	full       bool
	spans      map[seriesKey]*keySpan
	spansFull  bool
	series     seriesKey // of the last record, and its span
	span       *keySpan
	maxBytes   int
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
		bytes: firstKeySlots * keyBytes, spans: map[seriesKey]*keySpan{}, maxBytes: maxKeyBytes,
		maxSpans: maxKeySpans}
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
	s, isNew := r.spanOf(k, v)
	if s != nil && (isNew || k.CapNs > s.most) {
		s.most, s.mostAt = k.CapNs, v
		r.append(s, timeVersion{k.CapNs, v})
		return earlier, false
	}
	known := r.remembered(s, k)
	var slot *keySlot
	var hash uint64
	if known == nil {
		hash = r.hash(k)
		slot = r.slot(hash)
		if slot.hash != 0 {
			known = &slot.lineVersion
		}
	}
	atEnd, beyond := s.extend(k.CapNs, v)
	switch {
	case known != nil:
		earlier, *known = *known, v
		return earlier, true
	case !r.full:
		*slot = keySlot{hash, v}
		r.grow()
	case atEnd != nil:
		return *atEnd, true
	case !beyond && !isNew:
		r.found.AtLeast = true
	}
	return earlier, false
}

// spanOf returns the span of a series, nil if there is no room for it, and whether the series is
// new. A new span has the time of the key.
func (r *repeatFinder) spanOf(k *record.Key, v lineVersion) (s *keySpan, isNew bool) {
	key := seriesKey{k.CID, k.MOID, k.MID}
	if r.span != nil && key == r.series {
		return r.span, false
	}
	if s = r.spans[key]; s == nil {
		if isNew = !r.spansFull; len(r.spans) >= r.maxSpans {
			r.spansFull = true
			return nil, isNew
		}
		s = &keySpan{least: k.CapNs, most: k.CapNs, leastAt: v, mostAt: v}
		r.spans[key] = s
	}
	r.series, r.span = key, s
	return s, isNew
}

// append remembers a time that is the greatest of its series, if there is room.
func (r *repeatFinder) append(s *keySpan, t timeVersion) {
	if r.full {
		return
	}
	before := cap(s.times)
	s.times = append(s.times, t)
	r.bytes += (cap(s.times) - before) * keyBytes
	r.full = r.bytes >= r.maxBytes
}

// remembered finds the time of a key among those that its series has in order, nil if it is not
// there.
func (r *repeatFinder) remembered(s *keySpan, k *record.Key) *lineVersion {
	if s == nil {
		return nil
	}
	i := sort.Search(len(s.times), func(i int) bool { return s.times[i].capNs >= k.CapNs })
	if i == len(s.times) || s.times[i].capNs != k.CapNs {
		return nil
	}
	return &s.times[i].lineVersion
}

// slot is that of a hash, or the one where it would be.
func (r *repeatFinder) slot(hash uint64) *keySlot {
	mask := uint64(len(r.slots) - 1)
	at := hash & mask
	for r.slots[at].hash != 0 && r.slots[at].hash != hash {
		at = (at + 1) & mask
	}
	return &r.slots[at]
}

// hash is that of a key without its acq.
func (r *repeatFinder) hash(k *record.Key) uint64 {
	binary.LittleEndian.PutUint32(r.buf[0:], uint32(k.CID))
	binary.LittleEndian.PutUint32(r.buf[4:], uint32(k.MOID))
	binary.LittleEndian.PutUint64(r.buf[8:], uint64(k.MID))
	binary.LittleEndian.PutUint64(r.buf[16:], uint64(k.CapNs))
	return max(maphash.Bytes(r.seed, r.buf[:]), 1)
}

// grow counts a key that is new in the table, and makes room for the next.
func (r *repeatFinder) grow() {
	if r.used++; r.used < len(r.slots)/4*3 {
		return
	}
	if r.bytes+len(r.slots)*keyBytes > r.maxBytes {
		r.full = true
		return
	}
	r.bytes += len(r.slots) * keyBytes
	old := r.slots
	r.slots = make([]keySlot, 2*len(old))
	for i := range old {
		if hash := old[i].hash; hash != 0 {
			*r.slot(hash) = old[i]
		}
	}
}

// extend adds a version to a span. It returns the earlier version at an end of the span, or whether
// the time is below the span and so new. A time above the span is not for it.
func (s *keySpan) extend(capNs int64, v lineVersion) (atEnd *lineVersion, below bool) {
	switch {
	case s == nil:
		return nil, false
	case capNs < s.least:
		s.least, s.leastAt = capNs, v
		return nil, true
	case capNs == s.most:
		earlier := s.mostAt
		if s.mostAt = v; s.least == s.most {
			s.leastAt = v
		}
		return &earlier, false
	case capNs == s.least:
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
