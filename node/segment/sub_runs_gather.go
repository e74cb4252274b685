package segment

import (
	"github.com/pentad-db/pentad/sdk/record"
)

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
