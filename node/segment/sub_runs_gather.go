package segment

import "github.com/pentad-db/pentad/sdk/record"

// writeSubRuns is write for caps or ranks of sub-runs.
func (b *Block) writeSubRuns(d record.Dim, p *positions, w *wordWriter) {
	part := positions{prefetchQueue: p.prefetchQueue}
	for sel := p.sel; len(sel) > 0; sel = sel[part.n:] {
		c, end := b.enter(d, int(sel[0]))
		part.n = rowsBefore(sel, end)
		part.sel = sel[:part.n]
		c.write(&part, w)
	}
	switch {
	case p.sel != nil:
	case p.n < fewRows*len(p.spans):
		b.writeSpansByRow(d, p.spans, w)
	default:
		var one [1]Span
		part.spans = one[:]
		for _, s := range p.spans {
			for s.Lo < s.Hi {
				c, end := b.enter(d, int(s.Lo))
				one[0] = Span{s.Lo, min(s.Hi, uint32(end))}
				part.n = int(one[0].Hi - s.Lo)
				c.write(&part, w)
				s.Lo = one[0].Hi
			}
		}
	}
}

// writeSpansByRow is writeSubRuns for spans of a few rows each.
func (b *Block) writeSpansByRow(d record.Dim, spans []Span, to *wordWriter) {
	w, c, end := *to, &b.keys[d], 0
	width, mask, body, gcd := uint(c.width), c.maxPacked, c.bodyStart(), c.gcd
	base, low, period, lows := uint64(0), c.low&63, c.period, c.lowMask()
	for _, s := range spans {
		for lo, hi := int(s.Lo), int(s.Hi); lo < hi; {
			if lo >= end {
				c, end = b.enter(d, lo)
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
