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
	packed []int64 // starts as they are stored
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

func (t *runTable) reset() {
	t.count, t.loaded = 0, [record.NumDims]bool{}
	t.lines[0].unpacked, t.lines[1].unpacked = false, false
}

// close keeps memory only.
func (t *runTable) close() {
	t.reset()
	t.start = column{}
	for i := range t.lines {
		t.lines[i].base, t.lines[i].slope = column{}, column{}
	}
}

// runs reads the columns of a table of runs, and those of what is left.
func (p *frontParser) runs(flags uint8) {
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
		p.key(d, flags)
	}
	for i := range t.lines {
		p.noteRankBase() // at last that of ranks
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
	if n < fewRows && c.kind == columnFOR {
		for i := range dst {
			dst[i] = int64(c.base + c.gcd*c.packed(i))
		}
		return dst
	}
	span := [1]Span{{0, uint32(n)}}
	w := wordWriterOf(dst)
	c.write(&positions{spans: span[:], n: n}, &w)
	return dst
}

// loadStarts unpacks where runs start, and the number of rows. What damaged bytes say is bent until
// runs follow each other.
func (b *Block) loadStarts() {
	t := &b.runs
	if t.loaded[startsLoaded] {
		return
	}
	t.loaded[startsLoaded] = true
	t.packed = t.start.unpack(t.packed, t.count)
	t.starts = slices.Grow(t.starts[:0], t.count+1)[:t.count+1]
	before, rows, wrong := int64(0), int64(b.rows), int64(0)
	for i, at := range t.packed {
		t.starts[i] = uint32(at)
		wrong |= (at - before) | (rows - at) // below 0 for one that does not follow, or is beyond
		before = at
	}
	if wrong < 0 {
		b.bendStarts()
	}
	t.starts[0], t.starts[t.count] = 0, uint32(rows)
}

// bendStarts makes unpacked starts ascend, and none of them beyond the rows.
func (b *Block) bendStarts() {
	t, last := &b.runs, uint64(0)
	for i, at := range t.packed {
		last = min(max(uint64(at), last), uint64(b.rows))
		t.starts[i] = uint32(last)
	}
}

// runStart returns where a run starts; of the one after the last, the number of rows. Of damaged
// bytes it may be anywhere in the block.
func (b *Block) runStart(run int) uint32 {
	if t := &b.runs; t.loaded[startsLoaded] {
		return t.starts[run]
	}
	return b.packedStart(run)
}

func (b *Block) packedStart(run int) uint32 {
	switch t := &b.runs; run {
	case 0:
		return 0
	case t.count:
		return uint32(b.rows)
	default:
		return uint32(min(t.start.base+t.start.gcd*t.start.packed(run), uint64(b.rows)))
	}
}

// loadFor unpacks where runs start when so many of them are worth it.
func (b *Block) loadFor(runs int) {
	if b.isMany(runs) {
		b.loadStarts()
	}
}

// runsIn returns about in how many runs so many rows are that are next to each other.
func (b *Block) runsIn(rows int) int { return rows*b.runs.count/b.rows + 1 }

// unpackedRuns: looking at one of this many runs, or more, takes as long as unpacking all.
const unpackedRuns = 8

func (b *Block) isMany(runs int) bool { return runs*unpackedRuns > b.runs.count }

// loadMIDs unpacks the devices of the runs.
func (b *Block) loadMIDs() {
	if t := &b.runs; !t.loaded[record.MID] {
		t.mids = b.keys[record.MID].unpack(t.mids, t.count)
		t.loaded[record.MID] = true
	}
}

// runMID returns the device of a run.
func (b *Block) runMID(run int) int64 {
	if b.runs.loaded[record.MID] {
		return b.runs.mids[run]
	}
	return int64(b.keys[record.MID].value(run))
}

// runLine returns the lines of the runs in cap or rank, unpacked where many runs are asked for.
func (b *Block) runLine(d record.Dim, runs int) *line {
	t := &b.runs
	l := &t.lines[d-record.Cap]
	if l.unpacked = t.loaded[d]; !l.unpacked && b.isMany(runs) {
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

// nearRuns is how many runs are tried one after the other before they are searched by halves.
const nearRuns = 4

// runOf returns the run that a row is in, looking first at those from one on. That the next one
// starts after the row is so for damaged bytes, too.
func (b *Block) runOf(row uint32, from int) int {
	lo, hi := 0, b.runs.count
	if from > 0 && b.runStart(from) <= row {
		lo = from
	}
	for near := min(lo+nearRuns, hi-1); lo < near; lo++ {
		if b.runStart(lo+1) > row {
			return lo
		}
	}
	for lo+1 < hi {
		if mid := int(uint(lo+hi) >> 1); b.runStart(mid) <= row {
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
		if b.hasSubRuns(d) {
			c, _ = b.enter(d, row)
		}
		return int64(c.value(row))
	}
	run := b.runOf(uint32(row), 0)
	if d < record.Cap {
		return int64(c.value(run))
	}
	base, slope := b.runLine(d, 1).of(run)
	return base + slope*int64(row-int(b.runStart(run))) + int64(c.value(row))
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
