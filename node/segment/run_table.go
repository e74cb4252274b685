package segment

import (
	"encoding/binary"
	"slices"
	"unsafe"

	"github.com/pentad-db/pentad/sdk/record"
)

// A run is a stretch of rows of one series whose caps ascend. Tenant, device and quantity are those
// of the run; cap and rank of its row k are base + slope*k + what is left, which is a column.

// runTable is the runs of an open block. Its columns have an entry for each run. What they hold is
// unpacked when it is first asked for.
type runTable struct {
	count  int // of runs; 0: the block has no such table
	start  column
	lines  [2]line // of cap and rank
	starts []uint32
	mids   []int64
	loaded [record.NumDims]bool // starts instead of tenants, and lines
}

// line is what runs have of a dimension.
type line struct {
	base, slope   column
	bases, slopes []int64
	unpacked      bool
}

const startsLoaded = record.CID // in loaded

func (t *runTable) reset() { t.count, t.loaded = 0, [record.NumDims]bool{} }

// close keeps memory only.
func (t *runTable) close() {
	t.reset()
	t.start = column{}
	for i := range t.lines {
		t.lines[i].base, t.lines[i].slope = column{}, column{}
	}
}

// runs reads the columns of a table of runs, and those of what is left.
func (p *frontParser) runs(dictionary bool) {
	t, rows := &p.block.runs, p.rows
	if len(p.headers) < 2 {
		p.bad = true
		return
	}
	t.count, p.headers = int(binary.LittleEndian.Uint16(p.headers)), p.headers[2:]
	if t.count == 0 || t.count > rows {
		t.count, p.bad = 0, true
		return
	}
	p.rows = t.count
	p.column(&t.start)
	for d := record.CID; d <= record.MOID; d++ {
		p.key(d, dictionary)
	}
	for i := range t.lines {
		p.column(&t.lines[i].base)
		p.column(&t.lines[i].slope)
	}
	p.rows = rows
	for d := record.Cap; d <= record.Acq; d++ {
		c := &p.block.keys[d]
		c.kind, c.table = columnFOR, nil
		p.framable(c)
	}
}

// checkRuns looks at what loading a table bends.
func (b *Block) checkRuns() (reason string) {
	t := &b.runs
	last := -1
	for i := range t.count {
		at := t.start.value(i)
		if at >= uint64(b.rows) || int(at) <= last || i == 0 && at != 0 {
			return "its runs do not follow each other"
		}
		last = int(at)
	}
	for d := record.Cap; d <= record.Acq && t.count > 0; d++ {
		if !b.keys[d].checkFrames() {
			return "frames of " + d.String() + " cannot be"
		}
	}
	return ""
}

// keyRows returns how many values the columns of tenants, devices and quantities have.
func (b *Block) keyRows() int {
	if b.runs.count > 0 {
		return b.runs.count
	}
	return b.rows
}

// unpack decodes the first n values of a column.
func (c *column) unpack(dst []int64, n int) []int64 {
	dst = slices.Grow(dst[:0], n)[:n]
	span := [1]Span{{0, uint32(n)}}
	w := wordWriterOf(dst)
	c.write(&positions{spans: span[:], n: n}, &w)
	return dst
}

// runStarts returns where runs start, and the number of rows. What damaged bytes say is bent until
// runs follow each other.
func (b *Block) runStarts() []uint32 {
	t := &b.runs
	if t.loaded[startsLoaded] {
		return t.starts
	}
	t.loaded[startsLoaded] = true
	t.starts = slices.Grow(t.starts[:0], t.count+1)[:t.count+1]
	last, rows := uint64(0), uint64(b.rows)
	c := &t.start
	bit, width, body := uint(0), uint(c.width), c.bodyStart()
	for i := range t.starts[:t.count] {
		at := c.base + c.gcd*(loadBits(body, bit)&c.maxPacked)
		bit += width
		last = min(max(at, last), rows)
		t.starts[i] = uint32(last)
	}
	t.starts[0], t.starts[t.count] = 0, uint32(rows)
	return t.starts
}

// runMID returns the device of a run.
func (b *Block) runMID(run int) int64 {
	if b.runs.loaded[record.MID] {
		return b.runs.mids[run]
	}
	return int64(b.keys[record.MID].value(run))
}

