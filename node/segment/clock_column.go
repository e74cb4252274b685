package segment

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"time"
	"unsafe"

	"github.com/pentad-db/pentad/sdk/record"
)

// A column of caps has a clock where these lie within a short time after the ticks of one: value
// = base + period*(packed >> low) + gcd*(packed mod 2^low). Packed values ascend with values.

const (
	clockHeaderBytes = 1 + 8 // bits of a packed value below its tick u8, period u64
	// clockSamples is how many caps of a block are looked at for a clock.
	clockSamples = 64
	// clockSaving is how many bits a row a clock saves at least.
	clockSaving = 2
)

// clockPeriods are those that are tried: what is read at ticks is read at round times.
var clockPeriods = [...]time.Duration{time.Second, 5 * time.Second, 10 * time.Second,
	15 * time.Second, 20 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute,
	5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 20 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour}

// appendCaps appends the column of caps in values, which lie between lo and hi, with a clock where
// that is smaller.
func (e *encoder) appendCaps(lo, hi int64) (hasClock bool) {
	f, low, period, ok := e.packClock(lo, hi)
	plain, caps := rebase(e.values, lo, hi), &e.subRuns
	caps.rebase(e.values, &plain, 0, &caps.leastCaps)
	if ok {
		caps.rebase(e.best, &f, low, &caps.leastTicks)
	}
	if !ok || f.width+clockSaving > plain.width {
		e.columnHeaders = appendFOR(e.columnHeaders, &plain)
		e.columnData = appendPacked(e.columnData, e.values, plain.width)
		return false
	}
	caps.leastCaps = caps.leastTicks
	e.columnHeaders = appendFOR(e.columnHeaders, &f)
	e.clockHeader = binary.LittleEndian.AppendUint64(append(e.clockHeader[:0], low), period)
	e.columnData = appendPacked(e.columnData, e.best, f.width)
	return true
}

// packClock packs values into best by a clock, if there is one.
func (e *encoder) packClock(lo, hi int64) (f forCoding, low uint8, period uint64, ok bool) {
	if lo < -maxLine || hi > maxLine {
		return f, 0, 0, false
	}
	if period, ok = e.findPeriod(lo, hi); !ok {
		return f, 0, 0, false
	}
	ahead := period / 2 // the least cap is not far from its tick
	n := len(e.values)
	e.best, e.spare = slices.Grow(e.best[:0], n)[:n], slices.Grow(e.spare[:0], n)[:n]
	least := uint64(math.MaxUint64)
	for i, v := range e.values {
		since := v - uint64(lo) + ahead
		tick := since / period
		e.spare[i], e.best[i] = tick, since-tick*period
		least = min(least, e.best[i])
	}
	any := uint64(0)
	for i := range e.best {
		e.best[i] -= least
		any |= e.best[i]
	}
	f = forCoding{base: uint64(lo) - ahead + least, gcd: 1}
	if any != 0 {
		f.gcd = commonDivisor(e.best)
		low = widthOf(slices.Max(e.best) / f.gcd)
	}
	ticks := bits.Len64(slices.Max(e.spare))
	if int(low)+ticks > maxPackedWidth || (1<<low-1) > (period-1)/f.gcd {
		return f, 0, 0, false
	}
	f.width = low + uint8(ticks)
	for i, tick := range e.spare {
		e.best[i] = tick<<low | e.best[i]/f.gcd
	}
	return f, low, period, true
}

// findPeriod looks at some values for the period of the clock with which they take least.
func (e *encoder) findPeriod(lo, hi int64) (found uint64, ok bool) {
	n := min(clockSamples, len(e.values))
	samples, span := e.dict[:0], uint64(hi)-uint64(lo)
	any := uint64(0)
	for i := range n {
		samples = append(samples, e.values[i*len(e.values)/n]-uint64(lo))
		any |= samples[i]
	}
	e.dict = samples
	if any == 0 {
		return 0, false
	}
	unit := commonDivisor(samples)
	best := bits.Len64(span/unit) - clockSaving
	for _, d := range clockPeriods {
		period := uint64(d)
		if period > span || period%unit != 0 {
			continue
		}
		least, most := period, uint64(0)
		for _, v := range samples {
			r := (v + period/2) % period
			least, most = min(least, r), max(most, r)
		}
		if w := bits.Len64((most-least)/unit) + bits.Len64(span/period); w <= best {
			best, found, ok = w-1, period, true
		}
	}
	return found, ok
}

