package index

import (
	"sort"

	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// rowGroupShift: a row group holds up to 16,384 rows, and after rowGroupBytes of payloads no
	// more. But for the first, memory is made for a whole one, so that growing copies nothing, and
	// the heads of a node with many Raft groups have little that they do not need.
	rowGroupShift = 14
	rowGroupRows  = 1 << rowGroupShift
	rowGroupBytes = 64 << 20
)

// rowID is where a row of a head lies: its row group, and its number there in the low bits. They
// ascend in order of arrival.
type rowID uint32

// rowGroup is consecutive rows of a head in order of arrival.
type rowGroup struct {
	rows             record.Batch
	first            int      // rows before it
	flagged          []uint64 // bitmap: the row may supersede an older one
	supersedesInHead []uint64 // bitmap: the row may supersede one of this head
}

// appendedRows are the rows of a head in order of arrival.
type appendedRows struct {
	groups []*rowGroup
	memory memory
}

// append copies rows of a batch from a number on, as many as the last group takes, and returns
// their number.
func (a *appendedRows) append(b *record.Batch, from int) int {
	last := len(a.groups) - 1
	if last < 0 || !a.groups[last].takes(b, from) {
		a.groups = append(a.groups, a.newRowGroup())
		last++
	}
	g := a.groups[last]
	at := g.rows.Len()
	n := min(b.Len()-from, rowGroupRows-at)
	bytes := payloadBytes(b, from, from+n)
	g.grow(a.memoryFor(n, bytes), n, bytes, b.Offsets != nil)
	g.rows.AppendRows(b, from, from+n)
	for len(g.flagged) < (at+n+63)/64 {
		g.flagged, g.supersedesInHead = append(g.flagged, 0), append(g.supersedesInHead, 0)
	}
	return n
}

// takes reports whether there is space for rows of a batch. A row group that is empty takes any
// payload.
func (g *rowGroup) takes(b *record.Batch, from int) bool {
	at := g.rows.Len()
	return at == 0 || at < rowGroupRows && len(g.rows.Data)+
		payloadBytes(b, from, from+min(b.Len()-from, rowGroupRows-at)) <= rowGroupBytes
}

// payloadBytes returns how much the payloads of some rows are.
func payloadBytes(b *record.Batch, from, to int) int {
	if b.Offsets == nil {
		return (to - from) * b.Stride
	}
	return int(b.Offsets[to] - b.Offsets[from])
}

// memoryFor returns what so many rows and bytes more are to lie in, nil for the heap.
func (a *appendedRows) memoryFor(rows, bytes int) *memory {
	if first := &a.groups[0].rows; len(a.groups) == 1 && first.Len()+rows < slabRows &&
		len(first.Data)+bytes < slabBytes {
		return nil
	}
	return &a.memory
}

// grow makes space for some more rows. On the heap it doubles: append makes less of it, and would
// copy the rows of small heads several times. From a memory, which takes nothing back, it is for a
// whole group like these rows, and some more when their sizes vary.
func (g *rowGroup) grow(m *memory, n, bytes int, vary bool) {
	r := &g.rows
	if more := growthFor(len(r.MID), cap(r.MID), n, rowGroupRows); more > 0 {
		if m != nil {
			more = rowGroupRows - len(r.MID)
		}
		r.CID, r.MID = withCapacity(m, r.CID, more), withCapacity(m, r.MID, more)
		r.MOID, r.CapNs = withCapacity(m, r.MOID, more), withCapacity(m, r.CapNs, more)
		r.AcqNs = withCapacity(m, r.AcqNs, more)
	}
	if more := growthFor(len(r.Data), cap(r.Data), bytes, rowGroupBytes); more > 0 {
		if m != nil {
			rest := bytes * (rowGroupRows - r.Len()) / n
			if vary {
				rest += rest / 4
			}
			more = max(more, min(rest, rowGroupBytes-len(r.Data)))
		}
		r.Data = withCapacity(m, r.Data, more)
	}
}

// withCapacity returns a column with space for n more; slices.Grow would make more of it.
func withCapacity[T byte | int32 | int64](m *memory, column []T, n int) []T {
	if m == nil {
		return append(make([]T, 0, len(column)+n), column...)
	}
	return append(take[T](m, len(column)+n)[:0], column...)
}

// growthFor returns how much space to make so that n more fit, 0 when they do: as much as there is,
// up to a limit, beyond which it is what append makes.
func growthFor(length, capacity, n, limit int) int {
	if length+n <= capacity {
		return 0
	}
	return max(n, min(2*capacity, limit)-length)
}

// newRowGroup makes space for all rows of a row group, unless it is the first: most heads of many
// shards stay small.
func (a *appendedRows) newRowGroup() *rowGroup {
	g := &rowGroup{}
	if len(a.groups) == 0 {
		return g
	}
	before := a.groups[len(a.groups)-1]
	g.first = before.first + before.rows.Len()
	g.grow(&a.memory, before.rows.Len(), len(before.rows.Data), before.rows.Offsets != nil)
	return g
}

// spare returns how much of its memory the last group has that no row lies in yet. Of a slab of its
// own, which is larger than a page, only what was touched takes any.
func (a *appendedRows) spare() int {
	if a.memory.owner == nil || len(a.groups) == 0 {
		return 0
	}
	r := &a.groups[len(a.groups)-1].rows
	bytes := (cap(r.MID) - len(r.MID)) * columnMemory
	if cap(r.Data) <= slabBytes {
		bytes += cap(r.Data) - len(r.Data)
	}
	return bytes
}

// row returns the group of a row ID, and the number of the row in it.
func (a *appendedRows) row(at rowID) (*rowGroup, int) {
	return a.groups[at>>rowGroupShift], int(at & (rowGroupRows - 1))
}

// len returns the number of rows.
func (a *appendedRows) len() int {
	if len(a.groups) == 0 {
		return 0
	}
	last := a.groups[len(a.groups)-1]
	return last.first + last.rows.Len()
}

// below returns how many rows have an acq below a time.
func (a *appendedRows) below(acqNs int64) int {
	i := sort.Search(len(a.groups), func(i int) bool { return a.groups[i].rows.AcqNs[0] >= acqNs })
	if i == 0 {
		return 0
	}
	g := a.groups[i-1]
	return g.first + sort.Search(g.rows.Len(), func(k int) bool { return g.rows.AcqNs[k] >= acqNs })
}

// bound returns the row ID after that of the last row with an acq below a time. Rows yet to come
// have greater ones.
func (a *appendedRows) bound(acqNs int64) rowID {
	i := sort.Search(len(a.groups), func(i int) bool { return a.groups[i].rows.AcqNs[0] >= acqNs })
	if i == 0 {
		return 0
	}
	acqs := a.groups[i-1].rows.AcqNs
	k := sort.Search(len(acqs), func(k int) bool { return acqs[k] >= acqNs })
	return rowID((i-1)<<rowGroupShift + k)
}

// nth returns the row ID of the n-th row that came; with the number of rows the ID after the last.
func (a *appendedRows) nth(n int) rowID {
	i := sort.Search(len(a.groups), func(i int) bool { return a.groups[i].first > n }) - 1
	return rowID(i<<rowGroupShift + n - a.groups[i].first) // n may be behind a full group
}

func setBit(bitmap []uint64, i int)      { bitmap[i>>6] |= 1 << (i & 63) }
func hasBit(bitmap []uint64, i int) bool { return bitmap[i>>6]>>(i&63)&1 == 1 }
