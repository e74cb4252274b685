package member

import (
	"testing"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/sdk/wire"
)

func TestAnAddressThatTwoNodesHaveNamesNone(t *testing.T) {
	v := &cluster.View{Nodes: []cluster.Node{
		{ID: 0x1a, State: cluster.NodeLeft, HTTPAddr: "10.0.0.1:1"},
		{ID: 0x2b, State: cluster.NodeUp, HTTPAddr: "10.0.0.1:1"},
		{ID: 0x3c, State: cluster.NodeUp, HTTPAddr: "10.0.0.2:1"}, // it lost its disk
		{ID: 0x3d, State: cluster.NodeUp, HTTPAddr: "10.0.0.2:1"}}}
	f := func(name string, want cluster.NodeID) {
		t.Helper()
		n, err := findNode(v, name)
		if (err != nil) != (want == 0) || err == nil && n.ID != want {
			t.Errorf("%q: node %v, %v", name, n.ID, err)
		}
	}
	f("10.0.0.1:1", 0x2b)
	f("10.0.0.2:1", 0)
	f("3c", 0x3c)
	f("3", 0)
	f("000000000000003d", 0x3d)
}

func TestACommandThatCannotBeReadIsNotProposed(t *testing.T) {
	_, err := new(Member).Here(t.Context(), cluster.MetaGroup, []byte{1, 255, 0})
	if remote, ok := err.(*wire.Error); !ok || remote.Kind != wire.KindInvalid {
		t.Error(err)
	}
}
