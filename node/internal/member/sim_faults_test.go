package member

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/replica"
)

// simHappenings are what has to have happened in many runs, for them to prove anything.
func simHappenings() []string {
	return []string{"kills", "losses of power", "kills of all", "losses of power of all",
		"isolations", "one-way cuts", "partial cuts", "pauses", "clock jumps", "slow disks",
		"full disks", "failed syncs", "transfers", "false hints", "false alarms", "new disks",
		"drains", "splits", "removals", "rebalances", "old copies", "installs",
		"stores with segments", "fetches", "acknowledged",
		"reads", "slices", "answers as of", "erases", "purges", "retentions"}
}

// fault lets something happen to one node, or to all.
func (s *simulation) fault() {
	n := s.nodes[s.dice.IntN(len(s.nodes))]
	later := func(most time.Duration) time.Time {
		return time.Now().Add(100*time.Millisecond + upTo(s.dice, most))
	}
	kinds := []struct {
		name string
		do   func()
	}{
		{"kills", func() { s.endSome(false, n) }},
		{"losses of power", func() { s.endSome(true, n) }},
		{"kills of all", func() { s.endSome(false, s.nodes...) }},
		{"losses of power of all", func() { s.endSome(true, s.nodes...) }},
		{"isolations", func() { s.isolate(n, later(6*time.Second)) }},
		{"one-way cuts", func() { s.net.cut(n.place, s.other(n), later(6*time.Second)) }},
		{"partial cuts", func() {
			other, until := s.other(n), later(6*time.Second)
			s.net.cut(n.place, other, until)
			s.net.cut(other, n.place, until)
		}},
		{"pauses", func() { s.pause(n) }},
		{"clock jumps", func() { s.setClock(n) }},
		{"slow disks", func() { n.disk.set(func(d *simDisk) { d.slow = later(4 * time.Second) }) }},
		{"full disks", func() { n.disk.set(func(d *simDisk) { d.full = later(2 * time.Second) }) }},
		{"failed syncs", func() { n.disk.set(func(d *simDisk) { d.broken = true }) }},
		{"transfers", s.transfer},
		{"false hints", func() { s.lie(n, later(5*time.Second)) }},
		{"false alarms", func() {
			if p, other := n.proc, s.nodes[s.other(n)].proc; p != nil && other != nil {
				p.groups.Load().core.NodeEnded(uint64(other.id()))
			}
		}},
		{"new disks", func() { s.replace(n) }},
		{"drains", func() { s.drain(n) }},
		{"splits", func() { s.split() }},
		{"rebalances", func() { s.rebalance() }},
		{"old copies", func() { s.putBack(n) }},
	}
	k := kinds[s.dice.IntN(len(kinds))]
	s.log.Warn("FAULT", "kind", k.name, "node", n.place)
	switch k.name {
	case "new disks", "drains", "splits", "rebalances", "old copies": // counted where they are done
	default:
		s.count(k.name)
	}
	k.do()
}

func (s *simulation) other(n *simNode) int {
	return (n.place + 1 + s.dice.IntN(len(s.nodes)-1)) % len(s.nodes)
}

func (s *simulation) endSome(power bool, nodes ...*simNode) {
	for _, n := range nodes {
		if n.proc == nil {
			continue
		}
		id := n.proc.id()
		n.end(power)
		if s.dice.IntN(3) == 0 {
			n.backUp(id)
		}
		n.wakeAt = time.Now().Add(upTo(s.dice, s.config.restart))
	}
}

// isolate cuts a node off: from what it hears, from what it says, or both.
func (s *simulation) isolate(n *simNode, until time.Time) {
	way := s.dice.IntN(3)
	for _, other := range s.nodes {
		if way != 0 {
			s.net.cut(n.place, other.place, until)
		}
		if way != 1 {
			s.net.cut(other.place, n.place, until)
		}
	}
}

func (s *simulation) pause(n *simNode) {
	p := n.proc
	if p == nil {
		return
	}
	p.pause()
	time.AfterFunc(200*time.Millisecond+upTo(s.dice, 6*time.Second), p.resume)
}

// setClock sets the clock of a node wrong, and others right: most clocks are.
func (s *simulation) setClock(n *simNode) {
	for _, other := range s.nodes {
		if other != n {
			other.clock.Store(int64(upTo(s.dice, 400*time.Millisecond) - 200*time.Millisecond))
		}
	}
	wrong := s.jump()
	n.clock.Store(int64(wrong))
	s.log.Warn("a clock is wrong", "node", n.place, "by", wrong)
}

// jump draws by how much a clock is wrong: nothing, milliseconds, seconds, days or years.
func (s *simulation) jump() time.Duration {
	size := []time.Duration{0, 400 * time.Millisecond, 10 * time.Second, 3 * time.Hour,
		100 * 24 * time.Hour, 3 * 365 * 24 * time.Hour}[s.dice.IntN(simJumps)]
	if size == 0 {
		return 0
	}
	return upTo(s.dice, 2*size) - size
}

// simJumps is how many of the sizes of jump are drawn.
const simJumps = 6

