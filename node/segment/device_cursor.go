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

// placesOf says, for bits of eight rows without the first, how many devices each of the rows is
// after that of the first.
var placesOf = makePlaces()

func makePlaces() (all [1 << (filledRows - 1)][filledRows]uint8) {
	for set := range all {
		for row := 1; row < filledRows; row++ {
			all[set][row] = all[set][row-1] + uint8(set>>(row-1)&1)
		}
	}
	return all
}

// fill writes the devices of the rows [lo, hi) of a sub-run, which are unpacked. The first is known.
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
		after := number + bits.OnesCount8(set)
		if after >= c.nextAbsent {
			break
		}
		from := (*[filledRows]int64)(mids[c.known(number+int(set&1)):])
		to, places := (*[filledRows]int64)(out[done:]), &placesOf[set>>1]
		to[0] = from[0]
		for k := 1; k < filledRows; k++ {
			to[k] = from[places[k]&(filledRows-1)]
		}
		number = after
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

// writeRows writes the devices of the rows of spans one by one.
func (c *deviceCursor) writeRows(spans []Span, to *wordWriter) {
	w, t := *to, &c.block.subRuns
	var m deviceLoader
	for _, s := range spans {
		lo, hi := int(s.Lo), int(s.Hi)
		for ; lo < hi; lo++ {
			if lo >= c.end || !c.isPlaced {
				if f := &t.found[t.of(lo)]; int(f.first) <= lo && hi <= int(f.end) {
					w.fill(uint64(t.mid(int(f.device))), hi-lo)
					break
				}
				c.enter(lo)
				m = c.loader()
			}
			number := m.place(lo)
			if number >= m.absent {
				number = c.device(lo)
				m = c.loader()
			}
			w.put(m.mid(number))
		}
	}
	to.at = w.at
}

// deviceLoader is what rows of a sub-run are looked up by, in registers.
type deviceLoader struct {
	firsts, mids unsafe.Pointer
	before       *[maxBlockRows / 64]int16
	passed       int // absent devices
	absent       int // the next
	last         uint
	base, gcd    uint64
	width        uint
	mask         uint64
}

func (c *deviceCursor) loader() deviceLoader {
	t := &c.block.subRuns
	return deviceLoader{firsts: c.block.keys[record.MID].bodyStart(), mids: t.mids.bodyStart(),
		before: &t.before, passed: c.absent - c.first, absent: c.nextAbsent,
		last: uint(t.devices - 1), base: t.mids.base, gcd: t.mids.gcd, width: uint(t.mids.width),
		mask: t.mids.maxPacked}
}

// place returns the number of the device of a row, if no absent device comes before it that is not
// passed.
func (m *deviceLoader) place(row int) int {
	word := uint(row) >> 6 % (maxBlockRows / 64)
	firsts := *(*uint64)(unsafe.Add(m.firsts, word<<3))
	return int(m.before[word]) + bits.OnesCount64(firsts&(2<<(row&63)-1)) + m.passed
}

// mid returns a device. Of damaged bytes, there may be more than there are, or none.
func (m *deviceLoader) mid(number int) uint64 {
	return m.base + m.gcd*(loadBits(m.mids, min(uint(number), m.last)*m.width)&m.mask)
}

// writeSelected writes the devices of the rows of sel. Where they lie close together, those of all
// between them are written first, which is faster.
func (c *deviceCursor) writeSelected(sel []uint32, to *wordWriter) {
	w, t := *to, &c.block.subRuns
	for len(sel) > 0 {
		number := c.device(int(sel[0]))
		n := rowsBefore(sel, c.end)
		if int(sel[n-1]-sel[0]) < rareRows*n && len(sel)*unpackedDevices > t.devices {
			t.loadDevices()
			n = rowsBefore(sel, min(c.end, int(sel[0])+decodeRows))
			rows := int(sel[n-1]-sel[0]) + 1
			var values [decodeRows]int64
			c.fill(int(sel[0]), int(sel[0])+rows, number, values[:rows])
			for _, i := range sel[:n] {
				w.put(uint64(values[i-sel[0]]))
			}
		} else {
			m := c.loader()
			for _, i := range sel[:n] {
				number := m.place(int(i))
				if number >= m.absent {
					number = c.device(int(i))
					m = c.loader()
				}
				w.put(m.mid(number))
			}
		}
		sel = sel[n:]
	}
	to.at = w.at
}
