package index

import (
	"math"

	"github.com/pentad-db/pentad/sdk/record"
)

// Rows that come in time come nearly in the order of their caps, so that the few of a chunk that
// lie in a short time are found without a look at the others.

const (
	// topRows is how many rows have a top together.
	topRows     = 8
	topsOfChunk = chunkRows / topRows
)

// tops are, for each topRows rows of a chunk, the greatest cap of these and of all before them.
type tops [topsOfChunk]int64

// note makes a chunk and its zone know the cap of a row that comes next.
func (k *chunk) note(z *zone, capNs int64) {
	if capNs < z.caps.Max {
		k.disorder = max(k.disorder, differenceOf(z.caps.Max, capNs))
	}
	z.caps.Min, z.caps.Max = min(z.caps.Min, capNs), max(z.caps.Max, capNs)
	if k.tops != nil {
		k.tops[len(k.rows)/topRows] = z.caps.Max
	}
}

// differenceOf returns a - b where a is not below b, or the greatest number if it is greater.
func differenceOf(a, b int64) int64 { return int64(min(uint64(a)-uint64(b), math.MaxInt64)) }

// edge returns where the caps of rows pass over one: those before lo are below it, those from hi on
// are not.
func (k *chunk) edge(z *zone, capNs int64) (lo, hi int) {
	switch {
	case capNs <= z.caps.Min:
		return 0, 0
	case capNs > z.caps.Max:
		return len(k.rows), len(k.rows)
	case k.tops == nil:
		return 0, len(k.rows)
	}
	below, near := 0, 0
	slack := differenceOf(math.MaxInt64, max(0, capNs))
	surely := capNs + min(k.disorder, slack)
	for _, top := range k.tops[:(len(k.rows)+topRows-1)/topRows] {
		if top < capNs {
			below++
		}
		if top < surely {
			near++
		}
	}
	if lo = min(below*topRows, len(k.rows)); k.disorder >= slack {
		return lo, len(k.rows)
	}
	return lo, min((near+1)*topRows, len(k.rows))
}

// near returns the rows [lo, hi) of which some may have caps in a set.
func (k *chunk) near(z *zone, caps record.RangeSet) (lo, hi int) {
	if len(caps) == 0 {
		return 0, len(k.rows)
	}
	lo, _ = k.edge(z, caps[0].From)
	_, hi = k.edge(z, caps[len(caps)-1].To)
	return lo, max(lo, hi)
}
