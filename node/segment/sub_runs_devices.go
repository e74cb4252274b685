package segment

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// filledRows is how many rows are written at once.
const filledRows = 8

// deviceOf returns the number of the device of a row.
func (b *Block) deviceOf(row int) int {
	t := &b.subRuns
	s := t.of(row)
	return t.known(b.bitOf(s, row) - row - s*t.devices - 1)
}

// known returns a device. Of damaged bytes, there may be more than there are, or none.
func (t *subRunTable) known(number int) int {
	return int(min(uint(number), uint(t.devices-1)))
}

// bitOf returns where the zero of a row of a sub-run is.
func (b *Block) bitOf(s, row int) int {
	t := &b.subRuns
	group := t.groupBefore(s, row)
	for group+1 < t.groups && t.groupStart(s, group+1) <= row {
		group++
	}
	return t.skip(t.groupBit(s, group), t.bitsOf(b.rows), row-t.groupStart(s, group),
		^uint64(0))
}

// loadDevices unpacks the devices [from, to).
func (t *subRunTable) loadDevices(from, to int) {
	if t.from <= from && to <= t.to {
		return
	}
	if t.from < t.to {
		from, to = min(from, t.from), max(to, t.to)
	}
	// One device is before them, and more follow than are looked at.
	size := 1 + t.devices + filledRows
	if cap(t.unpacked) < size {
		t.unpacked = make([]int64, size)
	}
	t.unpacked, t.from, t.to = t.unpacked[:size], from, to
	w := wordWriterOf(t.unpacked[1+from:])
	span := [1]Span{{uint32(from), uint32(to)}}
	t.mids.write(&positions{spans: span[:], n: to - from}, &w)
}

// unpackedDevices: looking at one of this many devices, or more, takes as long as unpacking all.
const unpackedDevices = 8

// mid returns a device.
func (t *subRunTable) mid(number int) int64 {
	return int64(t.mids.base + t.mids.gcd*t.mids.packed(number))
}

// writeDevices is writeSubRuns for devices.
func (b *Block) writeDevices(p *positions, w *wordWriter) {
	if p.sel != nil {
		b.writeDevicesSelected(p.sel, w)
		return
	}
	t := &b.subRuns
	found, isFound := t.found, false
	b.sel = b.sel[:0] // rows of spans of a few
	for _, s := range p.spans {
		found, isFound = foundAt(found, int(s.Lo), int(s.Hi))
		isDevice, rows := isFound && found[0].low+1 == found[0].last, int(s.Hi-s.Lo)
		if !isDevice && rows < filledRows {
			for i := s.Lo; i < s.Hi; i++ {
				b.sel = append(b.sel, i)
			}
			continue
		}
		if len(b.sel) > 0 {
			b.writeDevicesSelected(b.sel, w)
			b.sel = b.sel[:0]
		}
		if isDevice {
			w.fill(uint64(t.mid(int(found[0].low))), rows)
			continue
		}
		out := unsafe.Slice((*int64)(unsafe.Add(w.out, w.at)), rows)
		found = b.expand(int(s.Lo), int(s.Hi), found, out)
		w.at += uintptr(rows) * wordBytes
	}
	b.writeDevicesSelected(b.sel, w)
}

// foundAt returns what was found from the rows [lo, hi) on; of these in the first if isHere.
func foundAt(found []foundDevices, lo, hi int) (rest []foundDevices, isHere bool) {
	for len(found) > 0 && int(found[0].end) <= lo {
		found = found[1:]
	}
	return found, len(found) > 0 && int(found[0].first) <= lo && hi <= int(found[0].end)
}

// expand writes the devices of the rows [lo, hi), and returns what was found behind them.
func (b *Block) expand(lo, hi int, found []foundDevices, out []int64) []foundDevices {
	t := &b.subRuns
	for lo < hi {
		s := t.of(lo)
		end := min(hi, t.end(s))
		var e expansion
		var isFound bool
		if found, isFound = foundAt(found, lo, end); isFound && int(found[0].first) == lo {
			low := int(found[0].low)
			e = t.expansionOf(s*t.devices+low+lo, low, b.rows) // with its one
			t.loadDevices(low, int(found[0].last))
		} else {
			e = b.expansionAt(s, lo)
			t.loadDevices(0, t.devices)
		}
		t.expandBits(&e, out[:end-lo])
		out, lo = out[end-lo:], end
	}
	return found
}

