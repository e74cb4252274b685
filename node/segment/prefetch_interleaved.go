package segment

import "unsafe"

// minInterleavedRows is the least number of rows that are decoded together with the prefetch of one
// range.
const minInterleavedRows = 512

// PrefetchQueue is a list of byte ranges of columns to load into the processor's caches. Requested
// at once they would stall it, since it has a dozen cache lines in progress at most; interleaved
// with the decoding of other rows they cost next to nothing.
type PrefetchQueue struct {
	ranges []byteRange
	at     int
}

// byteRange is a run of bytes in memory.
type byteRange struct {
	at    unsafe.Pointer
	bytes int
}

// Set replaces the ranges by those of some columns of rows of an open block.
func (l *PrefetchQueue) Set(b *Block, rows []Span, columns Columns) {
	l.ranges, l.at = l.ranges[:0], 0
	b.eachColumn(columns, func(c *column) {
		for _, r := range rows {
			width := c.meanWidth()
			from, end := int(r.Lo)*width/8, int(r.Hi)*width/8
			l.ranges = append(l.ranges, byteRange{unsafe.Add(c.bodyStart(), from), end - from + 1})
		}
	})
}

// Attach makes the next gather of rows of a block load the ranges as it decodes. Without wide
// enough vectors it loads all of them now.
func (l *PrefetchQueue) Attach(b *Block) {
	if interleavesPrefetch() {
		b.prefetchQueue = l
	} else {
		l.Finish()
	}
}

// Finish loads the ranges that are left.
func (l *PrefetchQueue) Finish() {
	for _, p := range l.ranges[l.at:] {
		prefetch((*byte)(p.at), p.bytes/cacheLineBytes+1)
	}
	l.at = len(l.ranges)
}

func (l *PrefetchQueue) pending() bool { return l != nil && l.at < len(l.ranges) }

// next takes what is loaded beside the next of n rows, and returns beside how many of them, and how
// many bytes with every eight. There are eight rows at least.
func (l *PrefetchQueue) next(n int) (from *byte, step, rows int) {
	p := &l.ranges[l.at]
	from, rows = (*byte)(p.at), n
	if n >= 2*minInterleavedRows && len(l.ranges)-l.at > 1 {
		rows = max(minInterleavedRows, n/(len(l.ranges)-l.at)&^7)
	}
	eights := rows / 8
	step = min(cacheLineBytes, (p.bytes+eights-1)/eights)
	if bytes := eights * step; bytes < p.bytes {
		p.at, p.bytes = unsafe.Add(p.at, bytes), p.bytes-bytes
	} else {
		l.at++
	}
	return from, step, rows
}
