package member

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/durable"
)

const (
	// beat is how often this node looks whether there is something to do.
	beat = 100 * time.Millisecond
	// askTimeout bounds a request to another node.
	askTimeout = 2 * time.Second
	// fetchEvery is how often a view is fetched again without a hint that there is a newer one.
	fetchEvery    = time.Second
	changeTimeout = 10 * time.Second
	// retryEvery is how often it is tried again to start a replica that did not.
	retryEvery = 5 * time.Second
	viewName   = "VIEW" // the last view, so that a node finds others when it starts
)

// follow makes this node do what the view says.
func (m *Member) follow() {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	var fetched, told, met time.Time
	var kept cluster.At
	var limits cluster.Limits
	for {
		if m.mustCreateCluster() {
			if err := m.checkPeersHaveNone(); err != nil {
				m.opt.Fail(err)
				return
			}
		}
		m.create()
		v := m.View()
		if m.isBehind(v) || time.Since(fetched) > fetchEvery && !m.hasMetaReplica() {
			fetched = time.Now()
			if err := m.fetch(); err != nil {
				m.opt.Fail(err)
				return
			}
			v = m.View()
		}
		err := errors.Join(v.Suits(m.features), m.raiseStartCount(v), m.removed(v), m.inspect())
		if err != nil {
			m.opt.Fail(err)
			return
		}
		if time.Since(met) > fetchEvery {
			met = time.Now()
			if err := m.checkPeers(v); err != nil {
				m.opt.Fail(err)
				return
			}
		}
		m.noteUnconfirmed()
		m.confirmDirectory()
		if v.Limits != limits {
			limits = v.Limits
			m.run.SetSnapshotRate(limits.Rate())
		}
		if v.Cluster != (cluster.ID{}) {
			if at := m.newestState().At(); kept.Before(at) && m.keepView() {
				kept = at
			}
			if time.Since(told) > fetchEvery && m.register(v) {
				told = time.Now()
			}
			m.updateReplicas(m.open, v)
			m.finishAdoption()
			m.changeMembers(v)
			m.splitGroups(v)
			m.gossipView(v)
		}
		m.opt.Changed()
		select {
		case <-tick.C:
		case <-m.open.Done():
			return
		}
	}
}

// ErrRemoved means that the cluster has let this node go for good, and it was started again.
var ErrRemoved = errors.New("this node has left the cluster for good, or was removed from it; " +
	"start it with an empty directory, as a new node")

// ErrReplaced means that another process was started as this node while this one ran.
var ErrReplaced = errors.New("this node was started elsewhere from a copy of its directory; " +
	"stop that one, or this one for good: only one of them can be the node")

// removed returns ErrRemoved for a node that comes back, and ErrReplaced for one that was started
// again elsewhere. One that has not been stopped since it left goes on to bring requests
// and puts to others.
func (m *Member) removed(v *cluster.View) error {
	n, ok := v.Node(m.self.ID)
	gone := n.State == cluster.NodeLeft || n.State == cluster.NodeRemoving
	switch {
	case ok && n.Incarnation > m.self.Incarnation:
		return fmt.Errorf("node %v: %w", m.self.ID, ErrReplaced)
	case ok && gone && n.Incarnation < m.self.Incarnation:
		return fmt.Errorf("node %v: %w", m.self.ID, ErrRemoved)
	}
	return nil
}

// create writes the first command of a new cluster, once its first node leads the meta group.
func (m *Member) create() {
	if !m.mustCreateCluster() {
		return
	}
	m.propose(&cluster.Create{Cluster: m.token.Cluster, Groups: uint32(m.opt.Cluster.Groups),
		Replicas: uint32(m.opt.Cluster.Replicas), Feature: m.features.First, First: m.node})
}

// register asks to be let in, or says what is new about this node, and reports whether it did. A
// node may that has the token.
func (m *Member) register(v *cluster.View) bool {
	known, ok := v.Node(m.self.ID)
	now := m.node
	now.State, now.Program = known.State, known.Program
	switch {
	case !ok || known != now:
		m.propose(&cluster.PutNode{Node: m.node})
	case v.TellsProgram() && known.Program != m.opt.Cluster.Program:
		m.propose(&cluster.SetProgram{Node: m.self.ID, Program: m.opt.Cluster.Program})
	default:
		return false
	}
	return true
}

