package segment

import "unsafe"

// besideRows is in how many rows, at least, some are decoded so that pieces are loaded beside them.
const besideRows = 512

// Loads are bytes of columns that the processor is to have in its caches soon. All at once they
// would have it wait, since it loads a dozen lines at a time; beside rows that are decoded they
// take next to nothing.
type Loads struct {
	pieces []piece
	next   int
}

// piece is bytes that follow one another.
type piece struct {
	at    unsafe.Pointer
	bytes int
}

// Set makes them what is gathered when parts of rows of an open block are.
func (l *Loads) Set(b *Block, rows []Span, parts Parts) {
	l.pieces, l.next = l.pieces[:0], 0
	b.eachColumn(parts, func(c *column) {
		for _, r := range rows {
			from, end := int(r.Lo)*int(c.width)/8, int(r.Hi)*int(c.width)/8
			l.pieces = append(l.pieces, piece{unsafe.Add(c.bodyStart(), from), end - from + 1})
		}
	})
}

// Beside has them loaded while rows of a block are gathered: at once where the processor has no
// vectors that are wide enough.
func (l *Loads) Beside(b *Block) {
	if loadsBeside() {
		b.loads = l
	} else {
		l.Finish()
	}
}

// Finish loads what is left.
func (l *Loads) Finish() {
	for _, p := range l.pieces[l.next:] {
		prefetch((*byte)(p.at), p.bytes/cacheLineBytes+1)
	}
	l.next = len(l.pieces)
}

func (l *Loads) left() bool { return l != nil && l.next < len(l.pieces) }

// take takes what is loaded beside the next of n rows, and returns beside how many of them, and how
// many bytes with every eight. There are eight rows at least.
func (l *Loads) take(n int) (from *byte, step, rows int) {
	p := &l.pieces[l.next]
	from, rows = (*byte)(p.at), n
	if n >= 2*besideRows && len(l.pieces)-l.next > 1 {
		rows = max(besideRows, n/(len(l.pieces)-l.next)&^7)
	}
	eights := rows / 8
	step = min(cacheLineBytes, (p.bytes+eights-1)/eights)
	if bytes := eights * step; bytes < p.bytes {
		p.at, p.bytes = unsafe.Add(p.at, bytes), p.bytes-bytes
	} else {
		l.next++
	}
	return from, step, rows
}
