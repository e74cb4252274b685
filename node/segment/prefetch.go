package segment

import (
	"encoding/binary"
	"unsafe"

	"github.com/pentad-db/pentad/sdk/record"
)

const (
	cacheLineBytes = 64
	// frontBytes is what most headers of blocks take.
	frontBytes = 8 * cacheLineBytes
	// maxPrefetchBytes is about what the caches hold besides.
	maxPrefetchBytes = 4 << 10
	// deviceSlackRows is how far a device is found, mostly, from where it would be if ids were
	// even.
	deviceSlackRows = 24
	maxFrameBytes   = 17
	// runTableBytes is what most tables of runs take.
	runTableBytes       = 1 << 10
	prefetchHeaderBytes = blockHeaderBytes + record.NumDims*maxFrameBytes
)

// PrefetchFront has the processor load the front of a block that is opened soon, while it does
// something else.
//
// Cost: a few ns.
func (s *File) PrefetchFront(offset uint64) { s.prefetch(offset, frontBytes) }

// PrefetchColumn does so with the values of a dimension of rows of a block, whose front should have
// been loaded by now.
//
// Cost: some 10 ns, and half a ns for each 64 bytes.
func (s *File) PrefetchColumn(offset uint64, d record.Dim, rows []Span) {
	if from, width, ok := s.columnAt(offset, d); ok {
		s.prefetchRows(from, width, rows)
	}
}

func (s *File) prefetchRows(from, width uint64, rows []Span) {
	for _, r := range rows {
		s.prefetch(from+uint64(r.Lo)*width/8, (uint64(r.Hi-r.Lo)*width+7)/8)
	}
}

// columnAt finds where a column should start, and its width.
func (s *File) columnAt(offset uint64, d record.Dim) (from, width uint64, ok bool) {
	p, ok := s.prefetchParserAt(offset)
	if !ok {
		return 0, 0, false
	}
	for range d {
		p.key()
	}
	from, width = p.key()
	return from, width, true
}

// prefetchParser finds columns by their headers. Nothing is checked: a wrong place does no harm.
// Blocks that number their devices are not looked into.
type prefetchParser struct {
	front []byte // at least of prefetchHeaderBytes
	head  int    // in front
	at    uint64 // in the file
	rows  uint64
	next  record.Dim // of key
	// Whether mid has lines.
	hasLines bool
}

func (s *File) prefetchParserAt(offset uint64) (p prefetchParser, ok bool) {
	if offset > s.end || uint64(len(s.data))-offset < prefetchHeaderBytes {
		return p, false
	}
	p.front = s.data[offset:][:prefetchHeaderBytes]
	if p.front[17]&blockHasRuns != 0 {
		s.prefetch(offset+uint64(binary.LittleEndian.Uint16(p.front[14:])), runTableBytes)
		return p, false
	}
	p.head, p.rows = blockHeaderBytes, uint64(binary.LittleEndian.Uint16(p.front[12:]))
	p.at = offset + uint64(binary.LittleEndian.Uint16(p.front[14:]))
	p.hasLines = p.front[17]&blockHasLines != 0
	return p, p.front[17]&blockHasDictionary == 0
}

// key returns where the next column starts, and its width.
func (p *prefetchParser) key() (from, width uint64) {
	if p.next == record.MID && p.hasLines {
		p.at += uint64(lineBytes * linesOf(int(p.rows)))
	}
	p.next++
	from, width = p.at, uint64(p.front[p.head]&^gcdBit)
	if p.front[p.head]&gcdBit != 0 {
		p.head += 8
	}
	p.head += 9
	p.at += (p.rows*width + 7) / 8
	return from, width
}

func (s *File) prefetch(offset, bytes uint64) {
	if offset < s.end && bytes > 0 {
		lines := (min(bytes, maxPrefetchBytes) + cacheLineBytes - 1) / cacheLineBytes
		prefetch(&s.data[offset], int(lines))
	}
}

// PrefetchColumn does what [File.PrefetchColumn] does with a dimension of the open block.
func (b *Block) PrefetchColumn(d record.Dim, rows []Span) {
	c := &b.keys[d]
	if b.runs.count > 0 && d < record.Cap {
		return
	}
	for width, k := c.meanWidth(), 0; k < len(rows); k++ {
		r := rows[k]
		from, end := int(r.Lo)*width/8, (int(r.Hi)*width+7)/8
		if bytes := min(end-from, maxPrefetchBytes); bytes > 0 {
			prefetch(&c.body[from], (bytes+cacheLineBytes-1)/cacheLineBytes)
		}
	}
}

// PrefetchRows has the processor load columns of rows of the open block that are gathered soon.
//
// Cost: some ns for each column.
func (b *Block) PrefetchRows(rows []Span, columns Columns) {
	b.eachColumn(columns, func(c *column) { c.prefetch(rows) })
}

// eachColumn yields the columns of a set, except those that vary little.
func (b *Block) eachColumn(columns Columns, yield func(c *column)) {
	for _, d := range [...]record.Dim{record.MID, record.Cap, record.Acq} {
		if columns>>d&1 != 0 && (d >= record.Cap || b.runs.count == 0) {
			yield(&b.keys[d])
		}
	}
	if columns&Payloads != 0 && b.kind == payloadFixedColumns {
		words := b.wordColumns
		if prefix := int(columns >> prefixShift); prefix > 0 && prefix < len(words) {
			words = words[:prefix]
		}
		for w := range words {
			yield(&words[w])
		}
	}
}

// PrefetchMIDs has it load the devices of rows.
func (b *Block) PrefetchMIDs(rows []Span) {
	if b.runs.count == 0 {
		b.keys[record.MID].prefetch(rows)
	}
}

func (c *column) prefetch(rows []Span) {
	if width := c.meanWidth(); width > 0 && len(rows) > 0 {
		prefetchRows(unsafe.SliceData(c.body), width, unsafe.SliceData(rows), len(rows))
	}
}

// LikelyMIDs appends the rows at which [Block.SearchMIDs] looks first.
func (b *Block) LikelyMIDs(lo, hi int, m MIDs, dst []Span) []Span {
	if m.all || m.none || lo == hi || b.runs.count > 0 {
		return dst
	}
	rows := float64(hi - 1 - lo)
	first, end := lo+int(m.share*rows), lo+int(m.end*rows)
	around := func(at int) Span {
		return Span{uint32(max(lo, at-deviceSlackRows)), uint32(min(hi, at+deviceSlackRows))}
	}
	if dst = append(dst, around(first)); end > first+nearRows {
		dst = append(dst, around(end))
	}
	return dst
}
