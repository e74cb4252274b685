package segment

import (
	"encoding/binary"
	"math/bits"
	"sort"

	"github.com/pentad-db/pentad/sdk/record"
)

// Rows of one tenant and quantity that are in a few sub-runs, each sorted by device, are mostly of
// the same devices in each. Such a block keeps its devices once, and a bit for each row, which says
// whether it is the first of its device in the sub-run. Its caps and ranks have a base for each
// sub-run, and one width: where a row's bits are does not depend on the sub-run.

const (
	maxSubRuns = 8
	// deviceHeaderBytes come before the header of the column of devices: devices u16, sub-runs
	// u8, absences u16.
	deviceHeaderBytes = 2 + 1 + 2
	// subRunBytes is what the headers have of a sub-run: the ends u16 of all, then the ends of
	// their absences u16, their least caps u32, their least ranks u32.
	subRunBytes = 2 + 2 + 4 + 4
)

// subRunTable is the sub-runs of an open block. What it has copied is checked each time a block is
// opened; bytes of the block may be damaged since they were verified.
type subRunTable struct {
	count    int                    // of sub-runs; 0: the block has no such table
	starts   [maxSubRuns + 1]uint16 // and where the last one ends
	share    uint32                 // sub-runs a row, in 1 << shareBits
	entries  []byte                 // of sub-runs, behind their ends
	devices  int
	mids     column // of the devices, which ascend
	absents  column // numbers of the devices that a sub-run has no row of, by sub-run
	absences int    // values of absents
	// Of cap and rank: the base of a sub-run is that of the column + unit * its least value.
	bases, units [2]uint64
	found        [maxSubRuns]foundDevices
	// before is for a cursor: how many devices of its sub-run start before 64 rows, less one.
	before   [maxBlockRows / 64]int16
	isLoaded bool // unpacked
	unpacked []int64
}

// foundDevices is where devices were last found in a sub-run: the first row, and its device. If it
// was searched for alone, its rows end at end; else that is 0.
type foundDevices struct{ first, end, device, isFound uint16 }

// reset forgets the block.
func (t *subRunTable) reset() {
	t.count, t.isLoaded, t.found = 0, false, [maxSubRuns]foundDevices{}
}

// close keeps memory only.
func (t *subRunTable) close() {
	t.reset()
	t.entries, t.mids, t.absents = nil, column{}, column{}
}

// devices reads what a block with sub-runs has in the place of the column of mids. keys[MID] has
// the bits of rows.
func (p *frontParser) devices() {
	t, c, h := &p.block.subRuns, &p.block.keys[record.MID], p.headers
	if p.bad || len(h) < deviceHeaderBytes {
		p.bad = true
		return
	}
	t.devices, t.count = int(binary.LittleEndian.Uint16(h)), int(h[2])
	t.absences = int(binary.LittleEndian.Uint16(h[3:]))
	p.headers = h[deviceHeaderBytes:]
	if t.count > maxSubRuns || t.count == 0 || t.devices == 0 || t.devices > p.rows {
		t.count, p.bad = 0, true
		return
	}
	rows := p.rows
	p.rows = t.devices
	p.column(&t.mids)
	p.rows = rows
	c.kind, c.table, c.dict = columnDevices, nil, nil
	c.forCoding, c.maxPacked = forCoding{gcd: 1, width: 1}, 1
	at := p.at
	p.take(uint64(rows+7) / 8)
	c.body = p.data[at:]
	t.absents.width = uint8(bits.Len(uint(t.devices - 1)))
	t.absents.gcd, t.absents.maxPacked = 1, t.absents.mask()
	at = p.at
	p.take(uint64(t.absents.bytes(t.absences)))
	t.absents.body = p.data[at:]
}

// subRuns reads where sub-runs end, and the bases of their caps and ranks.
func (p *frontParser) subRuns() {
	t, ends := &p.block.subRuns, p.headers
	if size := subRunBytes * t.count; p.bad || len(p.headers) < size {
		p.bad = true
		return
	} else {
		t.entries, p.headers = p.headers[2*t.count:size], p.headers[size:]
	}
	last := uint16(0)
	for s := range t.count {
		end := binary.LittleEndian.Uint16(ends[2*s:])
		p.bad = p.bad || end <= last
		t.starts[s+1], last = end, end
	}
	p.bad = p.bad || int(last) != p.rows
	t.share = uint32(t.count<<shareBits) / uint32(p.rows)
	for k := range t.bases {
		c := &p.block.keys[int(record.Cap)+k]
		t.bases[k], t.units[k] = c.base, c.gcd
		if c.kind == columnClock {
			t.units[k] = c.period
		}
	}
}

