package member

import (
	"strings"
	"testing"

	"github.com/pentad-db/pentad/node/cluster"
)

// A node that lost its directory and made a cluster of its own is told that it is the mistake. It
// must not advise to empty the directory of a node that has the data.
func TestTheYoungerClusterIsTheMistake(t *testing.T) {
	three := &cluster.View{Epoch: 5, Nodes: make([]cluster.Node, 3)}
	one := &cluster.View{Epoch: 50, Nodes: make([]cluster.Node, 1)}
	later := &cluster.View{Epoch: 51, Nodes: make([]cluster.Node, 1)}
	for _, c := range []struct {
		own, other *cluster.View
		want       bool
	}{{one, three, true}, {three, one, false}, {one, later, true}, {later, one, false},
		{one, one, false}} {
		if got := isYounger(c.own, c.other); got != c.want {
			t.Errorf("%d nodes, epoch %d beside %d, %d: younger is %v", len(c.own.Nodes),
				c.own.Epoch, len(c.other.Nodes), c.other.Epoch, got)
		}
	}
	other := cluster.Node{ID: 7, HTTPAddr: "10.0.0.7:4680"}
	own := (&stranger{node: other, nodes: 3, ownNodes: 1, older: true}).problem()
	if !strings.HasPrefix(own.Advice, "this node probably lost its directory") {
		t.Errorf("the younger one advises %q", own.Advice)
	}
	theirs := (&stranger{node: other, nodes: 1, ownNodes: 3}).problem()
	if !strings.HasPrefix(theirs.Advice, "if that node lost its directory") ||
		!strings.Contains(theirs.Message, "10.0.0.7:4680") {
		t.Errorf("the older one says %q and advises %q", theirs.Message, theirs.Advice)
	}
}
