package tstorage

import (
	"math"
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

// TestReservedMOIDs: what a box that is open below does not see, one of these moids does.
func TestReservedMOIDs(t *testing.T) {
	addr := serve(t, Options{})
	c := ttDial(t, addr)
	var all []ttRecord
	for _, moid := range []int32{math.MinInt32, record.FirstMOID, 0} {
		r := at(1, 7, "x")
		r.moid = moid
		all = append(all, r)
	}
	if _, _, st, err := c.put(false, all...); err != nil || st != 0 {
		t.Fatalf("put: status %d, %v", st, err)
	}
	for _, moid := range []int32{record.NameMOID, record.DescriptionMOID + 1,
		record.FirstMOID - 1} {
		r := at(1, 7, "x")
		r.moid = moid
		if _, _, st, err := c.put(false, r); err == nil && st == 0 {
			t.Errorf("a put of the reserved moid %d is taken", moid)
		}
		c = ttDial(t, addr)
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
	f(ttMin().moid, ttMax().moid, all[1:])
	f(ttMin().moid, 0, all[1:2])
	f(math.MinInt32, record.NameMOID, all[:1])
	f(math.MinInt32, record.FirstMOID, all[:1])
	f(record.DescriptionMOID, ttMax().moid, all[1:])
}
