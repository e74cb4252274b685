package member

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/pentad-db/pentad/node/replica"
)

const (
	// unconfirmedAfter is how long a replica may wait, after a start, for others to say that it
	// knows what it promised, before that is a problem: nodes that are started together find each
	// other sooner.
	unconfirmedAfter = 10 * time.Second
	// unledAfter is how long it waits while the others have a leader: they do without it, so it may
	// as well be made again.
	unledAfter = 30 * time.Second
)

// logCopy says, once, what is special about the directory.
func (m *Member) logCopy() {
	if m.self.Copied {
		m.opt.Log.Warn("this directory was copied, moved or restored: all other nodes have to "+
			"confirm that it lacks nothing before its replicas take part", "dir", m.opt.Dir)
	}
	if m.opt.Cluster.TrustCopy {
		m.opt.Log.Warn("this directory is trusted as the operator said: what other nodes remember "+
			"of its promises does not count", "dir", m.opt.Dir)
	}
}

// confirmDirectory notes that the directory is confirmed when every replica in it is confirmed.
func (m *Member) confirmDirectory() {
	if !m.self.Copied {
		return
	}
	for group := range m.run.Groups() {
		if st, err := m.run.Status(group); err != nil || st.Err != nil || !st.Confirmed {
			return
		}
	}
	if err := m.self.Settle(m.path("cluster")); err != nil {
		m.self.Copied = true
		m.opt.Log.Warn("note that the directory is complete", "err", err)
		return
	}
	m.opt.Log.Info("this directory is complete: other nodes or the operator confirmed it")
}

// raiseStartCount brings the count of starts above what others remember, when the directory was put
// back from an older state. Its replicas find out by themselves what they lack.
func (m *Member) raiseStartCount(v *cluster.View) error {
	n, ok := v.Node(m.self.ID)
	switch {
	case m.known || !ok:
		return nil
	case n.Incarnation == m.self.Incarnation:
		m.known = true
		return nil
	case n.Incarnation < m.self.Incarnation:
		return nil
	}
	m.opt.Log.Warn("this directory was put back from an older state: the node was started since",
		"starts", cluster.StartCount(m.self.Incarnation)-1, "known",
		cluster.StartCount(n.Incarnation))
	if err := m.self.After(m.path("cluster"), n.Incarnation, rand.Reader); err != nil {
		return err
	}
	m.node.Incarnation = m.self.Incarnation
	return nil
}

// noteUnconfirmed notes since when replicas wait for confirmation, and has those made again that
// the others do without.
func (m *Member) noteUnconfirmed() {
	waits := map[cluster.GroupID]time.Time{}
	var made []cluster.GroupID
	m.mu.Lock()
	for group := range m.run.Groups() {
		st, err := m.run.Status(group)
		if err != nil || st.Err != nil || st.Confirmed {
			continue
		}
		since, known := m.unconfirmed[group]
		if !known {
			since = time.Now()
		}
		waits[group] = since
		if st.Led != 0 && len(st.Unconfirmed) > 0 && time.Since(since) > unledAfter {
			made = append(made, group)
		}
	}
	m.unconfirmed = waits
	m.mu.Unlock()
	for _, group := range made {
		m.Distrust(group, errors.New("nodes that could confirm that it lacks nothing do not "+
			"answer, and the group goes on without it"))
	}
}

// copyProblems names the replicas that wait for confirmation, and groups with two histories.
func (m *Member) copyProblems() (all []health.Problem) {
	m.mu.Lock()
	unconfirmed := maps.Clone(m.unconfirmed)
	m.mu.Unlock()
	groups := m.run.Groups()
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		st, err := m.run.Status(group)
		if err != nil {
			continue
		}
		since, waits := unconfirmed[group]
		if errors.Is(st.Err, replica.ErrForked) {
			all = append(all, forkProblem(group, st.Err))
		} else if waits && time.Since(since) > unconfirmedAfter {
			all = append(all, unconfirmedProblem(group, &st, m.self.Copied))
		}
	}
	return all
}

func forkProblem(group cluster.GroupID, err error) health.Problem {
	return health.Problem{Code: "forked", Subject: fmt.Sprintf("group %d", group), NotReady: true,
		Message: err.Error(),
		Advice: "replicas of the group that had lost acknowledged records formed a majority, and " +
			"the group has stopped so that nothing more is lost; stop all its nodes, copy their " +
			"directories, and start again without the node whose records are given up: it joins " +
			"again with an empty directory"}
}

func unconfirmedProblem(group cluster.GroupID, st *replica.Status, copied bool) health.Problem {
	var nodes []string
	for _, id := range st.Unconfirmed {
		nodes = append(nodes, cluster.NodeID(replica.Node(id)).String())
	}
	if len(nodes) == 0 {
		nodes = []string{"no other node has a replica, as far as this directory knows"}
	}
	p := health.Problem{Code: "unconfirmed", Subject: fmt.Sprintf("group %d", group),
		Message: "the replica here takes no part: after a start, other nodes have to confirm " +
			"that it knows all that it acknowledged, and these have not: " +
			strings.Join(nodes, ", "),
		Advice: "start these nodes, or check the network to them"}
	if copied {
		p.Message += "; the directory was copied, moved or restored, so all of them have to"
		p.Advice += "; if they are lost for good, or there were no others, and this directory is " +
			"the newest there is, start this node once with --cluster-trust-copy, which waits " +
			"for them for two minutes; if most nodes are lost, see sdk/docs/cluster.md"
	}
	return p
}
