package cluster

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/zeebo/xxh3"
)

// NodeHealth is what was seen of a node. One that is missing is taken for well.
type NodeHealth struct {
	GossipDead  bool          // gossip says so
	Unreachable time.Duration // since the leader of the meta group last reached it; 0: it does
	MayNotLead  bool          // it gives leadership away: its clock is wrong, or its disk stalls
}

// GroupHealth is what a group's leader says of it, and what planning goes by.
type GroupHealth struct {
	Leader   NodeID      // 0: none is known
	Voters   []ReplicaID // as consensus has them, which may be ahead of the view or behind
	Live     []ReplicaID // voters that answer and are not far behind, the leader's included
	CaughtUp []ReplicaID // learners that could vote
	Broken   []ReplicaID // replicas that their nodes do not trust; none of them is Live
}

// Health is of all nodes and groups; groups by number.
type Health struct {
	Nodes  map[NodeID]NodeHealth
	Groups []GroupHealth
}

// PlanOptions bound how much moves at a time. The zero value works.
type PlanOptions struct {
	// Grace is how long a node must be dead and unreachable before its replicas are made again
	// elsewhere: 10 minutes, as most machines are back by then.
	Grace time.Duration
	// Transfers is how many leaders move at a time for balance: 4, as each stops a group's writes
	// for some milliseconds.
	Transfers int
	// Round is how often was planned before: a leadership that one node does not take is offered to
	// the next one after some rounds.
	Round uint64
}

// offerRounds is for how many rounds a leadership is offered to the same node.
const offerRounds = 16

func (o PlanOptions) orDefaults() PlanOptions {
	return PlanOptions{Grace: cmp.Or(o.Grace, 10*time.Minute),
		Transfers: cmp.Or(o.Transfers, 4), Round: o.Round}
}

// Move is one thing to do: a command for the meta group, or a group's leadership to hand over.
type Move struct {
	Command  Command // nil: it is a transfer
	Group    GroupID // of a transfer, or a plan
	Transfer NodeID  // who should lead the group
	Leader   NodeID  // who said that it leads the group, of a transfer
	Why      string
}

// Change is a difference between where a group is and where it should be.
type Change struct {
	Group  GroupID
	Add    NodeID    // 0: none
	Remove ReplicaID // 0: none
	From   NodeID    // holds Remove
	Why    string
	Waits  string // what it waits for; "": it can begin
	rank   int    // the most urgent first
}

// Outlook is what the planner sees.
type Outlook struct {
	Moves   []Move   // to do now; doing them twice, or some of them only, does no harm
	Changes []Change // all that is left until the cluster is as it should be, beside Running
	Running []Plan
	Blocked []string // what cannot go on by itself, and what to do about it
}

// NextMoves says what to do next. The leader of the meta group asks now and then, does it, and asks
// again with a new view: no move relies on the one before it.
func NextMoves(v *View, h Health, o PlanOptions) Outlook {
	p := &planner{view: v, health: h, options: o.orDefaults(), busy: map[GroupID]bool{},
		lacks: map[GroupID]bool{}, incoming: map[NodeID]int{}}
	p.out.Running = v.Plans
	for _, plan := range v.Plans {
		p.busy[plan.Group] = true
		if plan.Stage == StageAdd {
			p.incoming[plan.Add]++
		}
	}
	p.endSplits()
	p.moveNodes()
	for _, plan := range v.Plans {
		p.goOn(plan)
	}
	p.target()
	p.start()
	p.spreadLeaders()
	return p.out
}

type planner struct {
	view     *View
	health   Health
	options  PlanOptions
	busy     map[GroupID]bool
	lacks    map[GroupID]bool // groups that get more copies before they give up one that answers
	incoming map[NodeID]int
	place    [][]NodeID // where groups should be
	out      Outlook
}

func (p *planner) do(cmd Command, group GroupID, why string) {
	p.out.Moves = append(p.out.Moves, Move{Command: cmd, Group: group, Why: why})
}

// gone reports whether a node's replicas are to be made again: all three who could know say so, or
// an operator has.
func (p *planner) gone(id NodeID) bool {
	h := p.health.Nodes[id]
	return h.GossipDead && h.Unreachable >= p.options.Grace || p.node(id).State == NodeRemoving
}