// checkSubRuns looks at what parse does not.
func (b *Block) checkSubRuns() (reason string) {
	t := &b.subRuns
	for i := 1; i < t.devices && t.count > 0; i++ {
		if int64(t.mids.value(i)) <= int64(t.mids.value(i-1)) {
			return "its devices do not ascend"
		}
	}
	row, absent := 0, 0
	for s := range t.count {
		end, absentsEnd := t.end(s), int(binary.LittleEndian.Uint16(t.entries[2*s:]))
		if absentsEnd < absent || absentsEnd > t.absences {
			return "the absent devices of its sub-runs do not follow each other"
		}
		found := absentsEnd - absent
		for last := -1; absent < absentsEnd; absent++ {
			number := int(t.absents.packed(absent))
			if number <= last || number >= t.devices {
				return "the absent devices of a sub-run do not ascend"
			}
			last = number
		}
		for isFirst := true; row < end; row++ {
			if bit := int(b.keys[record.MID].packed(row)); bit == 0 && isFirst {
				return "a sub-run starts inside a device"
			} else {
				found += bit
			}
			isFirst = false
		}
		if found != t.devices {
			return "a sub-run does not have the devices that it should have"
		}
	}
	if t.count > 0 && absent != t.absences {
		return "it has more absent devices than its sub-runs"
	}
	return ""
}

func (t *subRunTable) start(s int) int { return int(t.starts[s]) }

func (t *subRunTable) end(s int) int { return int(t.starts[s+1]) }

// shareBits is enough for all rows of a block to be given the sub-run that they are in, if all
// have as many rows.
const shareBits = 16

// of returns the sub-run that a row is in.
func (t *subRunTable) of(row int) int {
	s := row * int(t.share) >> shareBits
	if r := uint16(row); t.starts[s] <= r && r < t.starts[s+1] {
		return s
	}
	return t.search(row)
}

func (t *subRunTable) search(row int) int {
	s := 0
	for s < t.count-1 && t.end(s) <= row {
		s++
	}
	return s
}

// absentsOf returns which absents are those of a sub-run.
func (t *subRunTable) absentsOf(s int) (from, to int) {
	if t.absences == 0 {
		return 0, 0
	}
	to = min(int(binary.LittleEndian.Uint16(t.entries[2*s:])), t.absences)
	if s > 0 {
		from = min(int(binary.LittleEndian.Uint16(t.entries[2*s-2:])), to)
	}
	return from, to
}

// enter gives the caps or ranks the base of a sub-run, and returns them.
func (b *Block) enter(d record.Dim, s int) *column {
	c, t, k := &b.keys[d], &b.subRuns, int(d-record.Cap)
	least := binary.LittleEndian.Uint32(t.entries[2*t.count+4*(t.count*k+s):])
	c.base = t.bases[k] + t.units[k]*uint64(least)
	return c
}

// enterOf is enter for the sub-run of a row, and returns its end, too.
func (b *Block) enterOf(d record.Dim, row int) (c *column, end int) {
	s := b.subRuns.of(row)
	return b.enter(d, s), b.subRuns.end(s)
}

// firsts returns the bits of 64 rows.
func (b *Block) firsts(word int) uint64 {
	return binary.LittleEndian.Uint64(b.keys[record.MID].body[8*word:])
}

// skipFirsts returns the first of the rows [row, end) before which n of them are the first of a
// device, and which is one, too, or end.
func (b *Block) skipFirsts(row, end, n int) int {
	word := row >> 6
	left := b.firsts(word) &^ (1<<(row&63) - 1)
	for {
		ones := bits.OnesCount64(left)
		if n < ones {
			break
		}
		n -= ones
		if word++; word<<6 >= end {
			return end
		}
		left = b.firsts(word)
	}
	at := word << 6
	if ones := bits.OnesCount32(uint32(left)); n >= ones {
		n, left, at = n-ones, left>>32, at+32
	}
	for ; n > 0; n-- {
		left &= left - 1
	}
	return min(end, at+bits.TrailingZeros64(left))
}

// skipTwice is findFirsts, see there, by the word.
func (b *Block) skipTwice(row, end, n, more int) (first, last int) {
	if first = b.skipFirsts(row, end, n); first == end {
		return end, end
	}
	return first, b.skipFirsts(first, end, more)
}

// fewAbsents is up to how many absent devices looking at each is faster than a search.
const fewAbsents = 12

// placesOf returns how many devices of a sub-run come before each of two of the block.
func (t *subRunTable) placesOf(s, low, end int) (lowPlace, endPlace int) {
	from, to := t.absentsOf(s)
	if to-from > fewAbsents {
		return low - (t.absents.lowerBound(from, to, uint64(low)) - from),
			end - (t.absents.lowerBound(from, to, uint64(end)) - from)
	}
	lowPlace, endPlace = low, end
	for ; from < to; from++ {
		absent := int(t.absents.packed(from))
		lowPlace += (absent - low) >> 63 // one less where it comes before
		endPlace += (absent - end) >> 63
	}
	return lowPlace, endPlace
}

// rowsOf returns the rows of the devices [low, end) in a sub-run.
func (b *Block) rowsOf(s, low, end int) (first, last int) {
	t := &b.subRuns
	first, last = t.start(s), t.end(s)
	from, to := t.placesOf(s, low, end)
	if from >= to || from < 0 {
		return last, last
	}
	first, last = b.findFirsts(first, last, from, to-from)
	if to-from == end-low { // none of them is absent
		t.found[s] = foundDevices{first: uint16(first), device: uint16(low), isFound: 1}
		if end == low+1 {
			t.found[s].end = uint16(last)
		}
	}
	return first, last
}