// runLine returns the lines of the runs in cap or rank, unpacked where many rows are asked for.
func (b *Block) runLine(d record.Dim, rows int) *line {
	t := &b.runs
	l := &t.lines[d-record.Cap]
	if l.unpacked = t.loaded[d]; !l.unpacked && rows > t.count {
		l.bases = l.base.unpack(l.bases, t.count)
		l.slopes = l.slope.unpack(l.slopes, t.count)
		t.loaded[d], l.unpacked = true, true
	}
	return l
}

// of returns the line of a run.
func (l *line) of(run int) (base, slope int64) {
	if l.unpacked {
		return l.bases[run], l.slopes[run]
	}
	return int64(l.base.base + l.base.gcd*l.base.packed(run)),
		int64(l.slope.base + l.slope.gcd*l.slope.packed(run))
}

// runOf returns the run that a row is in, of those from one on.
func runOf(starts []uint32, row uint32, from int) int {
	next := from + 1
	if next < len(starts) && starts[next] > row && starts[from] <= row {
		return from
	}
	if next+1 < len(starts) && starts[next+1] > row && starts[next] <= row {
		return next
	}
	lo, hi := 0, len(starts)-1
	for lo+1 < hi {
		if mid := int(uint(lo+hi) >> 1); starts[mid] <= row {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// key returns a part of the key of a row; of [record.Acq], the rank.
func (b *Block) key(d record.Dim, row int) int64 {
	c := &b.keys[d]
	if b.runs.count == 0 {
		return int64(c.value(row))
	}
	starts := b.runStarts()
	run := runOf(starts, uint32(row), 0)
	if d < record.Cap {
		return int64(c.value(run))
	}
	base, slope := b.runLine(d, 1).of(run)
	return base + slope*int64(row-int(starts[run])) + int64(c.value(row))
}

// writeRuns is gatherWide for a block with runs.
func (b *Block) writeRuns(d record.Dim, p *positions, out []int64) {
	if d == record.MID {
		b.writeMIDs(p, out)
		return
	}
	c, l := &b.keys[d], b.runLine(d, p.n)
	rest := int64(0)
	if c.width == 0 {
		rest = int64(c.base)
		if p.sel != nil {
			clear(out)
		}
	} else {
		w := wordWriterOf(out)
		c.write(p, &w)
	}
	starts, run := b.runStarts(), 0
	if p.sel != nil {
		for k, i := range p.sel {
			run = runOf(starts, i, run)
			base, slope := l.of(run)
			out[k] += rest + base + slope*int64(i-starts[run])
		}
		return
	}
	for _, s := range p.spans {
		for at := s.Lo; at < s.Hi; {
			run = runOf(starts, at, run)
			end := min(starts[run+1], s.Hi)
			base, slope := l.of(run)
			base += rest + slope*int64(at-starts[run])
			writeLine(out[:end-at], base, slope, c.width > 0)
			at, out = end, out[end-at:]
		}
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

// writeMIDs writes the device of each row.
func (b *Block) writeMIDs(p *positions, out []int64) {
	t := &b.runs
	if p.n > t.count && !t.loaded[record.MID] {
		t.mids = b.keys[record.MID].unpack(t.mids, t.count)
		t.loaded[record.MID] = true
	}
	starts, run := b.runStarts(), 0
	for k, i := range p.sel {
		run = runOf(starts, i, run)
		out[k] = b.runMID(run)
	}
	for _, s := range p.spans {
		for at := s.Lo; at < s.Hi; {
			run = runOf(starts, at, run)
			end := min(starts[run+1], s.Hi)
			writeLine(out[:end-at], b.runMID(run), 0, false)
			at, out = end, out[end-at:]
		}
	}
}

// writeNarrow writes the tenant or quantity of each row.
func writeNarrow(p *positions, starts []uint32, values []int64, out []int32) {
	run := 0
	for k, i := range p.sel {
		run = runOf(starts, i, run)
		out[k] = int32(values[run])
	}
	for _, s := range p.spans {
		for at := s.Lo; at < s.Hi; {
			run = runOf(starts, at, run)
			end := min(starts[run+1], s.Hi)
			fillNarrow(out[:end-at], int32(values[run]))
			at, out = end, out[end-at:]
		}
	}
}

// fillNarrow sets all values of a column of 32 bits, two at a time.
func fillNarrow(out []int32, v int32) {
	if pairs := len(out) / 2; pairs > 0 {
		both := int64(uint64(uint32(v))<<32 | uint64(uint32(v)))
		writeLine(unsafe.Slice((*int64)(unsafe.Pointer(&out[0])), pairs), both, 0, false)
	}
	if n := len(out); n%2 == 1 {
		out[n-1] = v
	}
}
