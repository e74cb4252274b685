package member

import (
	"fmt"
	"slices"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/internal/health"
)

// leaderlessAfter is how long a group may be without a leader before it is a problem: an election
// takes less than a second.
const leaderlessAfter = 10 * time.Second

// Problems returns what is wrong with this node's part in the cluster.
func (m *Member) Problems() []health.Problem {
	var all []health.Problem
	if err := m.run.NoSpace(); err != nil {
		all = append(all, health.Problem{Code: "disk_full", Subject: "log of the groups",
			Message: err.Error(), NotReady: true,
			Advice: durable.SpaceAdvice(err) + "; the node goes on by itself"})
	}
	return slices.Concat(all, m.leaderProblems(time.Now()), m.listener.Problems("other nodes"),
		m.distrustProblems(), m.copyProblems(), m.strangerProblem(), m.fewerProblem(),
		m.restProblems())
}

// leaderProblems names the groups of replicas here that have been without a leader for long. When
// these are all of them, no write through this node succeeds: it reaches no majority of any, as
// when it is cut off from the other nodes, and is not ready.
func (m *Member) leaderProblems(now time.Time) []health.Problem {
	lost, led := m.leaderless(now)
	var all []health.Problem
	for _, group := range lost {
		all = append(all, health.Problem{Code: "no_leader", Subject: fmt.Sprintf("group %d", group),
			Message:  "the replica here knows no leader: the group takes no writes",
			NotReady: led == 0,
			Advice: "start the nodes that are down, and check the network between the nodes: " +
				"pentad cluster status names them"})
	}
	return all
}

// leaderless returns the groups of replicas here that have been without a leader for long, and how
// many others run.
func (m *Member) leaderless(now time.Time) (all []cluster.GroupID, led int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	lost := map[cluster.GroupID]time.Time{}
	for group := range m.run.Groups() {
		st, err := m.run.Status(group)
		if err != nil || st.Err != nil {
			continue
		}
		if led++; st.Leader != 0 {
			continue
		}
		if lost[group] = now; !m.leaderlessSince[group].IsZero() {
			lost[group] = m.leaderlessSince[group]
		}
		if now.Sub(lost[group]) >= leaderlessAfter {
			all = append(all, group)
		}
	}
	m.leaderlessSince = lost
	slices.Sort(all)
	return all, led - len(all)
}
