package segment

import (
	"slices"

	"github.com/pentad-db/pentad/sdk/record"
)

// piece is neighbouring rows of one run that are read together.
type piece struct {
	run  uint32
	from uint32 // the first row, counted from the start of the run
	rows uint32 // 1 at least
}

// divide fills the pieces of positions, in the memory of the block.
func (b *Block) divide(p *positions) {
	pieces := b.pieces[:0]
	if p.sel == nil {
		b.loadFor(len(p.spans) + p.n*b.runs.count/b.rows)
		in := b.firstRun()
		for _, s := range p.spans {
			for at := s.Lo; at < s.Hi; {
				in.find(at)
				end := min(in.end, s.Hi)
				pieces = append(pieces, piece{uint32(in.run), at - in.start, end - at})
				at = end
			}
		}
		b.pieces, p.pieces = pieces, pieces
		return
	}
	b.loadFor(min(len(p.sel), b.runsIn(int(p.sel[len(p.sel)-1]-p.sel[0]))))
	in := b.firstRun()
	for rest := p.sel; len(rest) > 0; {
		first := rest[0]
		in.find(first)
		n, most := 1, min(len(rest), int(in.end-first))
		for n < most && rest[n] == first+uint32(n) {
			n++
		}
		pieces = append(pieces, piece{uint32(in.run), first - in.start, uint32(n)})
		rest = rest[n:]
	}
	b.pieces, p.pieces = pieces, pieces
}

// runFinder finds the runs of rows that ascend: mostly the same, or the next.
type runFinder struct {
	*Block
	run        int
	start, end uint32 // of its rows
}

func (b *Block) firstRun() runFinder { return runFinder{b, 0, 0, b.runStart(1)} }

func (f *runFinder) find(row uint32) {
	if row >= f.end { // so it is not the last one
		f.findFrom(row)
	}
}

func (f *runFinder) findFrom(row uint32) {
	f.run, f.start = f.run+1, f.end
	if t := &f.runs; t.loaded[startsLoaded] {
		f.end = t.starts[f.run+1]
	} else {
		f.end = f.packedStart(f.run + 1)
	}
	if row >= f.end {
		f.run = f.runOf(row, f.run)
		f.start, f.end = f.runStart(f.run), f.runStart(f.run+1)
	}
}

// writeRuns is gatherWide for a block with runs.
func (b *Block) writeRuns(d record.Dim, p *positions, out []int64) {
	if p.pieces == nil {
		b.divide(p)
	}
	if d == record.MID {
		b.writeMIDs(p, out)
		return
	}
	c, l := &b.keys[d], b.runLine(d, len(p.pieces))
	add := c.width > 0
	if add {
		w := wordWriterOf(out)
		c.write(p, &w)
	}
	if l.unpacked {
		writePieces(out, p.pieces, l.bases, l.slopes, add)
	} else {
		rest := out
		for _, s := range p.pieces {
			base, slope := l.of(int(s.run))
			writeLine(rest[:s.rows], base+slope*int64(s.from), slope, add)
			rest = rest[s.rows:]
		}
	}
	if rest := int64(c.base); !add && rest != 0 {
		for k := range out {
			out[k] += rest
		}
	}
}

// writeMIDs writes the device of each row.
func (b *Block) writeMIDs(p *positions, out []int64) {
	t := &b.runs
	if b.isMany(len(p.pieces)) {
		b.loadMIDs()
	}
	if t.loaded[record.MID] {
		writePieces(out, p.pieces, t.mids, nil, false)
		return
	}
	for _, s := range p.pieces {
		writeLine(out[:s.rows], b.runMID(int(s.run)), 0, false)
		out = out[s.rows:]
	}
}

// writeNarrow writes the tenant or quantity of each row.
func (b *Block) writeNarrow(c *column, p *positions, out []int32) {
	if p.pieces == nil {
		b.divide(p)
	}
	b.keyValues = c.unpack(b.keyValues, b.runs.count)
	for _, s := range p.pieces {
		fillNarrow(out[:s.rows], int32(b.keyValues[s.run]))
		out = out[s.rows:]
	}
}

// writePiecesByRow writes for each row of pieces base + slope*i of its run, or with add adds that
// to what is there. Without slopes they are 0.
func writePiecesByRow(out []int64, pieces []piece, bases, slopes []int64, add bool) {
	for _, s := range pieces {
		base, slope := bases[s.run], int64(0)
		if slopes != nil {
			slope = slopes[s.run]
		}
		writeLineByRow(out[:s.rows], base+slope*int64(s.from), slope, add)
		out = out[s.rows:]
	}
}

// writeLineByRow is writeLine for rows one by one.
func writeLineByRow(out []int64, base, slope int64, add bool) {
	if !add {
		for k := range out {
			out[k] = base
			base += slope
		}
		return
	}
	for k := range out {
		out[k] += base
		base += slope
	}
}

// values returns caps or ranks of the rows of sel, valid until the next call.
func (b *Block) values(d record.Dim, sel []uint32) []int64 {
	b.keyValues = slices.Grow(b.keyValues[:0], len(sel))[:len(sel)]
	b.writeRuns(d, &positions{sel: sel, n: len(sel)}, b.keyValues)
	return b.keyValues
}