// clock reads the clock of the caps.
func (p *frontParser) clock() {
	if p.bad || len(p.headers) < clockHeaderBytes {
		p.bad = true
		return
	}
	c := &p.block.keys[record.Cap]
	c.kind, c.low, c.period = columnClock, p.headers[0], binary.LittleEndian.Uint64(p.headers[1:])
	p.headers = p.headers[clockHeaderBytes:]
	p.bad = c.low > c.width || c.width > maxPackedWidth || c.period == 0 ||
		c.lowMask() > (c.period-1)/c.gcd
}

func (c *column) lowMask() uint64 { return 1<<c.low - 1 }

// onClock returns the value of a packed one.
func (c *column) onClock(packed uint64) uint64 {
	return c.base + c.period*(packed>>c.low) + c.gcd*(packed&c.lowMask())
}

// writeClock is write for a column with a clock.
func (c *column) writeClock(p *positions, to *wordWriter) {
	if p.sel == nil && p.n < fewRows*len(p.spans) || p.sel != nil &&
		(p.n < fewRows || int(p.sel[p.n-1]-p.sel[0]) > rareRows*p.n) {
		c.writeClockByRow(p, to)
		return
	}
	at, plain := to.at, *c
	plain.kind, plain.base, plain.gcd = columnFOR, 0, 1
	plain.write(p, to)
	base, period, low, gcd, mask := c.base, c.period, c.low&63, c.gcd, c.lowMask()
	if to.stride == wordBytes {
		at += wordBytes * uintptr(c.decodeClock(unsafe.Add(to.out, at), int(to.at-at)/wordBytes))
	}
	for ; at < to.at; at += to.stride {
		v := (*[8]byte)(unsafe.Add(to.out, at))
		packed := binary.LittleEndian.Uint64(v[:])
		binary.LittleEndian.PutUint64(v[:], base+period*(packed>>low)+gcd*(packed&mask))
	}
}

func (c *column) writeClockByRow(p *positions, to *wordWriter) {
	w := *to
	width, mask, body := uint(c.width), c.maxPacked, c.bodyStart()
	base, period, low, gcd, lows := c.base, c.period, c.low&63, c.gcd, c.lowMask()
	for _, i := range p.sel {
		packed := loadBits(body, uint(i)*width) & mask
		w.put(base + period*(packed>>low) + gcd*(packed&lows))
	}
	for k := 0; p.sel == nil && k < len(p.spans); k++ {
		for i := p.spans[k].Lo; i < p.spans[k].Hi; i++ {
			packed := loadBits(body, uint(i)*width) & mask
			w.put(base + period*(packed>>low) + gcd*(packed&lows))
		}
	}
	to.at = w.at
}

// translateClock is translate for a column with a clock.
func (c *column) translateClock(set record.RangeSet, dst []match) (matches []match, all bool) {
	near := set
	if len(set) > manyMatches {
		near = set.Near(int64(c.base), int64(min(c.onClock(c.maxPacked), math.MaxInt64)))
	}
	for _, r := range near {
		if r.To <= int64(c.base) || r.From >= r.To {
			continue
		}
		low, end := c.ceilClock(r.From), c.ceilClock(r.To)
		if low > c.maxPacked {
			break // and so does what follows
		}
		if low < end {
			dst = append(dst, match{low, end - 1 - low})
			all = all || low == 0 && end > c.maxPacked
		}
	}
	return dst, all || len(set) == 0
}

// ceilClock returns the least packed value whose value is at least v, at most one more than the
// greatest.
func (c *column) ceilClock(v int64) uint64 {
	if v <= int64(c.base) {
		return 0
	}
	since := uint64(v) - c.base
	tick := since / c.period
	rest := (since - tick*c.period + c.gcd - 1) / c.gcd
	if rest > c.lowMask() {
		tick, rest = tick+1, 0
	}
	if tick > c.maxPacked>>c.low {
		return c.maxPacked + 1
	}
	return tick<<c.low | rest
}

// packOnClock is pack for a column with a clock.
func (c *column) packOnClock(v int64) (packed uint64, ok bool) {
	packed = c.ceilClock(v)
	return packed, packed <= c.maxPacked && c.onClock(packed) == uint64(v)
}
