package member

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
)

const (
	// beat is how often this node looks whether there is something to do.
	beat = 100 * time.Millisecond
	// askTimeout bounds a question of another node.
	askTimeout = 2 * time.Second
	// fetchEvery is how often a view is fetched anew without a hint that there is a newer one.
	fetchEvery    = time.Second
	changeTimeout = 10 * time.Second
	viewName      = "VIEW" // the last view, so that a node finds others when it starts
)

// follow makes this node do what the view says.
func (m *Member) follow() {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	var fetched, told time.Time
	var kept uint64
	for {
		m.create()
		v := m.View()
		if m.behind(v) || time.Since(fetched) > fetchEvery && !m.keeps() {
			fetched = time.Now()
			m.fetch()
			v = m.View()
		}
		if v.Cluster != (cluster.ID{}) {
			if v.Epoch > kept && m.keepView() {
				kept = v.Epoch
			}
			if n, ok := v.Node(m.self.ID); (!ok || n != withState(m.node, n.State)) &&
				time.Since(told) > fetchEvery {
				told = time.Now()
				m.introduce()
			}
			m.holdGroups(m.open, v)
			m.changeMembers(v)
			m.tell(v)
		}
		m.opt.Changed()
		select {
		case <-tick.C:
		case <-m.open.Done():
			return
		}
	}
}

func withState(n cluster.Node, s cluster.NodeState) cluster.Node {
	n.State = s
	return n
}

// create writes the first command of a new cluster, once its first node leads the meta group.
func (m *Member) create() {
	if !m.opt.Cluster.Init || m.View().Cluster != (cluster.ID{}) {
		return
	}
	m.propose(&cluster.Create{Cluster: m.token.Cluster, Groups: uint32(m.opt.Cluster.Groups),
		Replicas: uint32(m.opt.Cluster.Replicas), Feature: feature, First: m.node})
}

// introduce asks to be let in, or says what is new about this node. Whoever has the token may.
func (m *Member) introduce() { m.propose(&cluster.PutNode{Node: m.node}) }

// propose does something to the state that is tried again if it fails.
func (m *Member) propose(cmd cluster.Command) {
	ctx, cancel := context.WithTimeout(m.open, askTimeout)
	defer cancel()
	if _, err := m.Command(ctx, cmd); err != nil && m.open.Err() == nil {
		m.opt.Log.Warn("change the state of the cluster", "err", err)
	}
}

// keeps reports whether this node has a replica of the meta group that hears of everything.
func (m *Member) keeps() bool {
	st, err := m.run.Status(cluster.MetaGroup)
	return err == nil && st.Leader != 0
}

// behind reports whether somebody has a newer view.
func (m *Member) behind(v *cluster.View) bool {
	for _, p := range m.gossip.Peers() {
		if p.Card.Epoch > v.Epoch && p.State == cluster.PeerAlive {
			return true
		}
	}
	return false
}

// fetch gets the state from whoever has a newer one.
func (m *Member) fetch() {
	for _, addr := range m.others() {
		ctx, cancel := context.WithTimeout(m.open, askTimeout)
		text, err := m.askState(ctx, addr)
		cancel()
		if err != nil {
			continue
		}
		s, err := cluster.ParseState(text)
		if err != nil || s.View().Cluster != m.token.Cluster {
			continue
		}
		if v := m.View(); s.View().Epoch <= v.Epoch {
			continue
		}
		if err := m.meta.Restore(text); err == nil && !m.behind(m.View()) {
			return
		}
	}
}

// others returns where to find other nodes.
func (m *Member) others() (out []string) {
	seen := map[cluster.NodeID]bool{m.self.ID: true}
	for _, p := range m.gossip.Peers() {
		if n := p.Card.Node; p.State == cluster.PeerAlive && !seen[n.ID] && n.HTTPAddr != "" {
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
	m.mu.Lock()
	k := m.keeper
	m.mu.Unlock()
	if k != nil && k.meta.View().Epoch >= m.meta.View().Epoch {
		return k.meta.AppendSnapshot(nil)
	}
	return m.meta.AppendSnapshot(nil)
}

// keepView notes the state for the next start. It is before replicas are made by it.
func (m *Member) keepView() bool {
	if err := replaceFile(m.path("cluster"), viewName, m.state()); err != nil {
		m.opt.Log.Error("note the view", "err", err)
		return false
	}
	return true
}

// loadView reads what keepView wrote. Without it, the node has to hear from others.
func (m *Member) loadView() {
	text, err := os.ReadFile(m.path("cluster", viewName))
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err == nil {
		err = m.meta.Restore(text)
	}
	if err != nil {
		m.opt.Log.Warn("the noted view cannot be read; others are asked", "err", err)
	}
}

// tell lets gossip say how new the view of this node is.
func (m *Member) tell(v *cluster.View) {
	m.mu.Lock()
	old := m.card
	m.card = v.Epoch
	m.mu.Unlock()
	if old == v.Epoch {
		return
	}
	card := cluster.Card{Node: m.node, Epoch: v.Epoch}
	if n, ok := v.Node(m.self.ID); ok {
		card.Node.State = n.State
	}
	ctx, cancel := context.WithTimeout(m.open, askTimeout)
	defer cancel()
	if err := m.gossip.Update(ctx, card); err != nil && m.open.Err() == nil {
		m.opt.Log.Warn("tell others of a newer view", "err", err)
	}
}