func (s *simulation) transfer() {
	for _, p := range s.running() {
		for group := range p.member.Load().run.Groups() {
			st, err := p.member.Load().run.Status(group)
			if err == nil && st.Leader == st.Replica && len(st.Members) > 0 && s.dice.IntN(3) == 0 {
				to := st.Members[s.dice.IntN(len(st.Members))].Replica
				p.member.Load().run.TransferLeader(group, to)
			}
		}
	}
}

// lie lets a node believe for a while that another one is dead, suspect or alive.
func (s *simulation) lie(n *simNode, until time.Time) {
	p, other := n.proc, s.nodes[s.other(n)].proc
	if p == nil || other == nil || p.rumours.Load() == nil {
		return
	}
	states := []cluster.PeerState{cluster.PeerAlive, cluster.PeerSuspect, cluster.PeerDead}
	p.rumours.Load().lie(other.id(), simLie{states[s.dice.IntN(3)], until})
}

// operate has an operator do something, until it is done or refused.
func (s *simulation) operate(what string, a AdminCommand) {
	s.operators.Go(func() {
		for try := 0; s.life.Err() == nil; try++ {
			running := s.running()
			if len(running) > 0 {
				ctx, cancel := s.patience()
				_, err := running[try%len(running)].member.Load().Admin(ctx, a)
				cancel()
				s.log.Info("OPERATOR", "what", what, "node", a.Node, "err", fmt.Sprint(err))
				if err == nil {
					s.count(what)
					return
				}
			}
			if a.Verb != Remove && (try > 30 || s.isHalted()) {
				return // a disk that is gone needs it, anything else does not
			}
			select {
			case <-time.After(time.Second):
			case <-s.life.Done():
			}
		}
	})
}

// replace takes the disk of a node away if the groups can bear it. The process that comes back is
// another node; an operator says that the old one is lost.
func (s *simulation) replace(n *simNode) {
	if n.proc == nil || !s.settled() {
		return
	}
	old := n.proc.id()
	s.count("new disks")
	n.wipe()
	n.wakeAt = time.Now().Add(upTo(s.dice, s.config.restart))
	s.operate("removals", AdminCommand{Verb: Remove, Node: old.String()})
}

// drain lets a node leave, if enough others are there. It comes back with an empty disk when it
// has left.
func (s *simulation) drain(n *simNode) {
	if n.proc == nil || len(s.nodes) <= s.config.replicas || !s.settled() {
		return
	}
	id := n.proc.id()
	s.operate("drains", AdminCommand{Verb: Drain, Node: id.String()})
}

// endFailed ends a process that asked for it, and does what its error says.
func (s *simulation) endFailed(n *simNode, err error) {
	old := n.proc.id()
	switch {
	case errors.Is(err, ErrReplaced):
		s.count("copies refused")
		n.wipe()
		s.operate("removals", AdminCommand{Verb: Remove, Node: old.String()})
	case errors.Is(err, ErrClock):
		s.count("wrong clocks found")
		n.clock.Store(0) // as its error asks for
		n.end(false)
	case errors.Is(err, ErrRemoved):
		n.wipe()
	default:
		n.end(false)
	}
	n.wakeAt = time.Now().Add(upTo(s.dice, s.config.restart))
}

// putBack replaces the disks of a node by a copy of an earlier state, if one can be lost: whatever
// other nodes do then, they have all that was acknowledged.
func (s *simulation) putBack(n *simNode) {
	if n.backup == nil || s.lost > 0 || !s.isWhole() {
		return
	}
	if n.proc != nil {
		if n.backup.id != n.proc.id() {
			return
		}
		n.end(true)
	}
	s.count("old copies")
	s.lost++
	n.putBack()
	n.wakeAt = time.Now().Add(upTo(s.dice, s.config.restart))
}

// renewLeft gives nodes that have left an empty disk, as they must not come back as who they were.
func (s *simulation) renewLeft() {
	v := s.newestView()
	if v == nil {
		return
	}
	for _, n := range s.nodes {
		if n.proc == nil || n.proc.member.Load() == nil {
			continue
		}
		at, ok := v.Node(n.proc.id())
		if ok && at.State == cluster.NodeLeft {
			n.wipe()
			n.wakeAt = time.Now().Add(upTo(s.dice, s.config.restart))
		}
	}
}

// maxSimGroups bounds splits: each group costs time.
const maxSimGroups = 4

func (s *simulation) split() {
	v := s.newestView()
	if v == nil || v.DataGroups() == 0 || v.DataGroups() >= maxSimGroups {
		return
	}
	s.operate("splits", AdminCommand{Verb: Split, Group: 1 +
		cluster.GroupID(s.dice.Uint32N(uint32(v.DataGroups())))})
}

func (s *simulation) rebalance() {
	copies := 1 + s.dice.Uint32N(3)
	s.operate("rebalances", AdminCommand{Verb: Rebalance, Copies: &copies})
}

