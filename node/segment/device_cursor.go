package segment

import (
	"math"
	"math/bits"
	"unsafe"

	"github.com/pentad-db/pentad/sdk/record"
)

// deviceCursor finds the devices of rows that ascend.
type deviceCursor struct {
	block         *Block
	end           int  // of the sub-run; 0 at first
	isPlaced      bool // it has looked at all rows of the sub-run
	first, absent int  // absents of the sub-run, and of these the first that is not passed
	absentsEnd    int
	nextAbsent    int // device; MaxInt for none
}

// device returns the number of the device of a row.
func (c *deviceCursor) device(row int) int {
	if row >= c.end || !c.isPlaced {
		c.enter(row)
	}
	number := c.block.place(row) + c.absent - c.first
	for number >= c.nextAbsent {
		number++
		c.passAbsent(1)
	}
	return c.known(number)
}

// known returns a device. Of damaged bytes, there may be more than there are, or none.
func (c *deviceCursor) known(number int) int {
	return int(min(uint(number), uint(c.block.subRuns.devices-1)))
}

// enter goes to the sub-run of a row.
func (c *deviceCursor) enter(row int) {
	t := &c.block.subRuns
	s := t.of(row)
	start := t.start(s)
	c.begin(s)
	c.isPlaced = true
	word := start >> 6
	before := -1 - bits.OnesCount64(c.block.firsts(word)&(1<<(start&63)-1))
	for ; word<<6 < c.end; word++ {
		t.before[word] = int16(before)
		before += bits.OnesCount64(c.block.firsts(word))
	}
}

// begin goes to a sub-run, and does not look at its rows.
func (c *deviceCursor) begin(s int) {
	c.end, c.isPlaced = c.block.subRuns.end(s), false
	c.first, c.absentsEnd = c.block.subRuns.absentsOf(s)
	c.absent = c.first
	c.passAbsent(0)
}

// place returns which of the devices of its sub-run the row is of; a cursor has entered that.
func (b *Block) place(row int) int {
	word := uint(row) >> 6
	firsts := loadBits(b.keys[record.MID].bodyStart(), word<<6)
	return int(b.subRuns.before[word%uint(len(b.subRuns.before))]) +
		bits.OnesCount64(firsts&(2<<(row&63)-1))
}

// passAbsent goes n devices on among those that the sub-run has no row of.
func (c *deviceCursor) passAbsent(n int) {
	if c.absent += n; c.absent < c.absentsEnd {
		c.nextAbsent = int(c.block.subRuns.absents.packed(c.absent))
	} else {
		c.nextAbsent = math.MaxInt
	}
}

// filledRows is how many rows are written at once: those of a byte.
const filledRows = 8

// fill writes the devices of the rows [lo, hi) of a sub-run, which are unpacked; number is that of
// the first.
func (c *deviceCursor) fill(lo, hi, number int, out []int64) {
	firsts, mids := c.block.keys[record.MID].body, c.block.subRuns.unpacked
	row := lo + 1
	out[0] = mids[number]
	until := min(hi, (row+filledRows-1)&^(filledRows-1))
	for {
		for ; row < until; row++ {
			if firsts[row>>3]>>(row&7)&1 != 0 {
				for number++; number >= c.nextAbsent; number++ {
					c.passAbsent(1)
				}
			}
			out[row-lo] = mids[c.known(number)]
		}
		if row == hi {
			return
		}
		eights := (hi - row) &^ (filledRows - 1)
		done := 0
		if eights > 0 {
			done, number = c.fillEights(firsts[row>>3:], number, out[row-lo:][:eights])
		}
		row += done
		// An absent device is next, or the rest of less than eight rows.
		until = min(hi, row+filledRows)
	}
}

// fillEights writes the devices of eight rows at a time, until the next absent device is reached.
// number is that of the device of the row before, and last that of the last row.
func (c *deviceCursor) fillEights(firsts []byte, number int, out []int64) (done, last int) {
	if done, last = c.fillVector(firsts, number, out); done > 0 {
		return done, last
	}
	return c.fillByEights(firsts, number, out)
}

// fillByEights is fillEights without vectors.
func (c *deviceCursor) fillByEights(firsts []byte, number int, out []int64) (done, last int) {
	mids := c.block.subRuns.unpacked
	for ; done < len(out); done += filledRows {
		set := firsts[done/filledRows]
		if number+bits.OnesCount8(set) >= c.nextAbsent {
			break
		}
		for k := range filledRows {
			number += int(set >> k & 1)
			out[done+k] = mids[c.known(number)]
		}
	}
	return done, number
}

// loadDevices unpacks the devices. As many follow as fill looks at.
func (t *subRunTable) loadDevices() {
	if !t.isLoaded {
		t.unpacked, t.isLoaded = t.mids.unpack(t.unpacked, t.devices), true
		t.unpacked = append(t.unpacked, make([]int64, filledRows)...)
	}
}

// unpackedDevices: looking at one of this many devices, or more, takes as long as unpacking all.
const unpackedDevices = 8

// mid returns a device.
func (t *subRunTable) mid(number int) int64 {
	if t.isLoaded {
		return t.unpacked[number]
	}
	return int64(t.mids.base + t.mids.gcd*t.mids.packed(number))
}

