package engine

import (
	"fmt"
	"testing"

	"github.com/pentad-db/pentad/node/store/digest"
)

// Of replicas that differ those are named that are not like most; without a majority, all are.
func TestReplicasAreJudged(t *testing.T) {
	route := &groupRoute{peers: []*Peer{{name: "b"}, {name: "c"}}}
	f := func(a, b, c uint64, want ...string) {
		t.Helper()
		v := &groupVerification{}
		var said []digests
		for _, rows := range []uint64{a, b, c} {
			said = append(said, digests{slices: []digest.Slice{{Rows: rows}}})
		}
		alike := v.reportMinority(3, route, said)
		var got []string
		for _, d := range v.total.Damage {
			got = append(got, d.File)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || alike != (len(want) == 0) {
			t.Errorf("%d, %d, %d: %v, want %v", a, b, c, got, want)
		}
	}
	f(1, 1, 1)
	f(2, 1, 1, "replica here")
	f(1, 2, 1, "replica on node b")
	f(1, 2, 3, "replica here", "replica on node b", "replica on node c")
}
