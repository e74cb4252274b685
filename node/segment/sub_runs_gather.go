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
		if part.sel, part.spans = sel[:part.n], nil; part.n >= fewRows && isSpan(part.sel) {
			one[0] = Span{sel[0], sel[0] + uint32(part.n)}
			part.sel, part.spans = nil, one[:]
		}
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
func (b *Block) writeSubRunsByRow(d record.Dim, p *positions, w *wordWriter) {
	for sel := p.sel; len(sel) > 0; {
		c, end := b.enterOf(d, int(sel[0]))
		n := rowsBefore(sel, end)
		c.writeByRow(&positions{sel: sel[:n]}, w)
		sel = sel[n:]
	}
	if p.sel != nil {
		return
	}
	c, end := b.enterOf(d, int(p.spans[0].Lo))
	if int(p.spans[len(p.spans)-1].Hi) <= end {
		c.writeByRow(p, w)
		return
	}
	b.writeSpansByRow(d, p.spans, w)
}

// writeSpansByRow is writeSubRunsByRow for spans in several sub-runs, of a few rows each.
func (b *Block) writeSpansByRow(d record.Dim, spans []Span, to *wordWriter) {
	w, c, end := *to, &b.keys[d], 0
	width, mask, body, gcd := uint(c.width), c.maxPacked, c.bodyStart(), c.gcd
	base, low, period, lows := uint64(0), c.low&63, c.period, c.lowMask()
	for _, s := range spans {
		for lo, hi := int(s.Lo), int(s.Hi); lo < hi; {
			if lo >= end {
				c, end = b.enterOf(d, lo)
				base = c.base
			}
			stop := min(hi, end)
			for bit := uint(lo) * width; lo < stop; lo++ {
				packed := loadBits(body, bit) & mask
				if bit += width; c.kind == columnClock {
					w.put(base + period*(packed>>low) + gcd*(packed&lows))
				} else {
					w.put(base + gcd*packed)
				}
			}
		}
	}
	to.at = w.at
}

// writeByRow writes values of caps or ranks one by one.
func (c *column) writeByRow(p *positions, w *wordWriter) {
	switch {
	case c.kind == columnClock:
		c.writeClockByRow(p, w)
	case p.sel != nil:
		c.writeSome(p.sel, w)
	default:
		c.writeRows(p.spans, w)
	}
}
