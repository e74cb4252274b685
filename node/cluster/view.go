package cluster

import (
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pentad-db/pentad/node/internal/slots"
	"github.com/pentad-db/pentad/sdk/record"
)

// View is what a State said at one epoch. It never changes.
type View struct {
	Cluster  ID
	Epoch    uint64
	Replicas int // wanted of each group
	Feature  uint32
	Nodes    []Node  // by id, those that left included
	Groups   []Group // by number; MetaGroup is the first
	Plans    []Plan  // by group
	// NextReplica is above the ids that were given out: what has it, or a higher one, is of a newer
	// view.
	NextReplica ReplicaID
	Limits      Limits
	nodes       map[NodeID]int
	owners      *slots.Map // nil before there are groups of data
}

// View returns a picture of the state.
func (s *State) View() *View {
	v := &View{Cluster: s.cluster, Epoch: s.epoch, Replicas: int(s.replicas), Feature: s.feature,
		Groups: slices.Clone(s.groups), NextReplica: s.nextReplica, Limits: s.limits,
		nodes: make(map[NodeID]int, len(s.nodes)), owners: s.owners()}
	for i, id := range slices.Sorted(maps.Keys(s.nodes)) {
		v.Nodes = append(v.Nodes, s.nodes[id])
		v.nodes[id] = i
	}
	for _, g := range slices.Sorted(maps.Keys(s.busy)) {
		v.Plans = append(v.Plans, s.plans[s.busy[g]])
	}
	return v
}

// Node returns what is known of a node.
func (v *View) Node(id NodeID) (Node, bool) {
	i, ok := v.nodes[id]
	if !ok {
		return Node{}, false
	}
	return v.Nodes[i], true
}

// DataGroups is the number of groups that own slots; they are numbered from 1.
func (v *View) DataGroups() int { return max(len(v.Groups)-1, 0) }

// Data returns the groups that own slots, in order.
func (v *View) Data() iter.Seq[GroupID] {
	return func(yield func(GroupID) bool) {
		for g := GroupID(1); int(g) < len(v.Groups) && yield(g); g++ {
		}
	}
}

// GroupOf returns the group that owns a device. The cluster must have been created.
func (v *View) GroupOf(cid int32, mid int64) GroupID {
	return v.owners.Group(slots.Of(cid, mid))
}

// Owners says which group owns each slot. It is nil before there are groups.
func (v *View) Owners() *slots.Map { return v.owners }

// Span returns the slots [from, to) of a data group.
func (v *View) Span(group GroupID) (from, to uint32) {
	r := spanOf(v.Groups, group)
	return r.From, r.To
}

// GroupsOf returns the data groups that can hold devices of a normalized box: all, when it names
// none or many.
func (v *View) GroupsOf(box *record.Box) []GroupID {
	if wanted := v.owners.Groups(box); wanted != nil {
		return wanted
	}
	return slices.Collect(v.Data())
}

// Voters returns the replicas of a group that have votes, and all rows; learners may lack some. A
// node that joins has a view without groups at first: none have voters.
func (v *View) Voters(group GroupID) []Replica {
	var out []Replica
	if int(group) >= len(v.Groups) {
		return out
	}
	for _, r := range v.Groups[group].Replicas {
		if !r.Learner {
			out = append(out, r)
		}
	}
	return out
}

// ReplicaOn returns the newest replica of a group that a node has. There are two while a node
// replaces a replica that it does not trust.
func (v *View) ReplicaOn(group GroupID, node NodeID) (out Replica, ok bool) {
	if int(group) >= len(v.Groups) {
		return out, false
	}
	for _, r := range v.Groups[group].Replicas { // by id
		if r.Node == node {
			out, ok = r, true
		}
	}
	return out, ok
}

// Meta keeps the state for many goroutines: one applies commands, others look at views and
// what people told the cluster.
type Meta struct {
	view    atomic.Pointer[View]
	leaders [MaxGroups + 1]atomic.Uint64 // NodeID by group: hints

	mu    sync.RWMutex
	state *State // guarded by mu
}

// NewMeta returns a holder of a state, which is its own from now on.
func NewMeta(s *State) *Meta {
	m := &Meta{state: s}
	m.view.Store(s.View())
	return m
}

// RunAs is State.RunAs, and holds for the states that replace this one.
func (m *Meta) RunAs(f Features) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.RunAs(f)
}

// View returns the latest view. It costs one atomic load.
func (m *Meta) View() *View { return m.view.Load() }

// Apply is State.Apply; a view of what it changed is there when it returns.
func (m *Meta) Apply(command []byte) (Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.state.Apply(command)
	if m.view.Load().Epoch != m.state.epoch {
		m.view.Store(m.state.View())
	}
	return r, err
}

// AppendSnapshot is State.AppendSnapshot.
func (m *Meta) AppendSnapshot(dst []byte) []byte {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.state.AppendSnapshot(dst)
}

// Restore puts the state of a snapshot in place of the present one.
func (m *Meta) Restore(snapshot []byte) error {
	s, err := ParseState(snapshot)
	if err == nil {
		m.Replace(s)
	}
	return err
}

// Replace puts a state in place of the present one.
func (m *Meta) Replace(s *State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.known = m.state.known
	m.state = s
	m.view.Store(s.View())
}

// SetLeader notes who was last seen to lead a group. It may be wrong by the time it is read.
func (m *Meta) SetLeader(group GroupID, id NodeID) { m.leaders[group].Store(uint64(id)) }

// Leader returns whom to ask first for a group: who led it when last seen, if it still holds a
// replica, else who holds the first.
func (m *Meta) Leader(group GroupID) NodeID {
	id := NodeID(m.leaders[group].Load())
	voters := m.View().Voters(group)
	for _, r := range voters {
		if r.Node == id {
			return id
		}
	}
	return voters[0].Node
}
