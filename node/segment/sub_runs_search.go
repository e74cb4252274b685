package segment

import (
	"math/bits"
	"sort"

	"github.com/pentad-db/pentad/sdk/record"
)

// word returns 64 bits.
func (t *subRunTable) word(word int) uint64 {
	return loadWord(t.bits, word)
}

// skipOnes is findOnes by the word.
func (t *subRunTable) skipOnes(bit, end, n, more int) (first, last int) {
	if first = t.skip(bit, end, n, 0); first == end {
		return end, end
	}
	return first, t.skip(first, end, more, 0)
}

// skip returns the first bit of [bit, end) before which n are ones and which is one, too; with all
// ones for flip the same of zeros. If there is none it returns end.
func (t *subRunTable) skip(bit, end, n int, flip uint64) int {
	if bit >= end {
		return end
	}
	word := bit >> 6
	left := (t.word(word) ^ flip) &^ (1<<(bit&63) - 1)
	for {
		ones := bits.OnesCount64(left)
		if n < ones {
			break
		}
		n -= ones
		if word++; word<<6 >= end {
			return end
		}
		left = t.word(word) ^ flip
	}
	at := word << 6
	if ones := bits.OnesCount32(uint32(left)); n >= ones {
		n, left, at = n-ones, left>>32, at+32
	}
	if ones := bits.OnesCount16(uint16(left)); n >= ones {
		n, left, at = n-ones, left>>16, at+16
	}
	for ; n > 0; n-- {
		left &= left - 1
	}
	return min(end, at+bits.TrailingZeros64(left))
}

// rowsOf returns the rows of the devices [low, last) in a sub-run.
func (b *Block) rowsOf(s, low, last int) (first, end int) {
	t := &b.subRuns
	if low >= last {
		return t.end(s), t.end(s)
	}
	bits, one := t.bitsOf(b.rows), s*t.devices+low
	within := low % groupDevices
	from := t.groupBit(s, low/groupDevices)
	if n := last - low; n <= groupDevices {
		first, end = t.findOnes(from, bits, within, n)
	} else {
		first, _ = t.findOnes(from, bits, within, 0)
		end = bits
		if last < t.devices {
			end, _ = t.findOnes(t.groupBit(s, last/groupDevices), bits, last%groupDevices, 0)
		} else if s < t.count-1 {
			end = t.groupBit(s+1, 0)
		}
	}
	// Of damaged bytes, they may be anywhere.
	first = min(max(first-one, t.start(s)), t.end(s))
	end = min(max(end-one-(last-low), first), t.end(s))
	if len(t.found) < maxFound && first < end {
		t.found = append(t.found,
			foundDevices{uint16(first), uint16(end), uint16(low), uint16(last)})
	}
	return first, end
}

// findDevices translates a normalized set of devices into ranges of their numbers in the block.
func (b *Block) findDevices(set record.RangeSet) (matches []match, all bool) {
	t := &b.subRuns
	if b.matches, all = t.mids.translate(set, b.matches[:0]); all {
		return nil, true
	}
	matches = b.matches[:0]
	for _, m := range b.matches {
		if low, last := t.place(m); low < last {
			matches = append(matches, match{uint64(low), uint64(last - low - 1)})
		}
	}
	return matches, false
}

// place returns which devices [low, last) have packed values that match.
func (t *subRunTable) place(m match) (low, last int) {
	low = t.lowerDevice(m.low)
	if m.span > 0 {
		return low, t.lowerDevice(m.low + m.span + 1)
	}
	if low < t.devices && t.mids.packed(low) == m.low {
		return low, low + 1
	}
	return low, low
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

// PlaceMIDs finds devices in the table of a block with sub-runs, once for all sub-runs: searches
// are slower without.
func (b *Block) PlaceMIDs(devices []MIDs) {
	for i := range devices {
		if !devices[i].isPlaced {
			devices[i] = b.placed(devices[i])
		}
	}
}

// placed returns devices by their numbers.
func (b *Block) placed(m MIDs) MIDs {
	if m.none || m.all {
		return m
	}
	low, last := b.subRuns.place(match{m.low, m.last - m.low})
	if low >= last {
		return MIDs{none: true, isPlaced: true}
	}
	m.low, m.last, m.isPlaced = uint64(low), uint64(last-1), true
	return m
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
	k := 0
	for _, i := range sel {
		if sel[k] = i; matchesAny(matches, uint64(b.deviceOf(int(i)))) {
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
	device, last := t.place(match{low: v})
	if device == last {
		return lo, lo
	}
	s := t.of(lo)
	first, end = b.rowsOf(s, device, last)
	if first, end = max(lo, first), min(hi, end); first >= end {
		return lo, lo
	}
	return b.enter(record.Cap, s).searchSorted(first, end, k.CapNs)
}
