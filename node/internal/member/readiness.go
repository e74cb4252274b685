package member

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/replica"
)

// Ready returns nil once the cluster can count on this node after a start: it was let in, and its
// replicas followed their leaders, so that another node may be stopped and no group loses its
// majority. Else the error says what is missing. A node that was ready stays it while it runs:
// when leaders are lost, all would else be taken from their clients at once. Problems says when
// that has lasted.
//
// Cost: until then, a request to each node that leads groups with a replica here.
func (m *Member) Ready(ctx context.Context) error {
	if m.ready.Load() {
		return nil
	}
	err := m.follows(ctx)
	m.ready.Store(err == nil)
	return err
}

func (m *Member) follows(ctx context.Context) error {
	v := m.View()
	switch n, ok := v.Node(m.self.ID); {
	case v.Cluster == cluster.ID{}:
		return errors.New("this node has not heard from its cluster yet")
	case !ok || n.State == cluster.NodeJoining:
		return errors.New("this node has not been let into its cluster yet")
	case n.State == cluster.NodeLeft:
		return errors.New("this node was taken out of its cluster")
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout) // a leader may be frozen
	defer cancel()
	asked := map[cluster.NodeID][]leaderReport{}
	for g := range v.Groups {
		group := cluster.GroupID(g)
		i := slices.IndexFunc(v.Voters(group), func(r cluster.Replica) bool {
			return r.Node == m.self.ID
		})
		if i < 0 {
			continue
		}
		if err := m.distrust(group); err != nil {
			return fmt.Errorf("group %d: its replica here cannot be trusted and is to be replaced "+
				"by a new one: %w", group, err)
		}
		st, err := m.run.Status(group)
		switch {
		case err == nil && st.Err != nil:
			return fmt.Errorf("group %d: its replica here has stopped: %w", group, st.Err)
		case err != nil:
			return fmt.Errorf("group %d: %w", group, err)
		case !st.Confirmed && len(st.Unconfirmed) > 0:
			p := unconfirmedProblem(group, &st, m.self.Copied)
			return fmt.Errorf("group %d: %s; %s", group, p.Message, p.Advice)
		case st.Leader == 0:
			return fmt.Errorf("group %d has no leader now", group)
		case st.Leader == st.Replica:
			continue
		}
		leader := cluster.NodeID(replica.Node(st.Leader))
		reports, ok := asked[leader]
		if !ok {
			if reports, err = m.askHealth(ctx, leader); err != nil {
				return fmt.Errorf("group %d: ask its leader, node %s: %w", group, leader, err)
			}
			asked[leader] = reports
		}
		if lags(reports, group, v.Voters(group)[i].ID) {
			return fmt.Errorf("group %d: the replica here is catching up", group)
		}
	}
	return nil
}

// lags reports whether a leader says that a voter does not follow. A group that is not named is
// about to change its leader or its members: nothing is known against the voter.
func lags(reports []leaderReport, group cluster.GroupID, id cluster.ReplicaID) bool {
	for _, r := range reports {
		if r.Group == group && len(r.Broken) == 0 {
			return slices.Contains(r.Voters, id) && !slices.Contains(r.Live, id)
		}
	}
	return false
}
