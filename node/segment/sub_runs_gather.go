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
	end           int // of the sub-run; 0 at first
	word          int // whose rows are looked at
	before        int // devices of the sub-run that start before that, less one
	firsts        uint64
	first, absent int // absents of the sub-run, and of these the first that is not passed
	absentsEnd    int
	nextAbsent    int // device; MaxInt for none
}

// device returns the number of the device of a row.
func (c *deviceCursor) device(row int) int {
	if row >= c.end {
		c.enter(row)
	}
	for c.word < row>>6 {
		c.before += bits.OnesCount64(c.firsts)
		c.word++
		c.firsts = c.block.firsts(c.word)
	}
	number := c.before + bits.OnesCount64(c.firsts&(2<<(row&63)-1)) + c.absent - c.first
	for number >= c.nextAbsent {
		number++
		c.passAbsent(1)
	}
	// Of damaged bytes there may be more, or none.
	return min(max(number, 0), c.block.subRuns.devices-1)
}

// enter goes to the sub-run of a row.
func (c *deviceCursor) enter(row int) {
	t := &c.block.subRuns
	s := t.of(row)
	start := t.start(s)
	c.end, c.word = t.end(s), start>>6
	c.firsts = c.block.firsts(c.word)
	c.before = -1 - bits.OnesCount64(c.firsts&(1<<(start&63)-1))
	c.first, c.absentsEnd = t.absentsOf(s)
	c.absent = c.first
	c.passAbsent(0)
}

// passAbsent goes n devices on among those that the sub-run has no row of.
func (c *deviceCursor) passAbsent(n int) {
	if c.absent += n; c.absent < c.absentsEnd {
		c.nextAbsent = int(c.block.subRuns.absents.packed(c.absent))
	} else {
		c.nextAbsent = math.MaxInt
	}
}

// filledRows is how many rows of a device are written at once; most devices have no more.
const filledRows = 4

// fill writes the devices of the rows [lo, hi) of a sub-run.
func (c *deviceCursor) fill(lo, hi int, mids, out []int64) {
	number, word := c.device(lo), lo>>6
	left := c.firsts &^ (2<<(lo&63) - 1)
	for row := lo; ; {
		for left == 0 && (word+1)<<6 < hi {
			word++
			left = c.block.firsts(word)
		}
		next := min(word<<6+bits.TrailingZeros64(left), hi)
		left &= left - 1
		mid, rest := mids[min(number, len(mids)-1)], out[row-lo:]
		filled := row
		if len(rest) >= filledRows {
			*(*[filledRows]int64)(rest) = [filledRows]int64{mid, mid, mid, mid}
			filled += filledRows
		}
		for ; filled < next; filled++ {
			out[filled-lo] = mid
		}
		if row = next; row == hi { // the next row may be of this device, too
			return
		}
		for number++; number >= c.nextAbsent; number++ {
			c.passAbsent(1)
		}
	}
}

// loadDevices unpacks the devices.
func (t *subRunTable) loadDevices() {
	if !t.isLoaded {
		t.unpacked, t.isLoaded = t.mids.unpack(t.unpacked, t.devices), true
	}
}

// unpackedDevices: looking at one of this many devices, or more, takes as long as unpacking all.
const unpackedDevices = 8

// mid returns a device.
func (t *subRunTable) mid(number int) int64 {
	if t.isLoaded {
		return t.unpacked[number]
	}
	return int64(t.mids.value(number))
}

// writeSubRuns is write for devices, caps or ranks of sub-runs.
func (b *Block) writeSubRuns(d record.Dim, p *positions, w *wordWriter) {
	if d == record.MID {
		b.writeDevices(p, w)
		return
	}
	if p.sel == nil && p.n < fewRows*len(p.spans) ||
		p.sel != nil && p.n < fewRows*b.subRuns.count {
		b.writeSubRunsByRow(d, p, w)
		return
	}
	var one [1]Span
	part := positions{prefetchQueue: p.prefetchQueue}
	for sel := p.sel; len(sel) > 0; sel = sel[part.n:] {
		c, end := b.enterOf(d, int(sel[0]))
		part.n = rowsBefore(sel, end)
		part.sel = sel[:part.n]
		c.write(&part, w)
	}
	if p.sel != nil {
		return
	}
	for _, s := range p.spans {
		for s.Lo < s.Hi {
			c, end := b.enterOf(d, int(s.Lo))
			one[0] = Span{s.Lo, min(s.Hi, uint32(end))}
			part.spans, part.n = one[:], int(one[0].Hi-s.Lo)
			c.write(&part, w)
			s.Lo = one[0].Hi
		}
	}
}

