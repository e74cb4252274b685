package engine

import (
	"testing"

	"github.com/pentad-db/pentad/sdk/record"
)

func TestQueryText(t *testing.T) {
	f := func(want string, q record.Query) {
		t.Helper()
		if err := q.Normalize(); err != nil {
			t.Fatal(err)
		}
		if got := QueryText(&q); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	f("", record.Query{})
	f("cid=0,3..5,7.. mid=..-1 view=latest last=2", record.Query{View: record.ViewLatest, Last: 2,
		Box: record.Box{record.CID: {record.At(0), {From: 3, To: 5}, {From: 7, To: 1<<31 - 1}},
			record.MID: {{From: record.MID.Min(), To: -1}}}})
	f("cap=1970-01-01T00:00:01.000000000Z..1970-01-01T00:00:02.000000000Z "+
		"asof=1970-01-01T00:00:03.000000000Z filter=f@01234567 "+
		"filter_params_hex=0a aggregate=a group=cid,moid every=15m0s", record.Query{
		Box:  record.Box{record.Cap: {{From: 1e9, To: 2e9}}},
		View: record.ViewAsOf, AsOfAcqNs: 3e9, Aggregate: record.PluginCall{Name: "a"},
		Filters: []record.PluginCall{{Name: "f@0123456789", Params: []byte{10}}},
		GroupBy: record.GroupBy{CID: true, MOID: true, CapBucketNs: 900e9}})
	var many record.RangeSet
	for i := range int64(10) {
		many = append(many, record.At(2*i))
	}
	f("moid=0,2,4,6,8,10,12,14,and 2 more", record.Query{Box: record.Box{record.MOID: many}})
}