// expansionAt is that from a row of a sub-run on.
func (b *Block) expansionAt(s, row int) expansion {
	t := &b.subRuns
	bit := b.bitOf(s, row)
	return t.expansionOf(bit, bit-row-s*t.devices, b.rows)
}

func (t *subRunTable) expansionOf(bit, ones, rows int) expansion {
	return expansion{bit: bit, end: t.bitsOf(rows), ones: min(max(ones, 0), t.devices),
		devices: t.devices}
}

// expansion is where rows are expanded from bits: the next bit, the end of all, and how many
// devices of the sub-run there are up to the bit, and in all.
type expansion struct{ bit, end, ones, devices int }

// expandByRow is expandBits by the stretch of zeros.
func (t *subRunTable) expandByRow(e *expansion, out []int64) {
	for bit, ones := e.bit, e.ones; len(out) > 0 && bit < e.end; {
		left := 64 - bit&63
		zeros := min(bits.TrailingZeros64(t.word(bit>>6)>>(bit&63)), left)
		rows := out[:min(zeros, len(out))]
		for k := range rows {
			rows[k] = t.unpacked[min(ones, e.devices)]
		}
		out, bit = out[len(rows):], bit+zeros
		if zeros < left {
			bit, ones = bit+1, ones+1
		}
	}
}

// fewNumbered: rows of which one in this many is wanted are not numbered for it.
const fewNumbered = 64

// writeDevicesSelected writes the devices of the rows of sel. Unless they are far apart, the rows
// between them are numbered, too, which is faster.
func (b *Block) writeDevicesSelected(sel []uint32, w *wordWriter) {
	t := &b.subRuns
	found := t.found
	for len(sel) > 0 {
		lo := int(sel[0])
		s := t.of(lo)
		n := rowsBefore(sel, t.end(s))
		part, isFound := sel[:n], false
		sel = sel[n:]
		last := int(part[n-1])
		if found, isFound = foundAt(found, lo, last+1); isFound {
			f := found[0]
			e := t.expansionOf(s*t.devices+int(f.low+f.first), int(f.low), b.rows)
			t.writeNumbered(e, int(f.first), part, w)
		} else if last-lo < fewNumbered*n {
			group := t.groupBefore(s, lo)
			e := t.expansionOf(t.groupBit(s, group), group*groupDevices, b.rows)
			t.writeNumbered(e, min(t.groupStart(s, group), lo), part, w)
		} else {
			for _, i := range part {
				w.put(uint64(t.mid(b.deviceOf(int(i)))))
			}
		}
	}
}

// groupBefore returns a group of devices of a sub-run that starts before a row, or with it, and not
// long before that, where devices are spread evenly.
func (t *subRunTable) groupBefore(s, row int) int {
	start := t.start(s)
	group := max(0, (row-start)*t.groups/(t.end(s)-start)-1)
	for group > 0 && t.groupStart(s, group) > row {
		group--
	}
	return group
}

// writeNumbered writes the devices of rows of a sub-run, and numbers all from row lo on.
func (t *subRunTable) writeNumbered(e expansion, lo int, sel []uint32, to *wordWriter) {
	rows := int(sel[len(sel)-1]) + 1 - lo
	if size := rows + numberedRows; len(t.numbers) < size {
		t.numbers = make([]uint32, max(size, 2*maxBlockRows/maxSubRuns))
	}
	t.numberBits(&e, t.numbers, rows)
	w, c, last, numbers := *to, &t.mids, uint32(t.devices-1), t.numbers[:rows]
	base, gcd, width, mask, body := c.base, c.gcd, uint(c.width), c.maxPacked, c.bodyStart()
	for _, i := range sel {
		// Of damaged bytes, it may be beyond.
		number := min(numbers[i-uint32(lo)], last)
		w.put(base + gcd*(loadBits(body, uint(number)*width)&mask))
	}
	to.at = w.at
}

// numberedRows is how many rows are numbered at once, at most.
const numberedRows = 32

// numberByRow writes the numbers of the devices of rows.
func (t *subRunTable) numberByRow(e *expansion, out []uint32, rows int) {
	for bit, number := e.bit, uint32(e.ones-1); rows > 0 && bit < e.end; bit++ {
		if t.bits[bit>>3]>>(bit&7)&1 != 0 {
			number++
			continue
		}
		out[0] = number
		out, rows = out[1:], rows-1
	}
}

// loadWord returns 64 bits of the body of a column.
func loadWord(body []byte, word int) uint64 { return binary.LittleEndian.Uint64(body[8*word:]) }

const _ = uint(1<<16 - maxBlockRows - 1) // positions and devices fit into 16 bits