// propose does something to the state that is decided again if it fails: sent again, it could undo
// what another client did meanwhile.
func (m *Member) propose(cmd cluster.Command) {
	ctx, cancel := context.WithTimeout(m.open, askTimeout)
	defer cancel()
	data, err := cluster.AppendCommand(nil, cmd)
	if err == nil {
		_, err = m.Propose(ctx, cluster.MetaGroup, data, false)
	}
	if err != nil && m.open.Err() == nil {
		m.opt.Log.Warn("change the state of the cluster", "err", err)
	}
}

// hasMetaReplica reports whether this node has a replica of the meta group that hears of
// everything.
func (m *Member) hasMetaReplica() bool {
	st, err := m.run.Status(cluster.MetaGroup)
	return err == nil && st.Leader != 0
}

// isBehind reports whether another node has a newer view.
func (m *Member) isBehind(v *cluster.View) bool {
	for _, p := range m.gossip.Load().Peers() {
		if p.Meta.Epoch > v.Epoch && p.State == cluster.PeerAlive {
			return true
		}
	}
	return false
}

// fetch gets the state from a node that keeps it, or else from another one that has a newer one.
// Its error is that of a state of this node's cluster that this node's program does not know.
func (m *Member) fetch() error {
	metaNodes := m.metaNodes()
	for i, addr := range append(metaNodes, m.others()...) {
		ctx, cancel := context.WithTimeout(m.open, askTimeout)
		s, err := m.askState(ctx, addr)
		cancel()
		if m.otherRules(err) {
			return err
		}
		if err != nil {
			continue
		}
		m.adoptState(s)
		if (s != nil || i < len(metaNodes)) && !m.isBehind(m.View()) {
			break
		}
	}
	return nil
}

// otherRules reports whether an error of another node's state says that this node cannot be one of
// its cluster.
func (m *Member) otherRules(err error) bool {
	var level *cluster.LevelError
	return errors.As(err, &level) && level.Cluster == m.token.Cluster
}

// others returns where to find other nodes.
func (m *Member) others() (out []string) {
	seen := map[cluster.NodeID]bool{m.self.ID: true}
	for _, p := range m.gossip.Load().Peers() {
		n := p.Meta.Node
		if p.State == cluster.PeerAlive && n.Role == cluster.RoleCore && !seen[n.ID] {
			seen[n.ID] = true
			out = append(out, n.HTTPAddr)
		}
	}
	for _, n := range m.View().Nodes {
		if n.State != cluster.NodeLeft && !seen[n.ID] && n.HTTPAddr != "" {
			out = append(out, n.HTTPAddr)
		}
	}
	return out
}

// state returns the newest state that this node has.
func (m *Member) state() []byte {
	return m.newestState().AppendSnapshot(nil)
}

// keepView notes the state for the next start. It is before replicas are made by it.
func (m *Member) keepView() bool {
	if err := durable.ReplaceFile(m.path("cluster", viewName), m.state()); err != nil {
		m.opt.Log.Error("note the view", "err", err)
		return false
	}
	return true
}

// loadView reads what keepView wrote. Without it, the node has to hear from others. A view that was
// written by another feature level is an error: nothing else of the directory is touched then.
func (m *Member) loadView() error {
	text, err := os.ReadFile(m.path("cluster", viewName))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var s *cluster.State
	if err == nil {
		s, err = m.parseState(text)
	}
	switch {
	case errors.Is(err, cluster.ErrOtherRules):
		return err
	case err != nil:
		m.opt.Log.Warn("the noted view cannot be read; others are asked", "err", err)
	default:
		m.meta.Replace(s)
	}
	return nil
}

// parseState reads a state, and refuses that of a feature level that this node does not run.
func (m *Member) parseState(src []byte) (*cluster.State, error) {
	s, err := cluster.ParseState(src)
	if err == nil {
		err = s.Suits(m.features)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// gossipView lets gossip say how new the view of this node is.
func (m *Member) gossipView(v *cluster.View) {
	m.mu.Lock()
	old := m.toldEpoch
	m.toldEpoch = v.Epoch
	m.mu.Unlock()
	if old == v.Epoch {
		return
	}
	metadata := cluster.GossipMeta{Node: m.node, Epoch: v.Epoch}
	if n, ok := v.Node(m.self.ID); ok {
		metadata.Node.State = n.State
	}
	ctx, cancel := context.WithTimeout(m.open, askTimeout)
	defer cancel()
	if err := m.gossip.Load().Update(ctx, metadata); err != nil && m.open.Err() == nil {
		m.opt.Log.Warn("tell others of a newer view", "err", err)
	}
}
