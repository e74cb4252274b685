package influxdb

import (
	"testing"

	"github.com/pentad-db/pentad/bench/system"
	"github.com/pentad-db/pentad/sdk/record"
)

func TestStatement(t *testing.T) {
	shape := system.Shape{PayloadBytes: system.StatusBytes}
	shape.Extent = [record.NumDims]record.Range{{From: 0, To: 4}, {From: 100, To: 200},
		{From: 0, To: 5}, {From: 1000, To: 2000}, {From: 1000, To: 3000}}
	f := func(q system.Query, want string) {
		t.Helper()
		caps := record.All(record.Cap)
		if set := q.Box[record.Cap]; len(set) > 0 {
			caps = set[0]
		}
		if got := statement(&q, shape, caps); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	var q system.Query
	f(q, "SELECT val, acq, status, cid, mid, moid FROM r")
	q.Box = record.Box{{record.At(3)}, {{From: 100, To: 200}}, {{From: 1, To: 3}},
		{{From: 1200, To: 1300}}, {{From: 1500, To: record.Acq.Max()}}}
	q.Want, q.Above = system.WantAbove, 1e6
	f(q, "SELECT val, acq, status, cid, mid, moid FROM r WHERE cid = '3' AND "+
		"moid =~ /^(?:[1-2])$/ AND time >= 1200 AND time < 1300 AND ((acq >= 1500)) AND "+
		"val > 1000000")
	f(system.Query{Want: system.WantLast},
		"SELECT last(val), acq, status FROM r GROUP BY cid, mid, moid")
	f(system.Query{Want: system.WantGroups, Func: system.FuncMean,
		By: record.GroupBy{MOID: true, CapBucketNs: 60}},
		"SELECT mean(val) FROM r WHERE time < 2000 GROUP BY moid, time(60ns) fill(none)")
	f(system.Query{Query: record.Query{View: record.ViewAsOf, AsOfAcqNs: 7},
		Want: system.WantCount}, "SELECT count(val) FROM r WHERE acq < 7")
}
