package member

import (
	"context"
	"fmt"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/machine"
	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	// SplitTimeout is how long a query or a command waits for a split to be complete: for the view
	// of it, and for the leader of the new group.
	SplitTimeout = 15 * time.Second
	// SplitPause is how long it waits before it asks again.
	SplitPause = 20 * time.Millisecond
)

// splits returns the commands that split a group, or all of them, but for those that were since it
// was asked for: the command may come again.
func (m *Member) splits(
	ctx context.Context, v *cluster.View, a AdminCommand,
) (cmds []cluster.Command, err error) {
	for _, s := range m.Stores() {
		if st, err := s.State(ctx); err == nil && st.Of != "" {
			return nil, forbidden("this cluster is a copy, whose groups end where those of the " +
				"other do; promote it before a group is split")
		}
	}
	if a.Groups > v.DataGroups() {
		return nil, ErrUnavailable // who leads has not come to what was asked for
	}
	if int(a.Group) > a.Groups {
		return nil, &wire.Error{Kind: wire.KindNotFound, Part: "group", Message: fmt.Sprintf(
			"group %d: the cluster has groups 1 to %d", a.Group, v.DataGroups())}
	}
	since := map[cluster.GroupID]bool{}
	for _, g := range v.Groups[a.Groups+1:] {
		since[g.Parent] = true
	}
	for g := cluster.GroupID(1); int(g) <= a.Groups; g++ {
		if !since[g] && (a.Group == 0 || g == a.Group) {
			cmds = append(cmds, &cluster.SplitGroup{Group: g, Epoch: v.Groups[g].Epoch})
		}
	}
	return cmds, nil
}

// machine returns the replica of a group of data here, nil for none.
func (m *Member) machine(group cluster.GroupID) *machine.Machine {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := m.replicas[group]; h != nil {
		return h.store
	}
	return nil
}

// splitGroups brings splits that the view has into the logs of the groups that are led here.
func (m *Member) splitGroups(v *cluster.View) {
	for g, group := range v.Groups {
		parent := group.Parent
		if !group.Splitting {
			continue
		}
		st, err := m.run.Status(parent)
		of := m.machine(parent)
		if err != nil || of == nil || st.Leader == 0 || st.Leader != st.Replica ||
			of.Store().Slots() == v.Groups[parent].Slots {
			continue
		}
		command, err := commands.AppendSplit(nil, &commands.Split{Keep: v.Groups[parent].Slots,
			Leave: group.Slots, Child: cluster.GroupID(g), Group: m.identity(cluster.GroupID(g))})
		m.mu.Lock()
		busy := m.changing[parent]
		m.changing[parent] = true
		m.mu.Unlock()
		if busy {
			continue
		}
		m.wg.Go(func() {
			ctx, cancel := context.WithTimeout(m.open, changeTimeout)
			defer cancel()
			if err == nil {
				_, err = m.Here(ctx, parent, command) // that comes twice is done once
			}
			if err != nil && m.open.Err() == nil {
				m.opt.Log.Warn("split a group", "group", parent, "off", g, "err", err)
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			delete(m.changing, parent)
		})
	}
}

// leaves reports whether a replica of the parent here has parted from a group that was split off.
func leaves(of *machine.Machine, v *cluster.View, group cluster.GroupID) bool {
	from, to := v.Span(group)
	held := of.Store().Slots()
	return held.To > 0 && !slots.Range{From: from, To: to}.Within(held)
}

// parentFirst reports whether a replica that was split off has to wait for the one of its parent
// here, which has not come to the split and leaves it its state.
func (m *Member) parentFirst(v *cluster.View, group cluster.GroupID, r cluster.Replica) bool {
	parent := v.Groups[group].Parent
	if parent == 0 || r.ID >= v.Groups[group].Born {
		return false
	}
	of := m.machine(parent)
	if of == nil || leaves(of, v, group) {
		return false
	}
	m.mu.Lock()
	number := cluster.ReplicaID(replica.Number(m.replicas[parent].id))
	m.mu.Unlock()
	return hasReplica(v, parent, number) // else it never comes there
}

// initialVoters returns the voters that a replica which was split off begins with. One whose parent
// here passed the split with a snapshot of another node has no state to begin with: it knows of no
// voters, so that it cannot make itself heard, and is sent the state of the others. So is one that
// comes when they have begun, as the group may have changed its members since.
func (m *Member) initialVoters(v *cluster.View, group cluster.GroupID) (voters []uint64) {
	g := v.Groups[group]
	of := m.machine(g.Parent)
	if of == nil || !leaves(of, v, group) || !of.Left(group) || !g.Splitting {
		return nil
	}
	for _, r := range g.Replicas {
		voters = append(voters, replicaID(r))
	}
	return voters
}

// forgetSeeds removes what splits left for replicas that are not to be here.
func (m *Member) forgetSeeds(v *cluster.View) {
	for g, group := range v.Groups {
		of := m.machine(group.Parent)
		if of == nil || group.Parent == 0 || !of.Left(cluster.GroupID(g)) {
			continue
		}
		wanted := false
		for _, r := range group.Replicas {
			wanted = wanted || r.Node == m.self.ID && r.ID < group.Born
		}
		if wanted && m.machine(cluster.GroupID(g)) == nil {
			continue // it is to be taken
		}
		if err := machine.Forget(m.path("groups"), cluster.GroupID(g)); err != nil {
			m.opt.Log.Warn("remove what a split has left", "group", g, "err", err)
		}
	}
}
