package segment

import (
	"encoding/binary"
	"sort"

	"github.com/pentad-db/pentad/sdk/record"
)

// Blocks without runs may have sub-runs: a few stretches of rows, the caps and ranks of which have
// bases of their own, and all one width. So where a row's bits are does not depend on the sub-run.

const (
	maxSubRuns = 8
	// subRunBytes is what the headers have of a sub-run: its end u16, its least cap u32, its
	// least rank u32.
	subRunBytes = 2 + 4 + 4
)

// subRunTable is the sub-runs of an open block. That their ends ascend is known of verified blocks
// only.
type subRunTable struct {
	count, rows  int    // count is 0 where the block has no such table
	ends, leasts []byte // least caps of all, then least ranks
	// Of cap and rank: the base of a sub-run is that of the column + unit * its least value.
	bases, units [2]uint64
}

// subRuns reads where sub-runs end, and the bases of their caps and ranks.
func (p *frontParser) subRuns() {
	t := &p.block.subRuns
	if p.bad || len(p.headers) == 0 {
		p.bad = true
		return
	}
	n := int(p.headers[0])
	h := p.headers[1:]
	if n < 2 || n > maxSubRuns || len(h) < subRunBytes*n {
		p.bad = true
		return
	}
	t.count, t.rows = n, p.rows
	t.ends, t.leasts, p.headers = h[:2*n], h[2*n:subRunBytes*n], h[subRunBytes*n:]
	for k := range t.bases {
		c := &p.block.keys[int(record.Cap)+k]
		t.bases[k], t.units[k] = c.base, c.gcd
		if c.kind == columnClock {
			t.units[k] = c.period
		}
	}
}

// checkSubRuns looks at what parse does not.
func (b *Block) checkSubRuns() (reason string) {
	t, last := &b.subRuns, 0
	for s := range t.count {
		end := int(binary.LittleEndian.Uint16(t.ends[2*s:]))
		if end <= last || s == t.count-1 && end != b.rows {
			return "its sub-runs do not follow each other"
		}
		last = end
	}
	return ""
}

// end returns the position after the last row of a sub-run.
func (t *subRunTable) end(s int) int {
	if s >= t.count-1 {
		return t.rows
	}
	return int(binary.LittleEndian.Uint16(t.ends[2*s:]))
}

// of returns the sub-run that a row is in.
func (t *subRunTable) of(row int) int {
	s := 0
	for s < t.count-1 && t.end(s) <= row {
		s++
	}
	return s
}

// enter gives the caps or ranks the base of the sub-run of a row, and returns them and its end.
func (b *Block) enter(d record.Dim, row int) (c *column, end int) {
	t, c := &b.subRuns, &b.keys[d]
	s := t.of(row)
	c.base = t.base(d, s)
	return c, max(row+1, t.end(s))
}

// base returns that of the caps or ranks of a sub-run.
func (t *subRunTable) base(d record.Dim, s int) uint64 {
	k := int(d - record.Cap)
	least := binary.LittleEndian.Uint32(t.leasts[4*(t.count*k+s):])
	return t.bases[k] + t.units[k]*uint64(least)
}

// hasSubRuns reports whether the values of a dimension have bases for each sub-run.
func (b *Block) hasSubRuns(d record.Dim) bool { return b.subRuns.count > 0 && d >= record.Cap }

// filterSubRuns is FilterSpan for caps or ranks of sub-runs.
func (b *Block) filterSubRuns(
	d record.Dim, set record.RangeSet, lo, hi int, sel []uint32,
) []uint32 {
	for lo < hi {
		c, end := b.enter(d, lo)
		sel = b.filterColumn(c, set, lo, min(end, hi), sel)
		lo = end
	}
	return sel
}

// filterSubRunsSelected is Filter for caps or ranks of sub-runs.
func (b *Block) filterSubRunsSelected(d record.Dim, set record.RangeSet, sel []uint32) []uint32 {
	kept := sel[:0]
	for len(sel) > 0 {
		c, end := b.enter(d, int(sel[0]))
		n := max(1, rowsBefore(sel, end))
		kept = append(kept, b.filterSelected(c, set, sel[:n])...)
		sel = sel[n:]
	}
	return kept
}

// rowsBefore returns how many positions of sel are below end.
func rowsBefore(sel []uint32, end int) int {
	if n := len(sel); int(sel[n-1]) < end {
		return n
	}
	return sort.Search(len(sel), func(k int) bool { return int(sel[k]) >= end })
}