// leaves reports whether a node is to hold nothing any more.
func (p *planner) leaves(id NodeID) bool {
	state := p.node(id).State
	return state == NodeDraining || state == NodeRemoving
}

// silent reports whether a node should not be given anything now.
func (p *planner) silent(id NodeID) bool {
	h := p.health.Nodes[id]
	return h.GossipDead || h.Unreachable > 0
}

func (p *planner) node(id NodeID) Node {
	n, _ := p.view.Node(id)
	return n
}

func (p *planner) group(g GroupID) GroupHealth {
	if int(g) < len(p.health.Groups) {
		return p.health.Groups[g]
	}
	return GroupHealth{}
}

// moveNodes lets in who joins, and lets go who is drained.
func (p *planner) moveNodes() {
	held := map[NodeID]int{}
	for _, g := range p.view.Groups {
		for _, r := range g.Replicas {
			held[r.Node]++
		}
	}
	for _, n := range p.view.Nodes {
		switch {
		case n.State == NodeJoining && !p.silent(n.ID):
			p.do(&SetNodeState{Node: n.ID, State: NodeUp}, 0,
				fmt.Sprintf("node %v has joined", n.ID))
		case p.leaves(n.ID) && held[n.ID] == 0:
			p.do(&SetNodeState{Node: n.ID, State: NodeLeft}, 0,
				fmt.Sprintf("node %v holds nothing more", n.ID))
		}
	}
}

// goOn takes a plan that is in progress to its next stage, when the group is ready for it.
func (p *planner) goOn(plan Plan) {
	h := p.group(plan.Group)
	switch plan.Stage {
	case StageAdd:
		if n := p.node(plan.Add); n.State != NodeUp || p.gone(plan.Add) {
			p.do(&AbortPlan{plan.ID}, plan.Group, fmt.Sprintf("node %v, which was to get a copy, "+
				"is %s", plan.Add, p.why(plan.Add)))
			return
		}
		if lost := p.lostBeside(plan.Group, plan.Remove); lost != 0 {
			p.do(&AbortPlan{plan.ID}, plan.Group, fmt.Sprintf("the copy on node %v was lost "+
				"meanwhile, and is made again first", lost))
			return
		}
		if !slices.Contains(h.CaughtUp, plan.Learn) || p.silent(plan.Add) ||
			!p.safe(plan.Group, plan.Remove, 1) {
			return
		}
		if !p.handOver(plan.Group, plan.Remove) {
			p.do(&SwapPlan{plan.ID}, plan.Group,
				fmt.Sprintf("the new copy on node %v has caught up", plan.Add))
		}
	case StageSwap:
		in := plan.Learn == 0 || slices.Contains(h.Voters, plan.Learn)
		if in && !slices.Contains(h.Voters, plan.Remove) && len(h.Voters) > 0 {
			p.do(&FinishPlan{plan.ID}, plan.Group, "the group has changed its members")
		}
	}
}

// lostBeside returns the node of a copy that is lost, or that its node does not trust, while
// another one, which answers, is to be replaced, or one is to be added, with replaced 0: the lost
// one comes first, as without it the group cannot bear that the other one goes, nor that the added
// one is lost. 0: there is none.
func (p *planner) lostBeside(group GroupID, replaced ReplicaID) NodeID {
	if replaced != 0 && !p.isLive(group, replaced) {
		return 0
	}
	for _, r := range p.view.Voters(group) {
		if p.isLost(group, r) {
			return r.Node
		}
	}
	return 0
}

// isLost reports whether a copy is lost. One that answers is not, even if its node is removed.
func (p *planner) isLost(group GroupID, r Replica) bool {
	return p.gone(r.Node) && !p.isLive(group, r.ID) ||
		slices.Contains(p.group(group).Broken, r.ID)
}