// findDevices translates a normalized set of devices into ranges of their numbers in the block.
func (b *Block) findDevices(set record.RangeSet) (matches []match, all bool) {
	t := &b.subRuns
	if b.matches, all = t.mids.translate(set, b.matches[:0]); all {
		return nil, true
	}
	matches = b.matches[:0]
	for _, m := range b.matches {
		low := t.lowerDevice(m.low)
		end := low
		if m.span > 0 {
			end = t.lowerDevice(m.low + m.span + 1)
		} else if low < t.devices && t.mids.packed(low) == m.low {
			end++
		}
		if low < end {
			matches = append(matches, match{uint64(low), uint64(end - low - 1)})
		}
	}
	return matches, false
}

// lowerDevice returns the first device whose packed value is at least v, or their number, looking
// first where it is when ids are spread evenly.
func (t *subRunTable) lowerDevice(v uint64) int {
	most := t.mids.packed(t.devices - 1)
	switch {
	case v > most:
		return t.devices
	case most == 0:
		return 0
	}
	at := int(float64(v) / float64(most) * float64(t.devices-1))
	return t.mids.search(0, t.devices, v, min(at, t.devices-1))
}

// findInSubRuns is FindMIDs for a block with sub-runs: the numbers of devices are what is found.
func (b *Block) findInSubRuns(set record.RangeSet) MIDs {
	matches, all := b.findDevices(set)
	if all || len(matches) == 0 {
		return MIDs{all: all, none: !all}
	}
	m, devices := matches[0], float64(b.subRuns.devices)
	last := m.low + m.span
	return MIDs{low: m.low, last: last, share: float64(m.low) / devices,
		end: float64(last+1) / devices}
}

// filterDevices is FilterSpan for devices of sub-runs.
func (b *Block) filterDevices(set record.RangeSet, lo, hi int, sel []uint32) []uint32 {
	matches, all := b.findDevices(set)
	if all {
		return appendSpan(sel, lo, hi)
	}
	for lo < hi && len(matches) > 0 {
		s := b.subRuns.of(lo)
		end := min(b.subRuns.end(s), hi)
		for _, m := range matches {
			first, last := b.rowsOf(s, int(m.low), int(m.low+m.span)+1)
			sel = appendSpan(sel, max(first, lo), min(last, end))
		}
		lo = end
	}
	return sel
}

// filterDevicesSelected is Filter for devices of sub-runs.
func (b *Block) filterDevicesSelected(set record.RangeSet, sel []uint32) []uint32 {
	matches, all := b.findDevices(set)
	if all {
		return sel
	}
	of, k := deviceCursor{block: b}, 0
	for _, i := range sel {
		if sel[k] = i; matchesAny(matches, uint64(of.device(int(i)))) {
			k++
		}
	}
	return sel[:k]
}

// filterSubRuns is FilterSpan for caps or ranks of sub-runs.
func (b *Block) filterSubRuns(
	d record.Dim, set record.RangeSet, lo, hi int, sel []uint32,
) []uint32 {
	for lo < hi {
		c, end := b.enterOf(d, lo)
		sel = b.filterColumn(c, set, lo, min(end, hi), sel)
		lo = end
	}
	return sel
}

// filterSubRunsSelected is Filter for caps or ranks of sub-runs.
func (b *Block) filterSubRunsSelected(d record.Dim, set record.RangeSet, sel []uint32) []uint32 {
	kept := sel[:0]
	for len(sel) > 0 {
		c, end := b.enterOf(d, int(sel[0]))
		n := rowsBefore(sel, end)
		kept = append(kept, b.filterSelected(c, set, sel[:n])...)
		sel = sel[n:]
	}
	return kept
}

// rowsBefore returns how many positions of sel are below end.
func rowsBefore(sel []uint32, end int) int {
	if n := len(sel); int(sel[n-1]) < end {
		return n
	}
	return sort.Search(len(sel), func(k int) bool { return int(sel[k]) >= end })
}

// searchReadingInSubRuns is SearchReading for a block with sub-runs: [lo, hi) is in one.
func (b *Block) searchReadingInSubRuns(lo, hi int, k record.Key) (first, end int) {
	t := &b.subRuns
	for _, d := range [...]record.Dim{record.CID, record.MOID} {
		if _, ok := b.keys[d].pack(k.Part(d)); !ok {
			return lo, lo
		}
	}
	v, ok := t.mids.pack(k.MID)
	if lo >= hi || !ok {
		return lo, lo
	}
	device := t.lowerDevice(v)
	if device == t.devices || t.mids.packed(device) != v {
		return lo, lo
	}
	s := t.of(lo)
	first, end = b.rowsOf(s, device, device+1)
	if first, end = max(lo, first), min(hi, end); first >= end {
		return lo, lo
	}
	return b.enter(record.Cap, s).searchSorted(first, end, k.CapNs)
}
