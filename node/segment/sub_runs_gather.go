package segment

import "github.com/pentad-db/pentad/sdk/record"

// writeSubRuns is write for caps or ranks of sub-runs: all with one base, and then what those of
// sub-runs are more is added to their rows.
func (b *Block) writeSubRuns(d record.Dim, p *positions, out []int64) {
	t, c, w := &b.subRuns, &b.keys[d], wordWriterOf(out)
	if p.sel == nil && p.n < filledRows*len(p.spans) {
		c.base = 0
		c.write(p, &w)
		t.addToFew(d, p.spans, out)
		return
	}
	if p.pieces == nil {
		b.divideBySubRun(p)
	}
	if len(p.pieces) == 1 {
		c.base = t.base(d, int(p.pieces[0].run))
		c.write(p, &w)
		return
	}
	c.base = 0
	c.write(p, &w)
	var bases [maxSubRuns]int64
	for _, s := range p.pieces {
		bases[s.run] = int64(t.base(d, int(s.run)))
	}
	writePieces(out, p.pieces, bases[:], nil, true)
}

// filledRows is from how many rows of a piece on vectors are faster.
const filledRows = 8

// addToFew adds the bases to rows of spans, one by one.
func (t *subRunTable) addToFew(d record.Dim, spans []Span, out []int64) {
	s, k := 0, 0
	base, end := int64(t.base(d, 0)), t.end(0)
	for _, span := range spans {
		for row := int(span.Lo); row < int(span.Hi); row++ {
			if row >= end {
				for row >= end && s < t.count-1 {
					s++
					end = t.end(s)
				}
				base = int64(t.base(d, s))
			}
			out[k] += base
			k++
		}
	}
}

// divideBySubRun fills the pieces of positions: the rows of each sub-run.
func (b *Block) divideBySubRun(p *positions) {
	t, pieces := &b.subRuns, b.pieces[:0]
	for sel := p.sel; len(sel) > 0; {
		s := t.of(int(sel[0]))
		n := max(1, rowsBefore(sel, t.end(s)))
		pieces = append(pieces, piece{run: uint32(s), rows: uint32(n)})
		sel = sel[n:]
	}
	spans := p.spans
	if p.sel != nil {
		spans = nil
	}
	s, rows := 0, uint32(0)
	for _, span := range spans {
		for lo := span.Lo; lo < span.Hi; {
			end := uint32(t.end(s))
			if lo >= end && s < t.count-1 {
				if rows > 0 {
					pieces = append(pieces, piece{run: uint32(s), rows: rows})
				}
				s, rows = s+1, 0
				continue
			}
			end = min(span.Hi, max(end, lo+1))
			lo, rows = end, rows+end-lo
		}
	}
	if rows > 0 {
		pieces = append(pieces, piece{run: uint32(s), rows: rows})
	}
	b.pieces, p.pieces = pieces, pieces
}
