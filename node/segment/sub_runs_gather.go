package segment

import "github.com/pentad-db/pentad/sdk/record"

// writeSubRuns is write for caps or ranks of sub-runs: all with one base, and then what those of
// sub-runs are more is added to their rows.
func (b *Block) writeSubRuns(d record.Dim, p *positions, out []int64) {
	if p.pieces == nil {
		b.divideBySubRun(p)
	}
	t, c, w := &b.subRuns, &b.keys[d], wordWriterOf(out)
	if len(p.pieces) == 1 {
		c.base = t.base(d, int(p.pieces[0].run))
		c.write(p, &w)
		return
	}
	c.base = 0
	c.write(p, &w)
	if p.n < filledRows*len(p.pieces) {
		for _, s := range p.pieces {
			base := int64(t.base(d, int(s.run)))
			for k := range out[:s.rows] {
				out[k] += base
			}
			out = out[s.rows:]
		}
		return
	}
	var bases [maxSubRuns]int64
	for _, s := range p.pieces {
		bases[s.run] = int64(t.base(d, int(s.run)))
	}
	writePieces(out, p.pieces, bases[:], nil, true)
}

// filledRows is from how many rows of a piece on vectors are faster.
const filledRows = 8

// divideBySubRun fills the pieces of positions: the rows of each sub-run.
func (b *Block) divideBySubRun(p *positions) {
	t, pieces := &b.subRuns, b.pieces[:0]
	for sel := p.sel; len(sel) > 0; {
		s := t.of(int(sel[0]))
		n := rowsBefore(sel, t.end(s))
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
			if lo >= end {
				if rows > 0 {
					pieces = append(pieces, piece{run: uint32(s), rows: rows})
				}
				s, rows = s+1, 0
				continue
			}
			end = min(span.Hi, end)
			lo, rows = end, rows+end-lo
		}
	}
	if rows > 0 {
		pieces = append(pieces, piece{run: uint32(s), rows: rows})
	}
	b.pieces, p.pieces = pieces, pieces
}