// writeSubRunsByRow is writeSubRuns for caps or ranks, one by one.
func (b *Block) writeSubRunsByRow(d record.Dim, p *positions, to *wordWriter) {
	w, c, end := *to, &b.keys[d], 0
	width, mask, body := uint(c.width), c.maxPacked, c.bodyStart()
	// Of a column without a clock, all of a value is below its tick.
	base, low, period, gcd := uint64(0), uint(64), uint64(0), c.gcd
	if c.kind == columnClock {
		low, period = uint(c.low), c.period
	}
	lows := uint64(1)<<low - 1
	for _, i := range p.sel {
		if int(i) >= end {
			c, end = b.enterOf(d, int(i))
			base = c.base
		}
		packed := loadBits(body, uint(i)*width) & mask
		w.put(base + period*(packed>>low) + gcd*(packed&lows))
	}
	for k := 0; p.sel == nil && k < len(p.spans); k++ {
		for lo, hi := int(p.spans[k].Lo), int(p.spans[k].Hi); lo < hi; {
			if lo >= end {
				c, end = b.enterOf(d, lo)
				base = c.base
			}
			for stop := min(hi, end); lo < stop; lo++ {
				packed := loadBits(body, uint(lo)*width) & mask
				if period == 0 {
					w.put(base + gcd*packed)
				} else {
					w.put(base + period*(packed>>(low&63)) + gcd*(packed&lows))
				}
			}
		}
	}
	to.at = w.at
}

// writeDevices is writeSubRuns for devices.
func (b *Block) writeDevices(p *positions, w *wordWriter) {
	t := &b.subRuns
	if p.n*unpackedDevices > t.devices {
		t.loadDevices()
	}
	of := deviceCursor{block: b}
	if p.sel != nil || p.n < fewRows*len(p.spans) || !t.isLoaded {
		of.writeRows(p, w)
		return
	}
	for _, s := range p.spans {
		for lo, hi := int(s.Lo), int(s.Hi); lo < hi; {
			if lo >= of.end {
				of.enter(lo)
			}
			end := min(hi, of.end)
			of.fill(lo, end, t.unpacked, unsafe.Slice((*int64)(unsafe.Add(w.out, w.at)), end-lo))
			w.at += uintptr(end-lo) * wordBytes
			lo = end
		}
	}
}

// writeRows writes the devices of rows one by one. It is [deviceCursor.device] in a loop, in
// registers.
func (c *deviceCursor) writeRows(p *positions, to *wordWriter) {
	t, w := &c.block.subRuns, *to
	end, word, before, firsts, next := 0, 0, 0, uint64(0), 0
	mids := t.unpacked
	for k, n := 0, max(len(p.sel), len(p.spans)); k < n; k++ {
		var s Span
		if p.sel != nil {
			s = Span{p.sel[k], p.sel[k] + 1}
		} else {
			s = p.spans[k]
		}
		for lo, hi := int(s.Lo), int(s.Hi); lo < hi; lo++ {
			if lo >= end {
				if f := &t.found[t.of(lo)]; int(f.first) <= lo && hi <= int(f.end) {
					w.fill(uint64(t.mid(int(f.device))), hi-lo)
					break
				}
				c.enter(lo)
				end, word, before, firsts, next = c.end, c.word, c.before, c.firsts, c.nextAbsent
			}
			for ; word < lo>>6; word++ {
				before += bits.OnesCount64(firsts)
				firsts = c.block.firsts(word + 1)
			}
			number := before + bits.OnesCount64(firsts&(2<<(lo&63)-1))
			for number >= next {
				c.passAbsent(1)
				number, before, next = number+1, before+1, c.nextAbsent
			}
			number = int(min(uint(number), uint(t.devices-1)))
			if t.isLoaded {
				w.put(uint64(mids[number]))
			} else {
				w.put(t.mids.base + t.mids.gcd*t.mids.packed(number))
			}
		}
	}
	to.at = w.at
}
