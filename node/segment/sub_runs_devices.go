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
	start, rows := t.start(s), t.end(s)-t.start(s)
	group := (row - start) * t.groups / rows
	for group > 0 && t.groupStart(s, group) > row {
		group--
	}
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
	switch {
	case p.sel != nil:
		b.writeDevicesSelected(p.sel, w)
	case p.n < fewRows*len(p.spans):
		b.writeDevicesOfFew(p.spans, w)
	default:
		for _, s := range p.spans {
			out := unsafe.Slice((*int64)(unsafe.Add(w.out, w.at)), s.Hi-s.Lo)
			b.expand(int(s.Lo), int(s.Hi), out)
			w.at += uintptr(len(out)) * wordBytes
		}
	}
}

// expand writes the devices of the rows [lo, hi).
func (b *Block) expand(lo, hi int, out []int64) {
	t := &b.subRuns
	for lo < hi {
		s := t.of(lo)
		end := min(hi, t.end(s))
		bit, ones := 0, 0 // of the row, and how many of its sub-run are before that
		if f := &t.found[s]; int(f.first) == lo && end <= int(f.end) && f.low < f.last {
			ones = int(f.low)
			bit = s*t.devices + ones + lo // of its one
			t.loadDevices(ones, int(f.last))
		} else {
			bit = b.bitOf(s, lo)
			ones = bit - lo - s*t.devices
			t.loadDevices(0, t.devices)
		}
		e := expansion{bit: bit, end: t.bitsOf(b.rows), ones: min(max(ones, 0), t.devices),
			devices: t.devices}
		t.expandBits(&e, out[:end-lo])
		out, lo = out[end-lo:], end
	}
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

// writeDevicesOfFew writes the devices of spans of a few rows each.
func (b *Block) writeDevicesOfFew(spans []Span, w *wordWriter) {
	t := &b.subRuns
	b.sel = b.sel[:0]
	for _, s := range spans {
		f := &t.found[t.of(int(s.Lo))]
		if f.low+1 == f.last && uint32(f.first) <= s.Lo && s.Hi <= uint32(f.end) {
			b.writeDevicesSelected(b.sel, w)
			b.sel = b.sel[:0]
			w.fill(uint64(t.mid(int(f.low))), int(s.Hi-s.Lo))
			continue
		}
		for i := s.Lo; i < s.Hi; i++ {
			b.sel = append(b.sel, i)
		}
	}
	b.writeDevicesSelected(b.sel, w)
}

// writeDevicesSelected writes the devices of the rows of sel. Where they lie close together, those
// of all between them are written first, which is faster.
func (b *Block) writeDevicesSelected(sel []uint32, w *wordWriter) {
	t := &b.subRuns
	for len(sel) > 0 {
		s := t.of(int(sel[0]))
		n := rowsBefore(sel, t.end(s))
		lo, rows := int(sel[0]), int(sel[n-1]-sel[0])+1
		if rows >= denseDevices*n || n < fewRows {
			b.writeDevicesByRow(s, sel[:n], w)
			sel = sel[n:]
			continue
		}
		if cap(t.decoded) < rows {
			t.decoded = make([]int64, max(rows, maxBlockRows/maxSubRuns))
		}
		values := t.decoded[:rows]
		b.expand(lo, lo+rows, values)
		to := *w
		for _, i := range sel[:n] {
			to.put(uint64(values[int(i)-lo]))
		}
		w.at = to.at
		sel = sel[n:]
	}
}

// denseDevices is how many rows are expanded together in the time in which one is searched for.
const denseDevices = 6

// numberedRows is how many rows are numbered before their devices are looked up: loops that do one
// of both keep what they need in registers.
const numberedRows = 64

// writeDevicesByRow writes the devices of rows of a sub-run, each of which is searched for.
func (b *Block) writeDevicesByRow(s int, sel []uint32, w *wordWriter) {
	t := &b.subRuns
	if len(sel) < fewNumbered {
		for _, i := range sel {
			w.put(uint64(t.mid(b.deviceOf(int(i)))))
		}
		return
	}
	var numbers [numberedRows]uint16
	t.zeros.count(t, s)
	for len(sel) > 0 {
		part := sel[:min(len(sel), numberedRows)]
		t.zeros.number(t, part, &numbers)
		t.mids.writeNumbers(numbers[:len(part)], uint(t.devices-1), w)
		sel = sel[len(part):]
	}
}

// fewNumbered rows are searched for one by one.
const fewNumbered = 6

// zeroCounts is how many zeros there are before each word of the bits of a sub-run.
type zeroCounts struct {
	word, words int // the first, and how many
	scale, off  int // the word of row r is (r-start) * scale + off, in 1 << shareBits, or about that
	start       int
	ones        int // before the bits of the sub-run
	before      [2*maxBlockRows/64 + 2]int32
}

// count counts the zeros of a sub-run.
func (z *zeroCounts) count(t *subRunTable, s int) {
	z.start, z.ones = t.start(s), s*t.devices
	rows := t.end(s) - z.start
	bit := z.ones + z.start
	end := bit + rows + t.devices
	z.word = bit >> 6
	z.words = (end+63)>>6 - z.word
	z.scale = ((rows+t.devices)<<shareBits/rows + 63) >> 6
	z.off = (bit & 63) << (shareBits - 6)
	zeros := z.start - bits.OnesCount64(^t.word(z.word)&(1<<(bit&63)-1))
	for k := range z.words {
		z.before[k] = int32(zeros)
		zeros += bits.OnesCount64(^t.word(z.word + k))
	}
	z.before[0] = max(0, min(z.before[0], int32(z.start)))
	z.before[z.words] = int32(t.end(s)) // above all rows, even of damaged bytes
}

// numberByRow finds the devices of rows that ascend.
func (z *zeroCounts) numberByRow(t *subRunTable, sel []uint32, out *[numberedRows]uint16) {
	k := 0
	for n, i := range sel {
		row := int32(i)
		for k+1 < z.words && z.before[k+1] <= row {
			k++
		}
		word := z.word + k
		bit := t.skip(word<<6, word<<6+64, int(row-z.before[k]), ^uint64(0))
		out[n] = uint16(bit - int(row) - z.ones - 1)
	}
}

// writeNumbers writes the values at positions up to last. Of damaged bytes, others are beyond.
func (c *column) writeNumbers(numbers []uint16, last uint, to *wordWriter) {
	w := *to
	base, gcd, width, mask, body := c.base, c.gcd, uint(c.width), c.maxPacked, c.bodyStart()
	for _, i := range numbers {
		w.put(base + gcd*(loadBits(body, min(uint(i), last)*width)&mask))
	}
	to.at = w.at
}

// loadWord returns 64 bits of the body of a column.
func loadWord(body []byte, word int) uint64 { return binary.LittleEndian.Uint64(body[8*word:]) }

const _ = uint(1<<16 - maxBlockRows - 1) // positions and devices fit into 16 bits
