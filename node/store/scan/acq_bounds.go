package scan

import (
	"math"

	"github.com/pentad-db/pentad/node/store/bounds"
	"github.com/pentad-db/pentad/sdk/record"
)

// acqBounds are the acqs of a scan, for a query that asks for the ranges [a, b) and [c, d):
//
//	a     b       c  asOf  d   horizon
//	├─────┤       ├────────┤      |       asked: by the box of the query
//	├─────┤       ├────────┤      |       read, all versions: up to the horizon
//	├─────────────────────────────┤       read, latest: each may hide an asked one
//	├────────────────┤                    read, as of
//	├─────┤       ├──┤                    shown, as of: newest versions in asked ranges
//
// A query without a range of acq asks for all: then reading begins at the least acq, and any newest
// version is shown.
type acqBounds struct {
	read    record.RangeSet // acqs of the rows that are looked at; empty: none
	newest  record.RangeSet // acqs of the newest versions that are shown; empty: any
	upperNs int64           // rows with this acq or a greater one are not looked at
	one     [1]record.Range // memory of read
}

// set makes the bounds those of a normalized query.
func (b *acqBounds) set(q *record.Query, horizonNs int64) {
	b.upperNs = horizonNs
	if q.View == record.ViewAsOf {
		b.upperNs = min(horizonNs, q.AsOfAcqNs)
	}
	asked, fromNs := q.Box[record.Acq], int64(math.MinInt64)
	b.read, b.newest = nil, nil
	if len(asked) > 0 {
		if q.View == record.ViewAll {
			b.read = bounds.Clip(asked, b.upperNs)
			return
		}
		b.newest, fromNs = asked, asked[0].From
	}
	if fromNs < b.upperNs {
		b.one[0] = record.Range{From: fromNs, To: b.upperNs}
		b.read = b.one[:]
	}
}
