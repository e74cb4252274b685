package index

import (
	"math"
	"slices"
	"time"
)

const (
	// derivedFrom is about how many rows the units are derived from.
	derivedFrom = 4096
	// seriesReadings is how many readings of each of its series a block has at least, where there
	// are as many. What is asked of one device opens a block for every so many readings; what is
	// asked of one time, of all devices, opens the more blocks the more of them are side by side.
	seriesReadings = 4
	// enoughReadings is how many of them are enough where a block would have more: it is then cut
	// by time, until what is asked of a device and a shapeTime opens as few blocks as what is asked
	// of all devices and one time. So beyond that, the shape does not depend on the time that a
	// segment covers. With fewer readings, to open a block would take longer than to read them.
	enoughReadings = 16
	shapeTime      = 3 * 24 * time.Hour
	// deviceShare makes the last of an odd number of halvings one between devices: what is asked of
	// one of them reads few rows, so that each block that it opens counts.
	deviceShare = 0.85
)

// derive sets the units from what the rows are: as many cuts through devices as through the time
// they cover and through the order in which they came. The hundredth of the caps at either end may
// be garbage and does not count.
func (c *Clusterer) derive(g *rowsByPair) {
	n := len(g.order)
	step := max(1, n/derivedFrom)
	c.keys = c.keys[:0]
	mids := make([]uint64, 0, 2*derivedFrom)
	ranks := make([]uint64, 0, 2*derivedFrom)
	for from := 0; from < n; from += step {
		row := g.order[min(anyOf(from, step), n-1)]
		c.keys = append(c.keys, uint64(c.rows.CapNs[row])^1<<63)
		mids = append(mids, uint64(c.midOf[row]))
		ranks = append(ranks, uint64(c.rankOf(row)))
	}
	c.unitMID = deviceShare * spanOfMost(mids)
	c.unitCapNs = spanOfMost(c.keys)
	c.unitRank = spanOfMost(ranks)
}

// anyOf returns one of the positions [from, from+n), as a hash of from says. Where devices take
// turns, every n-th row could be of the same one.
func anyOf(from, n int) int {
	const golden = 0x9e3779b9 // 2^32 by the golden ratio: its multiples are spread evenly
	return from + int(uint32(from)*golden>>16)%n
}

// spanOfMost returns how wide the middle 98 % of numbers lie, at least 1.
func spanOfMost(numbers []uint64) float64 {
	slices.Sort(numbers)
	trim := len(numbers) / 100
	return max(1, float64(numbers[len(numbers)-1-trim]-numbers[trim]))
}

// fitSeries makes the unit of devices smaller where blocks would have fewer readings of a series
// than they should have at least, and that of caps where they would have more than enough. Each row
// stands for this many rows. Late rows are too few for that.
//
// A block that has one n-th of the devices and one t-th of the time of a pair holds readings/t
// rows of each of its series, and there are n*t of them.
func (c *Clusterer) fitSeries(g *rowsByPair, each float64) {
	found, blocks := c.countSeries(g)
	rows := float64(len(g.order)) * each
	blocks = max(1, blocks*each/float64(c.opt.BlockRows))
	readings := rows / seriesSeen(float64(found), rows, 1/each)
	more := timeCuts(readings, blocks, c.unitCapNs)
	if more < 1 {
		c.unitMID *= more
	} else {
		c.unitCapNs /= more
	}
}

// timeCuts returns how many times as many cuts there are through time as through devices, for the
// readings of each series and the blocks that all are in, over a time.
func timeCuts(readings, blocks, spanNs float64) float64 {
	has := readings / math.Sqrt(blocks) // with as many cuts through devices as through time
	switch {
	case has < seriesReadings:
		return 1 / min(blocks, math.Pow(seriesReadings/has, 2))
	case has > enoughReadings:
		return max(1, min(blocks, math.Pow(has/enoughReadings, 2), spanNs/float64(shapeTime)))
	}
	return 1
}

// countSeries returns how many series the rows are of, and how many rows the pair of a row has on
// average.
func (c *Clusterer) countSeries(g *rowsByPair) (found int, ofPair float64) {
	c.seen = emptied(c.seen, len(c.mids))[:len(c.mids)]
	clear(c.seen)
	squares := 0.0
	for pair := range c.cids {
		rows := g.order[g.starts[pair]:g.starts[pair+1]]
		squares += float64(len(rows)) * float64(len(rows))
		for _, row := range rows {
			if mid := c.midOf[row]; c.seen[mid] != uint32(pair)+1 {
				c.seen[mid] = uint32(pair) + 1
				found++
			}
		}
	}
	return found, squares / float64(len(g.order))
}

// seriesSeen returns of how many series, which have so many rows together, about so many are found
// in a share of the rows.
func seriesSeen(found, rows, share float64) float64 {
	low, high := found, rows
	for range 50 {
		series := (low + high) / 2
		if series*(1-math.Pow(1-share, rows/series)) < found {
			low = series
		} else {
			high = series
		}
	}
	return high
}