// isWhole reports whether, as far as a view says, every group has all its voters and no other
// replicas, and none of them was on a disk that was taken away: a view has such a replica until
// another one has taken its place.
func (s *simulation) isWhole() bool {
	v := s.newestView()
	if v == nil || len(v.Plans) > 0 {
		return false
	}
	for g := range v.Groups {
		voters := v.Voters(cluster.GroupID(g))
		if len(voters) != s.config.replicas || v.Groups[g].Splitting ||
			slices.ContainsFunc(voters, func(r cluster.Replica) bool { return s.wiped[r.Node] }) {
			return false
		}
	}
	return true
}

// newestView returns the newest view that a node has, nil without any.
func (s *simulation) newestView() (newest *cluster.View) {
	for _, p := range s.running() {
		if v := p.member.Load().View(); newest == nil || v.Epoch > newest.Epoch {
			newest = v
		}
	}
	return newest
}

// settled reports whether every group has its copies, where nodes run.
func (s *simulation) settled() bool { return s.missing() == "" }

// planned says what the leader of the meta group sees and would do.
func (s *simulation) planned() (text string) {
	v := s.newestView()
	for _, p := range s.running() {
		m := p.member.Load()
		text += fmt.Sprintf("; node %d may lead: %v, clock %+v, log: %v", p.node.place,
			m.clock.MayLead(), m.clock.State(), m.run.NoSpace())
		if st, err := m.run.Status(cluster.MetaGroup); err != nil || st.Leader != st.Replica {
			continue
		}
		h := m.Health(v)
		text += fmt.Sprintf("; node %d plans: health %+v, moves", p.node.place, h)
		for _, move := range cluster.NextMoves(v, h, cluster.PlanOptions{}).Moves {
			text += fmt.Sprintf(" %+v (led here for others: %v)", move,
				m.reached.isLeaderPinned(move.Group))
		}
	}
	return text
}

// missing says what is not as it should be, "" for nothing.
func (s *simulation) missing() string {
	running := s.running()
	if len(running) < len(s.nodes) {
		return fmt.Sprintf("%d of %d processes run", len(running), len(s.nodes))
	}
	v := s.newestView()
	if v.DataGroups() == 0 {
		return "there are no groups"
	}
	if len(v.Plans) > 0 {
		text := fmt.Sprintf("%d moves are in progress: %+v", len(v.Plans), v.Plans)
		for _, p := range running {
			st, err := p.member.Load().run.Status(v.Plans[0].Group)
			text += fmt.Sprintf("; node %d (%v): %+v, %v, problems %+v", p.node.place, p.id(), st,
				err, p.member.Load().Problems())
		}
		return text
	}
	for _, p := range running {
		n, ok := v.Node(p.id())
		if !ok || n.State != cluster.NodeUp {
			return fmt.Sprintf("node %d is %v", p.node.place, n.State)
		}
		if p.member.Load().View().Epoch != v.Epoch {
			return fmt.Sprintf("node %d has an old view", p.node.place)
		}
	}
	for g := range v.Groups {
		if why := s.missingOf(v, cluster.GroupID(g)); why != "" {
			return fmt.Sprintf("group %d: %s", g, why)
		}
	}
	return ""
}

// missingOf says what is not as it should be with a group.
func (s *simulation) missingOf(v *cluster.View, group cluster.GroupID) string {
	replicas := v.Groups[group].Replicas
	if len(replicas) != s.config.replicas || v.Groups[group].Splitting {
		return fmt.Sprintf("%d replicas, splitting %v", len(replicas), v.Groups[group].Splitting)
	}
	running := s.running()
	for _, r := range replicas { // a leader with little to say does not see that one is gone
		if !slices.ContainsFunc(running, func(p *simProcess) bool { return p.id() == r.Node }) {
			return fmt.Sprintf("replica %d is on node %v, which is not there", r.ID, r.Node)
		}
	}
	var leader *replica.Status
	for _, p := range running {
		st, err := p.member.Load().run.Status(group)
		here := slices.ContainsFunc(replicas, func(r cluster.Replica) bool {
			return r.Node == p.id()
		})
		switch {
		case !here && err != nil:
			continue
		case err != nil || st.Err != nil:
			return fmt.Sprintf("on node %d: %v, %v; of replicas %+v its log has %x; problems %+v",
				p.node.place, err, st.Err, replicas, p.member.Load().run.Groups(),
				p.member.Load().Problems())
		case !here:
			return fmt.Sprintf("node %d has a replica too many", p.node.place)
		case st.Leader == 0:
			return fmt.Sprintf("node %d knows no leader", p.node.place)
		case st.Leader == st.Replica:
			leader = &st
		}
	}
	if leader == nil {
		return "no leader"
	}
	if leader.Joint || len(leader.Members) != s.config.replicas {
		return fmt.Sprintf("members %+v, joint %v", leader.Members, leader.Joint)
	}
	for _, m := range leader.Members {
		if m.Learner || m.Replica != leader.Replica && m.Match+20 < leader.Last {
			return fmt.Sprintf("replica %x is behind: %+v, last %d", m.Replica, m, leader.Last)
		}
	}
	return ""
}