// endSplits lets groups that were split off go their own ways once their replicas have begun. It
// does not wait for those on nodes that do not answer, nor for those that begin only when they are
// replaced: their nodes do not trust them, or not the replica that would leave them their state.
// Neither part moves before: a new replica of the one has no use for what the other leaves.
func (p *planner) endSplits() {
	for g, group := range p.view.Groups {
		if !group.Splitting {
			continue
		}
		child, h := GroupID(g), p.group(GroupID(g))
		p.busy[child], p.busy[group.Parent] = true, true
		begun := h.Leader != 0
		for _, r := range group.Replicas {
			begun = begun && (slices.Contains(h.Live, r.ID) || p.silent(r.Node) ||
				slices.Contains(h.Broken, r.ID) || p.isBroken(group.Parent, r.Node))
		}
		if begun {
			p.do(&EndSplit{child}, child, fmt.Sprintf("it was split off group %d", group.Parent))
		}
	}
}

// isBroken reports whether a node does not trust its replica of a group.
func (p *planner) isBroken(group GroupID, node NodeID) bool {
	r, ok := p.view.ReplicaOn(group, node)
	return ok && slices.Contains(p.group(group).Broken, r.ID)
}

// handOver moves the leadership away from a replica that is to go, and reports whether it was there
// and another voter can take it. A last voter keeps it until consensus takes it away.
func (p *planner) handOver(group GroupID, goes ReplicaID) bool {
	h := p.group(group)
	for _, r := range p.view.Groups[group].Replicas {
		if r.ID == goes && r.Node == h.Leader && slices.Contains(h.Live, goes) {
			return p.transfer(group, fmt.Sprintf("the copy on node %v is removed", r.Node))
		}
	}
	return false
}

// transfer hands the leadership of a group to another live voter whose node is up, and reports
// whether there is one.
func (p *planner) transfer(group GroupID, why string) bool {
	h := p.group(group)
	var takers []NodeID
	for _, r := range p.view.Voters(group) {
		if r.Node != h.Leader && slices.Contains(h.Live, r.ID) && p.mayLead(r.Node) {
			takers = append(takers, r.Node)
		}
	}
	if len(takers) == 0 {
		return false
	}
	to := takers[p.options.Round/offerRounds%uint64(len(takers))]
	p.out.Moves = append(p.out.Moves, Move{Group: group, Transfer: to, Leader: h.Leader, Why: why})
	return true
}

// mayLead reports whether a node takes the leadership of a group when it is offered.
func (p *planner) mayLead(id NodeID) bool {
	return p.node(id).State == NodeUp && !p.health.Nodes[id].MayNotLead
}

// safe reports whether a group has a quorum of live voters, and keeps one with added new voters and
// without one that is removed. The view may be old, and a change that has begun needs a quorum of
// the voters to come. So these must have one also without the new voter or, where only a live voter
// is removed, without one more. A group that is left with one or two cannot have that; lacks says
// when it may become one.
func (p *planner) safe(group GroupID, remove ReplicaID, added int) bool {
	voters := p.view.Voters(group)
	live := p.live(group)
	if live*2 <= len(voters) {
		return false
	}
	gives := p.isLive(group, remove)
	after := len(voters) + added - count(remove != 0)
	live += added - count(gives)
	if after > 2 && (added > 0 || gives) {
		live--
	}
	return live*2 > after
}

// isLive reports whether a voter of a group answers.
func (p *planner) isLive(group GroupID, id ReplicaID) bool {
	return slices.Contains(p.group(group).Live, id)
}

// live counts the voters that answer.
func (p *planner) live(group GroupID) int {
	n := 0
	for _, r := range p.view.Voters(group) {
		n += count(p.isLive(group, r.ID))
	}
	return n
}

// why says what is wrong with where a replica is.
func (p *planner) why(id NodeID) string {
	switch n := p.node(id); {
	case n.State == NodeRemoving:
		return "removed"
	case p.gone(id):
		return "dead for " + p.health.Nodes[id].Unreachable.Round(time.Second).String()
	case n.State != NodeUp:
		return n.State.String()
	}
	return "fuller than others"
}

// planID names a plan by what it does to which state of a group, so that a leader that plans it
// again means the same one.
func planID(c Change, epoch uint64) PlanID {
	var key [28]byte
	binary.LittleEndian.PutUint32(key[:], uint32(c.Group))
	binary.LittleEndian.PutUint64(key[4:], epoch)
	binary.LittleEndian.PutUint64(key[12:], uint64(c.Add))
	binary.LittleEndian.PutUint64(key[20:], uint64(c.Remove))
	return PlanID(max(xxh3.Hash(key[:]), 1))
}
