package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/pentad-db/pentad/node/replica"
)

// foundWait is how long the first node of a new cluster waits for signs that the cluster is there
// already: a node that lost its directory was started as the first again. Leaders look for such a
// node at its address every 2 s, and gossip asks seeds that do not answer every 5 s.
const foundWait = 6 * time.Second

// ErrSecondCluster means that a node makes a cluster whose token another one has.
var ErrSecondCluster = errors.New("a cluster with this token is there already; if this node lost " +
	"its directory, start it with --join HOST, the gossip address of one of the others, and " +
	"without --cluster-init; for a new cluster, make a token of its own with pentad cluster init")

// createCluster makes the meta group of a new cluster where that was asked for.
func (m *Member) createCluster(ctx context.Context) error {
	switch {
	case m.meta.View().Cluster != cluster.ID{}: // it has been in one, whatever was said then
		return nil
	case !m.opt.Cluster.Init && len(m.opt.Cluster.Join) == 0:
		return errors.New("this node is in no cluster yet: name nodes to join, or say that " +
			"it is the first node of a new one")
	case !m.opt.Cluster.Init:
		return nil
	}
	if err := m.checkNoOtherCluster(ctx); err != nil {
		return err
	}
	id := replica.NewID(uint64(m.self.ID), firstReplica)
	if m.adoption != nil {
		if err := m.adoptMeta(id); err != nil {
			return err
		}
	}
	return m.run.Create(ctx, cluster.MetaGroup, id, []uint64{id})
}

// checkNoOtherCluster waits for signs of a cluster with the same token, and returns
// ErrSecondCluster for one.
func (m *Member) checkNoOtherCluster(ctx context.Context) error {
	wait := time.NewTimer(cmp.Or(m.opt.Cluster.FoundWait, foundWait))
	defer wait.Stop()
	look := time.NewTicker(beat / 2)
	defer look.Stop()
	for {
		if node := m.run.MistakenNode(); node != 0 {
			return fmt.Errorf("make a cluster: node %v looks for another node at the address of "+
				"this one: %w", node, ErrSecondCluster)
		}
		if err := m.checkPeersHaveNone(); err != nil {
			return err
		}
		select {
		case <-look.C:
		case <-wait.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// mustCreateCluster reports whether this node is to make a cluster and has not yet.
func (m *Member) mustCreateCluster() bool {
	return m.opt.Cluster.Init && m.View().Cluster == (cluster.ID{})
}

// checkPeersHaveNone returns ErrSecondCluster when gossip knows a node that is in a cluster.
func (m *Member) checkPeersHaveNone() error {
	for _, p := range m.gossip.Load().Peers() {
		if n := p.Meta.Node; p.Meta.Epoch > 0 && n.Role == cluster.RoleCore {
			return fmt.Errorf("make a cluster: node %v at %s is in one: %w", n.ID, n.HTTPAddr,
				ErrSecondCluster)
		}
	}
	return nil
}

// isOtherCluster reports whether a state is one of another cluster with the same token: nodes are
// never taken out of a state, so one of two of them has all nodes of the other.
func isOtherCluster(own, other *cluster.View) bool {
	if own.Cluster != other.Cluster || own.Cluster == (cluster.ID{}) {
		return false
	}
	return lacksNode(own, other) && lacksNode(other, own)
}

// lacksNode reports whether a view lacks a node that another has.
func lacksNode(v, of *cluster.View) bool {
	for _, n := range of.Nodes {
		if _, ok := v.Node(n.ID); !ok {
			return true
		}
	}
	return false
}

// isYounger reports whether a state is likely to be the one that was made by mistake: it has fewer
// nodes, or as many and fewer changes behind it.
func isYounger(own, other *cluster.View) bool {
	if a, b := len(own.Nodes), len(other.Nodes); a != b {
		return a < b
	}
	return own.Epoch < other.Epoch
}

// checkPeers looks for a peer of another cluster with the same token. A node that was told to make
// a cluster and has the younger one ends: it was started as the first again while the others were
// down. For the others it is a problem until then.
func (m *Member) checkPeers(v *cluster.View) error {
	var met *stranger
	for _, p := range m.gossip.Load().Peers() {
		n := p.Meta.Node
		if _, ok := v.Node(n.ID); ok || p.Meta.Epoch == 0 || n.Role != cluster.RoleCore ||
			p.State != cluster.PeerAlive || v.Cluster == (cluster.ID{}) {
			continue
		}
		ctx, cancel := context.WithTimeout(m.open, askTimeout)
		s, err := m.askStateAfter(ctx, n.HTTPAddr, cluster.At{})
		cancel()
		if err != nil || s == nil || !isOtherCluster(v, s.View()) {
			continue
		}
		met = &stranger{node: n, nodes: len(s.View().Nodes), ownNodes: len(v.Nodes),
			older: isYounger(v, s.View())}
		if m.opt.Cluster.Init && met.older {
			return fmt.Errorf("node %v at %s: %w", n.ID, n.HTTPAddr, ErrSecondCluster)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stranger = met
	return nil
}

// stranger is a node of another cluster with the same token.
type stranger struct {
	node            cluster.Node
	nodes, ownNodes int
	older           bool // its cluster is likely to be the one with the data
}

// problem says which of two clusters is likely to be the mistake. It never advises to remove what a
// node has: only a person can know which puts are wanted.
func (s *stranger) problem() health.Problem {
	p := health.Problem{Code: "second_cluster",
		Message: fmt.Sprintf("node %v at %s is in another cluster with the token of this one, "+
			"with %d nodes; the cluster of this node has %d", s.node.ID, s.node.HTTPAddr, s.nodes,
			s.ownNodes),
		Advice: "if that node lost its directory and was started with --cluster-init: stop it, " +
			"move its directory aside, and start it with an empty one and --join; puts that it " +
			"took are in the directory moved aside"}
	if s.older {
		p.Advice = "this node probably lost its directory and made a cluster of its own: stop " +
			"it, move its directory aside, and start it with an empty one, --join and the " +
			"gossip address of that node; puts that it took are in the directory moved aside"
	}
	return p
}

func (m *Member) strangerProblem() (all []health.Problem) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stranger != nil {
		all = append(all, m.stranger.problem())
	}
	return all
}
