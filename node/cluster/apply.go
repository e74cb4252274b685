package cluster

import (
	"fmt"
	"slices"
)

func refused(format string, args ...any) Result {
	return Result{Err: fmt.Errorf("%w: "+format, append([]any{ErrRefused}, args...)...)}
}

func stale(format string, args ...any) Result {
	return Result{Err: fmt.Errorf("%w: "+format, append([]any{ErrStale}, args...)...)}
}

func unknown(format string, args ...any) Result {
	return Result{Err: fmt.Errorf("%w: "+format, append([]any{ErrUnknown}, args...)...)}
}

func (x *Create) apply(s *State) Result {
	if s.cluster == x.Cluster {
		return Result{}
	}
	if s.cluster != (ID{}) {
		return refused("this is cluster %v already", s.cluster)
	}
	if !x.First.runs(x.Feature) {
		return refused("node %v runs feature levels %d to %d, the cluster begins at %d", x.First.ID,
			x.First.MinFeature, x.First.MaxFeature, x.Feature)
	}
	s.epoch++
	s.cluster, s.replicas, s.feature = x.Cluster, x.Replicas, x.Feature
	first := x.First
	first.State = NodeUp
	s.nodes[first.ID] = first
	for range x.Groups + 1 {
		s.groups = append(s.groups, Group{Epoch: s.epoch,
			Replicas: []Replica{{ID: s.nextReplica, Node: first.ID}}})
		s.nextReplica++
	}
	return Result{Changed: true}
}

func (n *Node) runs(level uint32) bool { return n.MinFeature <= level && level <= n.MaxFeature }

func (x *PutNode) apply(s *State) Result {
	n, old := x.Node, s.nodes[x.Node.ID]
	n.State = NodeJoining
	if old.ID != 0 {
		n.State = old.State
	}
	if n.Incarnation == old.Incarnation {
		n.Program = old.Program // which this command does not bring; another start may run another
	}
	switch {
	case old.State == NodeRemoving && old != n:
		return refused("node %v is being removed for good; start it with an empty directory, as "+
			"a new one", n.ID)
	case old.State == NodeLeft:
		return refused("node %v has left for good; start it with an empty directory, as a new one",
			n.ID)
	case old == n:
		return Result{}
	case !n.runs(s.feature):
		return refused("node %v runs feature levels %d to %d, the cluster is at %d; run another "+
			"version of pentad on it", n.ID, n.MinFeature, n.MaxFeature, s.feature)
	case old.ID == 0 && len(s.nodes) >= MaxNodes:
		return refused("the cluster has had %d nodes, the most that it can have", MaxNodes)
	case old.ID != 0 && old.Role != n.Role:
		return refused("node %v is a %v node; start it with an empty directory to be another", n.ID,
			old.Role)
	case n.Incarnation < old.Incarnation:
		return stale("node %v has been started since (incarnation %d, this is %d); if its "+
			"directory was copied or restored, empty it and join as a new node", n.ID,
			old.Incarnation, n.Incarnation)
	}
	s.epoch++
	s.nodes[n.ID] = n
	return Result{Changed: true}
}

func (x *SetNodeState) apply(s *State) Result {
	n := s.nodes[x.Node]
	from, to := n.State, x.State
	switch {
	case n.ID == 0:
		return unknown("node %v", x.Node)
	case from == to:
		return Result{}
	case from == NodeJoining && to == NodeUp, from == NodeDraining && to == NodeUp:
	case from == NodeUp && to == NodeDraining:
		if r := s.spares(x); r.Err != nil {
			return r
		}
	case to == NodeRemoving && from != NodeLeft:
	case to == NodeLeft && (from == NodeDraining || from == NodeRemoving): // or it was taken back
		if held := s.replicasOn(n.ID); held > 0 {
			return refused("node %v still holds %d replicas; drain it first", n.ID, held)
		}
	default:
		return refused("node %v cannot become %v: it is %v", n.ID, to, from)
	}
	s.epoch++
	n.State = to
	s.nodes[n.ID] = n
	return Result{Changed: true}
}

// spares refuses to drain a node without which there are too few.
func (s *State) spares(x *SetNodeState) Result {
	others := 0
	for _, n := range s.nodes {
		others += count(n.ID != x.Node && n.Role == RoleCore && n.State == NodeUp)
	}
	switch {
	case others == 0:
		return refused("node %v is the only one that is up; join another first", x.Node)
	case others < int(s.replicas) && !x.Fewer:
		return refused("without node %v, %d nodes are up for %d copies of everything; join "+
			"another first, or accept fewer copies", x.Node, others, s.replicas)
	}
	return Result{}
}

