package node

import (
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/pentad-db/pentad/cluster-test/rounds"
	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/freeaddr"
	"github.com/pentad-db/pentad/node/internal/member"
)

// gossipOnly lets an edge gossip with a cluster and with other addresses, and returns its id.
func (c *nodesTogether) gossipOnly(others ...string) string {
	c.Helper()
	config := c.options[0].Cluster
	seed := config.Bind
	config.Init, config.Groups, config.Role = false, 0, cluster.RoleEdge.String()
	config.Bind, config.Join, config.Weight = freeaddr.New(c.T), append(others, seed), 100
	token, err := cluster.LoadToken(config.TokenFile)
	if err != nil {
		c.Fatal(err)
	}
	self, err := cluster.OpenSelf(c.TempDir(), rand.Reader)
	if err != nil {
		c.Fatal(err)
	}
	edge, err := config.Node(self)
	if err != nil {
		c.Fatal(err)
	}
	o, err := config.Gossip(token, edge)
	if err != nil {
		c.Fatal(err)
	}
	g, err := cluster.StartGossip(o)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = g.Close(c.Context()) })
	return self.ID.String()
}

func TestAnEdgeIsAmongTheNodes(t *testing.T) {
	c := openTogether(t, 1, 1)
	id := c.gossipOnly()
	m := c.nodes[0].member.Load()
	c.until("the edge is shown", func() bool {
		for _, n := range m.Nodes(t.Context()) {
			if n.ID == id {
				return n.Role == "edge" && n.GossipAddr != "" && n.Starts == 1
			}
		}
		return false
	})
}

func TestANodeDoesNotAnswerForAnotherAtItsAddress(t *testing.T) {
	rounds.NotUnderRace(t, "other clusters do the same under load")
	c := openTogether(t, 3, 1)
	lost, opt := c.nodes[2], c.options[2]
	id := self(lost)
	if err := lost.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.forget(lost)
	opt.Dir = t.TempDir() // its disk
	c.nodes, c.options = append(c.nodes, openTest(t, opt)), append(c.options, opt)
	m := c.nodes[0].member.Load()
	c.until("the node that lost its disk is given up", func() bool {
		_, err := m.Admin(t.Context(), member.AdminCommand{Verb: member.Remove, Node: id})
		if err != nil {
			t.Log(err)
		}
		return err == nil
	})
	c.until("the new one has its copies", func() bool { return c.settled(3) })
}

// A node that is to make a cluster, and hears of the one that is there when it has begun, ends: it
// neither makes a second one nor becomes a node of the first.
func TestAFirstNodeThatHearsLate(t *testing.T) {
	rounds.NotUnderRace(t, "other clusters do the same under load")
	c := openTogether(t, 2, 1)
	nodes := len(c.nodes[0].member.Load().View().Nodes)
	for range 2 {
		opt := c.options[1]
		opt.Dir, opt.Listen = t.TempDir(), freeaddr.New(t)
		opt.Cluster.Bind, opt.Cluster.RaftBind = freeaddr.New(t), freeaddr.New(t)
		opt.Cluster.Init, opt.Cluster.FoundWait, opt.Cluster.Groups = true, 1, 1
		opt.Cluster.Join = nil
		failed := make(chan error, 1)
		opt.Fail = func(err error) {
			select {
			case failed <- err:
			default:
			}
		}
		n, err := Open(t.Context(), opt)
		if err == nil {
			c.gossipOnly(opt.Cluster.Bind) // by which each hears of the other
			select {
			case err = <-failed:
			case <-time.After(5 * time.Minute):
			}
			if e := n.Close(t.Context()); e != nil {
				t.Error(e)
			}
		}
		if !errors.Is(err, member.ErrSecondCluster) {
			t.Errorf("a second first node ends with %v", err)
		}
	}
	if now := c.nodes[0].member.Load().View().Nodes; len(now) != nodes {
		t.Errorf("%d nodes are in the cluster, want %d", len(now), nodes)
	}
}
