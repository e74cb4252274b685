package cluster

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

const (
	// manyNodes is above how many core nodes the meta group has more replicas than others.
	manyNodes = 10
	// metaReplicas is how many then: of 1,000 nodes, two may well be down at a time.
	metaReplicas = 5
)

// Ranks of changes.
const (
	rankLost    = iota // a copy is lost
	rankMissing        // there are fewer than wanted
	rankDrain
	rankSurplus
	rankBalance
)

// target works out where groups should be, and what differs.
func (p *planner) target() {
	var nodes []Candidate
	for _, n := range p.view.Nodes {
		if n.Role == RoleCore && n.State == NodeUp && !p.gone(n.ID) {
			nodes = append(nodes, Candidate{n.ID, n.Zone, n.Weight})
		}
	}
	groups := make([]Wanted, len(p.view.Groups))
	for g, group := range p.view.Groups {
		groups[g] = Wanted{Group: GroupID(g), Replicas: p.view.Replicas}
		if g == MetaGroup && len(nodes) > manyNodes && p.view.Replicas > 1 {
			groups[g].Replicas = max(metaReplicas, p.view.Replicas)
		}
		for _, r := range group.Replicas {
			if p.planned(GroupID(g)).Remove != r.ID { // as if what runs were done
				groups[g].Now = append(groups[g].Now, r.Node)
			}
		}
	}
	if len(nodes) == 0 {
		p.block("no core node is up: start one")
		return
	}
	p.place = Place(nodes, groups)
	for g := range groups {
		p.differ(GroupID(g), groups[g].Replicas, len(nodes))
	}
	slices.SortStableFunc(p.out.Changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(p.live(a.Group), p.live(b.Group)))
	})
}

func (p *planner) block(format string, args ...any) {
	p.out.Blocked = append(p.out.Blocked, fmt.Sprintf(format, args...))
}

func (p *planner) planned(g GroupID) Plan {
	i, ok := slices.BinarySearchFunc(p.view.Plans, g, func(plan Plan, g GroupID) int {
		return cmp.Compare(plan.Group, g)
	})
	if !ok {
		return Plan{}
	}
	return p.view.Plans[i]
}

// differ notes what is between where a group is, or will be when its plan is done, and where it
// should be: who comes is paired with who goes.
func (p *planner) differ(g GroupID, wanted, nodes int) {
	plan := p.planned(g)
	var goes, stays []Replica
	for _, r := range p.view.Groups[g].Replicas {
		switch {
		case r.ID == plan.Remove:
		case slices.Contains(p.place[g], r.Node):
			stays = append(stays, r)
		default:
			goes = append(goes, r)
		}
	}
	slices.SortStableFunc(goes, func(a, b Replica) int {
		return cmp.Compare(p.urgency(g, a), p.urgency(g, b))
	})
	p.replaceBroken(g, stays)
	have := len(goes) + len(stays)
	for _, id := range p.place[g] {
		if slices.ContainsFunc(stays, func(r Replica) bool { return r.Node == id }) {
			continue
		}
		c := Change{Group: g, Add: id, rank: rankMissing,
			Why: fmt.Sprintf("it has %d copies of %d", have, wanted)}
		if len(goes) > 0 && (have >= wanted || p.isLost(g, goes[0])) {
			c.Remove, c.From, c.rank = goes[0].ID, goes[0].Node, p.urgency(g, goes[0])
			c.Why = fmt.Sprintf("node %v is %s", c.From, p.why(c.From))
			goes = goes[1:]
		} else {
			have++
			p.lacks[g] = true
		}
		p.out.Changes = append(p.out.Changes, c)
	}
	for _, r := range goes {
		c := Change{Group: g, Remove: r.ID, From: r.Node, rank: rankSurplus}
		switch {
		case have > wanted:
			c.Why = fmt.Sprintf("it has %d copies of %d", have, wanted)
		case p.node(r.Node).State == NodeDraining && have > 1 && !p.gone(r.Node),
			p.node(r.Node).State == NodeRemoving && have > 1:
			c.Why = fmt.Sprintf("node %v is %s, and %d others are all there are", r.Node,
				p.why(r.Node), nodes)
		default:
			p.block("group %d: its copy on node %v is lost (%s), and no node can take its place; "+
				"start the node again, or join another", g, r.Node, p.why(r.Node))
			continue
		}
		have--
		p.out.Changes = append(p.out.Changes, c)
	}
}

// replaceBroken notes the replicas that their own nodes do not trust any more: each gets a new one
// on the same node, as nothing but the replica is wrong.
func (p *planner) replaceBroken(g GroupID, stays []Replica) {
	if p.planned(g).ID != 0 {
		return
	}
	for _, r := range stays {
		if slices.Contains(p.group(g).Broken, r.ID) {
			p.out.Changes = append(p.out.Changes, Change{Group: g, Add: r.Node, Remove: r.ID,
				From: r.Node, rank: rankLost,
				Why: fmt.Sprintf("node %v does not trust its copy", r.Node)})
		}
	}
}