// writeDevices is writeSubRuns for devices.
func (b *Block) writeDevices(p *positions, w *wordWriter) {
	t := &b.subRuns
	of := deviceCursor{block: b}
	switch {
	case p.sel != nil:
		of.writeSelected(p.sel, w)
	case p.n < fewRows*len(p.spans) || p.n*unpackedDevices < t.devices:
		of.writeRows(p.spans, w)
	default:
		t.loadDevices()
		for _, s := range p.spans {
			of.writeSpan(int(s.Lo), int(s.Hi), w)
		}
	}
}

// writeSpan writes the devices of the rows [lo, hi), which are unpacked.
func (c *deviceCursor) writeSpan(lo, hi int, w *wordWriter) {
	t := &c.block.subRuns
	for lo < hi {
		number := 0
		if s := t.of(lo); t.found[s].isFound != 0 && int(t.found[s].first) == lo {
			number = int(t.found[s].device)
			for c.begin(s); c.nextAbsent <= number; {
				c.passAbsent(1)
			}
		} else {
			number = c.device(lo)
		}
		end := min(hi, c.end)
		c.fill(lo, end, number, unsafe.Slice((*int64)(unsafe.Add(w.out, w.at)), end-lo))
		w.at += uintptr(end-lo) * wordBytes
		lo = end
	}
}

// numberedRows is how many rows are numbered before their devices are looked up: loops that do one
// of both keep what they need in registers.
const numberedRows = 64

// writeRows writes the devices of the rows of spans one by one.
func (c *deviceCursor) writeRows(spans []Span, w *wordWriter) {
	t := &c.block.subRuns
	var rows [numberedRows]uint32
	for n := 0; len(spans) > 0; n = 0 {
		s := spans[0]
		of := t.of(int(s.Lo))
		if f := &t.found[of]; uint32(f.first) <= s.Lo && s.Hi <= uint32(f.end) {
			w.fill(uint64(t.mid(int(f.device))), int(s.Hi-s.Lo))
			spans = spans[1:]
			continue
		}
		for end := uint32(t.end(of)); n < numberedRows && s.Lo < end; {
			rows[n] = s.Lo
			n++
			if s.Lo++; s.Lo < s.Hi {
				continue
			}
			if spans = spans[1:]; len(spans) == 0 {
				break
			}
			s = spans[0]
		}
		c.writeSome(rows[:n], w)
		for k := s.Lo; len(spans) > 0 && spans[0].Lo < k && k < spans[0].Hi; {
			rest := Span{k, spans[0].Hi} // of a span that goes on in the next sub-run
			c.writeRows([]Span{rest}, w)
			spans = spans[1:]
			break
		}
	}
}

// writeSome writes the devices of rows of one sub-run, one by one.
func (c *deviceCursor) writeSome(rows []uint32, w *wordWriter) {
	t := &c.block.subRuns
	var numbers [numberedRows]uint16
	firsts := c.block.keys[record.MID].bodyStart()
	for len(rows) > 0 {
		c.device(int(rows[0])) // enters the sub-run
		part := rows[:min(len(rows), numberedRows)]
		passed, absent := c.absent-c.first, c.nextAbsent
		for k, i := range part {
			word := uint(i) >> 6 % uint(len(t.before))
			bit := *(*uint64)(unsafe.Add(firsts, word<<3)) & (2<<(i&63) - 1)
			number := int(t.before[word]) + bits.OnesCount64(bit) + passed
			if number >= absent {
				number = c.device(int(i))
				passed, absent = c.absent-c.first, c.nextAbsent
			}
			numbers[k%numberedRows] = uint16(number)
		}
		t.mids.writeNumbers(numbers[:len(part)], uint(t.devices-1), w)
		rows = rows[len(part):]
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

// writeSelected writes the devices of the rows of sel. Where they lie close together, those of all
// between them are written first, which is faster.
func (c *deviceCursor) writeSelected(sel []uint32, w *wordWriter) {
	t := &c.block.subRuns
	for len(sel) > 0 {
		n := rowsBefore(sel, t.end(t.of(int(sel[0]))))
		if int(sel[n-1]-sel[0]) >= rareRows*n || len(sel)*unpackedDevices < t.devices {
			c.writeSome(sel[:n], w)
			sel = sel[n:]
			continue
		}
		t.loadDevices()
		if isSpan(sel[:n]) {
			c.writeSpan(int(sel[0]), int(sel[0])+n, w)
			sel = sel[n:]
			continue
		}
		for part := sel[:n]; len(part) > 0; {
			k := rowsBefore(part, int(part[0])+decodeRows)
			c.writeWithin(part[:k], w)
			part = part[k:]
		}
		sel = sel[n:]
	}
}

// writeWithin writes the devices of the rows of sel, which lie within decodeRows.
func (c *deviceCursor) writeWithin(sel []uint32, w *wordWriter) {
	var values [decodeRows]int64
	lo := int(sel[0])
	rows := int(sel[len(sel)-1]) + 1 - lo
	c.fill(lo, lo+rows, c.device(lo), values[:rows])
	to := *w
	for _, i := range sel {
		to.put(uint64(values[int(i)-lo]))
	}
	w.at = to.at
}
