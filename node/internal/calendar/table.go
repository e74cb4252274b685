package calendar

import (
	"math"
	"math/bits"
)

const (
	pageBits = 6 // of a page, 64 cells
	pages    = 1 << 12
	// maxCellBits keeps a page of the longest windows within what int64 can count.
	maxCellBits = 57
)

// Table answers which window holds a time, for times that come in any order. It is filled as it is
// asked, by pages of which it keeps some thousand, so its size depends neither on the span of the
// times nor on their number. It is not safe for concurrent use.
type Table struct {
	walker
	cellBits uint // a cell is 2^cellBits ns, no longer than a window mostly is
	last     *page
	pages    [pages]*page // by the lowest bits of their numbers
}

// page is the windows of 64 cells.
type page struct {
	number int64
	first  [1 << pageBits]uint32 // by cell: the window that holds its start
	starts []int64               // of the windows, and the end of the last
}

// NewTable returns an empty table.
func NewTable(c *Calendar) *Table {
	span := uint64(math.MaxInt64)
	if s := c.span(); s < lastSecond {
		span = uint64(s * secondNs)
	}
	return &Table{walker: walker{Calendar: c},
		cellBits: min(uint(bits.Len64(span)-1), maxCellBits)}
}

// Window returns the window [fromNs, toNs) that holds ns.
func (t *Table) Window(ns int64) (fromNs, toNs int64) {
	ns = min(ns, math.MaxInt64-1) // the greatest of all is in no window
	number := ns >> (t.cellBits + pageBits)
	p := t.last
	if p == nil || p.number != number {
		p = t.page(number)
	}
	i := p.first[ns>>t.cellBits&(1<<pageBits-1)]
	for p.starts[i+1] <= ns {
		i++
	}
	return p.starts[i], p.starts[i+1]
}

func (t *Table) page(number int64) *page {
	slot := &t.pages[number&(pages-1)]
	if *slot == nil || (*slot).number != number {
		*slot = t.fill(number)
	}
	t.last = *slot
	return t.last
}

func (t *Table) fill(number int64) *page {
	p := &page{number: number}
	startNs := number << (t.cellBits + pageBits)
	endNs := startNs + (1<<pageBits-1)<<t.cellBits // the start of the last cell
	endNs += 1<<t.cellBits - 1
	fromNs, toNs := t.window(startNs)
	p.starts = append(p.starts, fromNs, toNs)
	for toNs <= endNs && toNs < math.MaxInt64 {
		_, toNs = t.window(toNs)
		p.starts = append(p.starts, toNs)
	}
	at := uint32(0)
	for cell := range p.first {
		cellNs := startNs + int64(cell)<<t.cellBits
		for p.starts[at+1] <= cellNs {
			at++
		}
		p.first[cell] = at
	}
	return p
}
