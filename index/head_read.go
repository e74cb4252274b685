package index

import (
	"math"
	"math/bits"

	"github.com/pentad-db/pentad/sdk/record"
)

// ReadHeads is [Head.ReadAll] of several heads that share no acq, as those of different devices. It
// also returns by head the rank of each of its rows, nil for one head.
//
// Cost: as of ReadAll for one head; some 15 ns a row for two, and a comparison for each more.
func ReadHeads(heads []*Head, to *record.Batch) (flags []uint64, ranks [][]uint32) {
	if len(heads) == 1 {
		return heads[0].ReadAll(to), nil
	}
	for _, h := range heads {
		h.fillCells()
	}
	n, bytes := 0, 0
	for _, h := range heads {
		h.rlock()
		defer h.mu.RUnlock()
		n += h.rows.len()
		for _, g := range h.rows.groups {
			bytes += len(g.rows.Data)
		}
	}
	to.Reset()
	to.CID, to.MID, to.MOID = emptied(to.CID, n), emptied(to.MID, n), emptied(to.MOID, n)
	to.CapNs, to.AcqNs = emptied(to.CapNs, n), emptied(to.AcqNs, n)
	to.Data = emptied(to.Data, int(min(uint64(bytes), math.MaxUint32)))
	ranks = make([][]uint32, len(heads))
	for i, h := range heads {
		ranks[i] = make([]uint32, 0, h.rows.len())
	}
	if stride, ok := strideOf(heads); ok {
		placeRows(heads, ranks)
		scatterRows(heads, ranks, to, n, stride)
	} else {
		eachRun(heads, ranks, func(g *rowGroup, from, end int) {
			to.AppendRows(&g.rows, from, end)
		})
	}
	return rankFlags(heads, ranks, n), ranks
}

// strideOf returns the size of the payloads of all rows if it is the same, and no row is a
// tombstone.
func strideOf(heads []*Head) (stride int, same bool) {
	stride = -1
	for _, h := range heads {
		for _, g := range h.rows.groups {
			if g.rows.Len() == 0 {
				continue
			}
			if !even(&g.rows) || stride >= 0 && g.rows.Stride != stride {
				return 0, false
			}
			stride = g.rows.Stride
		}
	}
	return max(stride, 0), true
}

// headCursor is where a merge of heads is in one of them.
type headCursor struct {
	groups []*rowGroup
	at     int // the row of the first group
}

// acq returns the acq of the next row, the greatest there is at the end.
func (c *headCursor) acq() int64 {
	for len(c.groups) > 0 && c.at == c.groups[0].rows.Len() {
		c.groups, c.at = c.groups[1:], 0
	}
	if len(c.groups) == 0 {
		return math.MaxInt64
	}
	return c.groups[0].rows.AcqNs[c.at]
}

// eachRun calls visit with the rows of all heads in acq order, those of one group that follow one
// another at once, and notes the rank of each.
func eachRun(heads []*Head, ranks [][]uint32, visit func(g *rowGroup, from, to int)) {
	cursors, next := make([]headCursor, len(heads)), make([]int64, len(heads))
	for i, h := range heads {
		cursors[i].groups = h.rows.groups
		next[i] = cursors[i].acq()
	}
	for rank := uint32(0); ; {
		first, until := 0, int64(math.MaxInt64) // the least of the other heads
		for i := 1; i < len(next); i++ {
			if next[i] < next[first] {
				first, until = i, next[first]
			} else {
				until = min(until, next[i])
			}
		}
		c := &cursors[first]
		if len(c.groups) == 0 {
			return
		}
		g, from := c.groups[0], c.at
		acqs := g.rows.AcqNs
		for c.at < len(acqs) && acqs[c.at] < until {
			ranks[first] = append(ranks[first], rank)
			rank++
			c.at++
		}
		visit(g, from, c.at)
		next[first] = c.acq()
	}
}

// placeRows finds the rank of each row.
func placeRows(heads []*Head, ranks [][]uint32) {
	eachRun(heads, ranks, func(*rowGroup, int, int) {})
}

// scatterRows copies the n rows of heads, whose payloads have one size, to their ranks.
func scatterRows(heads []*Head, ranks [][]uint32, to *record.Batch, n, stride int) {
	to.CID, to.MID, to.MOID = to.CID[:n], to.MID[:n], to.MOID[:n]
	to.CapNs, to.AcqNs = to.CapNs[:n], to.AcqNs[:n]
	to.Stride, to.Offsets, to.Data = stride, nil, to.Data[:n*stride]
	for i, h := range heads {
		for _, g := range h.rows.groups {
			at := ranks[i][g.first:][:g.rows.Len()]
			scatter(to.CID, g.rows.CID, at)
			scatter(to.MID, g.rows.MID, at)
			scatter(to.MOID, g.rows.MOID, at)
			scatter(to.CapNs, g.rows.CapNs, at)
			scatter(to.AcqNs, g.rows.AcqNs, at)
			for k, rank := range at {
				copy(to.Data[int(rank)*stride:][:stride], g.rows.Data[k*stride:])
			}
		}
	}
}

func scatter[T int32 | int64](to, from []T, at []uint32) {
	for k, rank := range at {
		to[rank] = from[k]
	}
}

// rankFlags returns the flags of the n rows of heads as a bitmap by rank.
func rankFlags(heads []*Head, ranks [][]uint32, n int) []uint64 {
	flags := make([]uint64, (n+63)/64)
	for i, h := range heads {
		for _, g := range h.rows.groups {
			for k, word := range g.flagged {
				for ; word != 0; word &= word - 1 {
					row := k*64 + bits.TrailingZeros64(word)
					setBit(flags, int(ranks[i][g.first+row]))
				}
			}
		}
	}
	return flags
}
