package segment

import (
	"encoding/binary"

	"github.com/pentad-db/pentad/sdk/record"
)

// writeSubRuns is write for caps or ranks of sub-runs: all as in the first, and then what the least
// of a sub-run is more is added to its rows.
func (b *Block) writeSubRuns(d record.Dim, p *positions, out []int64) {
	t, c := &b.subRuns, &b.keys[d]
	c.base = t.bases[d-record.Cap]
	w := wordWriterOf(out)
	c.write(p, &w)
	for sel := p.sel; len(sel) > 0; {
		s := t.of(int(sel[0]))
		n := rowsBefore(sel, t.end(s))
		addTo(out[:n], t.above(d, s))
		sel, out = sel[n:], out[n:]
	}
	if p.sel != nil {
		return
	}
	s, rows := 0, 0 // rows of the sub-run
	for _, span := range p.spans {
		for lo, hi := int(span.Lo), int(span.Hi); lo < hi; {
			end := t.end(s)
			if lo >= end {
				addTo(out[:rows], t.above(d, s))
				out, rows = out[rows:], 0
				s = t.of(lo)
				end = t.end(s)
			}
			end = min(hi, end)
			lo, rows = end, rows+end-lo
		}
	}
	addTo(out, t.above(d, s))
}

// above returns what the base of a sub-run is more than that of the column.
func (t *subRunTable) above(d record.Dim, s int) uint64 {
	k := int(d - record.Cap)
	return t.units[k] * uint64(binary.LittleEndian.Uint32(t.leasts[4*(t.count*k+s):]))
}

// addTo adds a number to others.
func addTo(out []int64, v uint64) {
	switch {
	case v == 0:
	case len(out) >= filledRows:
		writeLine(out, int64(v), 0, true)
	default:
		for i := range out {
			out[i] += int64(v)
		}
	}
}

// filledRows is from how many rows on vectors are faster.
const filledRows = 8