// replicasOn counts the replicas of a node.
func (s *State) replicasOn(id NodeID) int {
	n := 0
	for _, g := range s.groups {
		for _, r := range g.Replicas {
			if r.Node == id {
				n++
			}
		}
	}
	return n
}

func (x *StartPlan) apply(s *State) Result {
	if p, ok := s.plans[x.ID]; ok {
		if p.Group != x.Group || p.Add != x.Add || p.Remove != x.Remove {
			return refused("plan %d is another one: for group %d", x.ID, p.Group)
		}
		return Result{Replica: p.Learn}
	}
	if int(x.Group) >= len(s.groups) {
		return unknown("group %d", x.Group)
	}
	if x.Add != 0 && s.nextReplica > maxReplicaID {
		return refused("the cluster has given out all numbers of replicas")
	}
	g := s.groups[x.Group]
	if g.Epoch != x.Epoch || s.busy[x.Group] != 0 || s.splitting(x.Group) {
		return stale("group %d is at epoch %d (plan %d), not at %d", x.Group, g.Epoch,
			s.busy[x.Group], x.Epoch)
	}
	if err := s.allows(x, g); err != nil {
		return Result{Err: err}
	}
	s.epoch++
	p := Plan{ID: x.ID, Group: x.Group, Add: x.Add, Remove: x.Remove, Stage: StageSwap}
	if x.Add != 0 {
		p.Stage, p.Learn = StageAdd, s.nextReplica
		s.nextReplica++
		g.Replicas = append(slices.Clone(g.Replicas), Replica{p.Learn, x.Add, true})
		g.Epoch = s.epoch
		s.groups[x.Group] = g
	}
	s.plans[p.ID], s.busy[p.Group] = p, p.ID
	return Result{Changed: true, Replica: p.Learn}
}

// allows says why a plan may not start.
func (s *State) allows(x *StartPlan, g Group) error {
	n := s.nodes[x.Add]
	if x.Add != 0 && (n.Role != RoleCore || n.State != NodeUp) {
		return fmt.Errorf("%w: node %v is to get a replica, and is not a core node that is up",
			ErrRefused, x.Add)
	}
	there := x.Remove == 0
	for _, r := range g.Replicas {
		there = there || r.ID == x.Remove
		if r.Node == x.Add && r.ID != x.Remove { // a node replaces its own replica by a new one
			return fmt.Errorf("%w: node %v has a replica of group %d", ErrRefused, x.Add, x.Group)
		}
	}
	switch after := len(g.Replicas) + count(x.Add != 0) - count(x.Remove != 0); {
	case !there:
		return fmt.Errorf("%w: replica %d of group %d", ErrUnknown, x.Remove, x.Group)
	case after == 0 || after > MaxReplicas:
		return fmt.Errorf("%w: group %d would have %d replicas", ErrRefused, x.Group, after)
	}
	return nil
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (x *SwapPlan) apply(s *State) Result {
	p, ok := s.plans[x.ID]
	if !ok {
		return unknown("plan %d", x.ID)
	}
	if p.Stage == StageSwap {
		return Result{Replica: p.Learn}
	}
	s.epoch++
	p.Stage = StageSwap
	s.plans[p.ID] = p
	return Result{Changed: true, Replica: p.Learn}
}

func (x *FinishPlan) apply(s *State) Result {
	p, ok := s.plans[x.ID]
	if !ok {
		return unknown("plan %d", x.ID)
	}
	if p.Stage != StageSwap {
		return refused("plan %d is at stage %v: its replica has not caught up", x.ID, p.Stage)
	}
	var replicas []Replica
	for _, r := range s.groups[p.Group].Replicas {
		if r.ID != p.Remove {
			replicas = append(replicas, Replica{ID: r.ID, Node: r.Node})
		}
	}
	return s.finish(p, replicas)
}

func (x *AbortPlan) apply(s *State) Result {
	p, ok := s.plans[x.ID]
	if !ok {
		return unknown("plan %d", x.ID)
	}
	if p.Stage != StageAdd {
		return refused("plan %d is at stage %v, and the group may have swapped already", x.ID,
			p.Stage)
	}
	var replicas []Replica
	for _, r := range s.groups[p.Group].Replicas {
		if r.ID != p.Learn {
			replicas = append(replicas, r)
		}
	}
	return s.finish(p, replicas)
}

// finish ends a plan. Replicas in views are never written to, so they are another slice.
func (s *State) finish(p Plan, replicas []Replica) Result {
	s.epoch++
	g := s.groups[p.Group]
	g.Epoch, g.Replicas = s.epoch, replicas
	s.groups[p.Group] = g
	delete(s.plans, p.ID)
	delete(s.busy, p.Group)
	return Result{Changed: true}
}
