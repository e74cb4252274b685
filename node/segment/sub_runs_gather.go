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
	for spans := p.spans; len(spans) > 0; {
		c, end := b.enterOf(d, int(spans[0].Lo))
		n := 0
		if int(spans[len(spans)-1].Hi) <= end {
			n = len(spans)
		}
		for n < len(spans) && int(spans[n].Hi) <= end {
			n++
		}
		if n > 0 {
			c.writeByRow(&positions{spans: spans[:n]}, w)
			spans = spans[n:]
			continue
		}
		for s := spans[0]; s.Lo < s.Hi; { // it is in several sub-runs
			c, end = b.enterOf(d, int(s.Lo))
			one := [1]Span{{s.Lo, min(s.Hi, uint32(end))}}
			c.writeByRow(&positions{spans: one[:]}, w)
			s.Lo = one[0].Hi
		}
		spans = spans[1:]
	}
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
