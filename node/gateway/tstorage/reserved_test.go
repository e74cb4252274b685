package tstorage

import (
	"math"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestReservedMOIDs: what a box that is open below does not see, one of these moids does.
func TestReservedMOIDs(t *testing.T) {
	c := ttDial(t, serve(t, Options{}))
	var all []ttRecord
	for _, moid := range []int32{math.MinInt32, record.DescriptionMOID + 1, record.FirstMOID - 1,
		record.FirstMOID, 0} {
		r := at(1, 7, "x")
		r.moid = moid
		all = append(all, r)
	}
	if _, _, st, err := c.put(false, all...); err != nil || st != 0 {
		t.Fatalf("put: status %d, %v", st, err)
	}
	f := func(from, to int32, want []ttRecord) {
		t.Helper()
		least, most := ttMin(), ttMax()
		least.moid, most.moid = from, to
		got, _, st, err := c.get(least, most)
		if err != nil || st != 0 {
			t.Fatalf("get: status %d, %v", st, err)
		}
		sameRecords(t, got, want)
	}
	f(ttMin().moid, ttMax().moid, all[3:])
	f(ttMin().moid, 0, all[3:4])
	f(math.MinInt32, record.NameMOID, all[:1])
	f(math.MinInt32, record.FirstMOID, all[:3])
	f(record.DescriptionMOID, ttMax().moid, all[1:])
}