// urgency ranks why a replica should not be where it is.
func (p *planner) urgency(g GroupID, r Replica) int {
	switch {
	case p.isLost(g, r):
		return rankLost
	case p.node(r.Node).State != NodeUp:
		return rankDrain
	}
	return rankBalance
}

// start begins plans for the most urgent changes: one a group, and few a node.
func (p *planner) start() {
	for i := range p.out.Changes {
		c := &p.out.Changes[i]
		if c.Waits = p.waits(c); c.Waits != "" {
			continue
		}
		p.busy[c.Group] = true
		if c.Add == c.From && p.group(c.Group).Leader == c.From &&
			p.transfer(c.Group, fmt.Sprintf("node %v does not trust its copy", c.From)) {
			c.Waits = "its leader hands over first"
			continue
		}
		if c.Add == 0 && p.handOver(c.Group, c.Remove) {
			c.Waits = "its leader hands over first"
			continue
		}
		p.incoming[c.Add]++
		epoch := p.view.Groups[c.Group].Epoch
		p.do(&StartPlan{ID: planID(*c, epoch), Group: c.Group, Epoch: epoch, Add: c.Add,
			Remove: c.Remove}, c.Group, c.Why)
	}
}

// waits says why a change cannot begin now; "" if it can.
func (p *planner) waits(c *Change) string {
	switch {
	case p.busy[c.Group]:
		return "another change of the group comes first"
	case c.Add != 0 && p.silent(c.Add):
		return fmt.Sprintf("node %v does not answer", c.Add)
	case c.Add != 0 && p.incoming[c.Add] >= p.view.Limits.copies():
		return fmt.Sprintf("node %v takes in %d copies at a time", c.Add, p.view.Limits.copies())
	}
	if lost := p.lostBeside(c.Group, c.Remove); c.Add != 0 && lost != 0 {
		return fmt.Sprintf("the copy on node %v is lost, and made again first", lost)
	}
	voters, live := len(p.view.Voters(c.Group)), p.live(c.Group)
	if after := voters + count(c.Add != 0) - count(c.Remove != 0); after <= 2 &&
		p.lacks[c.Group] && p.isLive(c.Group, c.Remove) {
		return "the group gets its missing copies first"
	}
	safe := p.safe(c.Group, c.Remove, count(c.Add != 0))
	p.busy[c.Group] = !safe
	switch {
	case live == 0 && p.group(c.Group).Leader == 0: // as in an election: its voters may be well
		return "no leader of the group answers"
	case live*2 <= voters:
		p.block("group %d: %d of its %d voters answer its leader, which is no quorum; start the "+
			"others again", c.Group, live, voters)
		return "the group has no quorum"
	case !safe:
		return fmt.Sprintf("%d of its %d voters answer, too few to be sure of a quorum on the way",
			live, voters)
	}
	return ""
}

// spreadLeaders moves leaderships off nodes that drain, and off those that lead more than their
// replicas make their share.
func (p *planner) spreadLeaders() {
	leads, holds, total := map[NodeID]int{}, map[NodeID]int{}, 0
	for g := range p.view.Groups {
		leads[p.group(GroupID(g)).Leader]++
		for _, r := range p.view.Voters(GroupID(g)) {
			holds[r.Node]++
			total++
		}
	}
	share := func(id NodeID) float64 {
		return float64(holds[id]*len(p.view.Groups)) / float64(max(total, 1))
	}
	left := p.options.Transfers
	for g := range p.view.Groups {
		h := p.group(GroupID(g))
		if h.Leader == 0 || left == 0 || p.busy[GroupID(g)] {
			continue
		}
		if p.leaves(h.Leader) {
			left -= count(p.transfer(GroupID(g), fmt.Sprintf("node %v is %s", h.Leader,
				p.why(h.Leader))))
			continue
		}
		if leads[h.Leader] <= int(math.Ceil(share(h.Leader)*loadBound)) {
			continue
		}
		for _, r := range p.preferred(GroupID(g)) {
			fuller := float64(leads[r.Node]+1)*share(h.Leader) <
				float64(leads[h.Leader])*share(r.Node)
			if fuller && slices.Contains(h.Live, r.ID) && p.mayLead(r.Node) {
				leads[r.Node]++
				leads[h.Leader]--
				left--
				p.out.Moves = append(p.out.Moves, Move{Group: GroupID(g), Transfer: r.Node,
					Leader: h.Leader,
					Why:    fmt.Sprintf("node %v leads more groups than its share", h.Leader)})
				break
			}
		}
	}
}

// preferred lists the voters of a group in the order in which they should lead.
func (p *planner) preferred(g GroupID) []Replica {
	voters := p.view.Voters(g)
	if p.place == nil {
		return voters
	}
	slices.SortStableFunc(voters, func(a, b Replica) int {
		at := func(r Replica) int {
			return cmp.Or(slices.Index(p.place[g], r.Node)+1, len(p.place[g])+1)
		}
		return cmp.Compare(at(a), at(b))
	})
	return voters
}
