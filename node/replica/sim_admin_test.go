package replica

import (
	"errors"
	"slices"
	"time"
)

// simAdmin changes the members of one group as an owner does: it gives out ids, creates replicas
// where members are to be, replaces those that were lost, and drops those that were removed.
type simAdmin struct {
	s       *simulation
	group   GroupID
	busy    time.Duration         // a change is in progress until then, unless it answers before
	given   map[uint64]uint32     // incarnations of each node
	created map[uint64]simCreated // replicas, by the process that made them
	dead    map[uint64]bool       // replicas that are gone for ever
	seen    map[uint64]uint64     // the last index at which each was a member
}

type simCreated struct {
	run  int
	done bool
}

func (a *simAdmin) died(replica uint64) { a.dead[replica] = true }

func (a *simAdmin) node(replica uint64) *simNode { return a.s.nodes[Node(replica)-1] }

// newest returns the status that knows most, and the leader.
func (a *simAdmin) newest() (best *Status, leader *simNode) {
	term := uint64(0)
	for _, n := range a.s.nodes {
		st := n.status(a.group)
		if st == nil || st.Err != nil {
			continue
		}
		if best == nil || st.Applied > best.Applied {
			best = st
		}
		if st.Leader == st.Replica && st.Term > term {
			leader, term = n, st.Term
		}
		for _, m := range st.Members {
			a.seen[m.Replica] = max(a.seen[m.Replica], st.Applied)
		}
	}
	return best, leader
}

func (a *simAdmin) step() {
	best, leader := a.newest()
	if best == nil {
		return
	}
	for _, n := range a.s.nodes {
		a.reap(n, best)
	}
	for _, m := range best.Members {
		a.place(m.Replica)
	}
	if leader != nil && a.busy <= a.s.now {
		a.change(leader, leader.status(a.group))
	}
}

// reap drops what is no member any more.
func (a *simAdmin) reap(n *simNode, best *Status) {
	if !n.up() {
		return
	}
	id := n.core.Groups()[a.group]
	if _, err := n.core.Status(a.group); id == 0 || err != nil {
		return
	}
	member := slices.ContainsFunc(best.Members, func(m Member) bool { return m.Replica == id })
	gone := !member && !best.Joint && a.seen[id] > 0 && best.Applied > a.seen[id]
	if gone || a.dead[id] {
		a.s.counts["dropped"]++
		a.dead[id] = true
		n.drop(a.group)
	}
}

// place creates a member that is not there yet, and notices those that were lost.
func (a *simAdmin) place(id uint64) {
	n := a.node(id)
	if !n.up() || a.dead[id] {
		return
	}
	have := n.core.Groups()[a.group]
	if have != 0 {
		return
	}
	for other, made := range a.created {
		if Node(other) == n.id && made.run == n.run && !made.done {
			return // one after the other
		}
	}
	made, ok := a.created[id]
	switch {
	case ok && a.s.bug == bugSameID && made.run != n.run:
	case ok:
		a.dead[id] = true
		return
	}
	a.created[id] = simCreated{run: n.run}
	n.core.Create(a.group, id, nil, func(err error) {
		if err != nil {
			return // the log has failed, or the replica before it is not dropped yet
		}
		a.created[id] = simCreated{n.run, true}
		n.machines[a.group] = newSimMachine(n, a.group, id)
		if err := n.core.Start(a.group, n.machines[a.group]); err != nil {
			a.s.violated("node %d: %v", n.id, err)
		}
	})
}

// change asks for the next step towards as many living voters as there are to be.
func (a *simAdmin) change(leader *simNode, st *Status) {
	if st == nil || st.Joint {
		return
	}
	var voters, dead, ready, learners []uint64
	for _, m := range st.Members {
		switch {
		case a.dead[m.Replica]:
			dead = append(dead, m.Replica)
		case m.Learner && m.Match > 0 && m.Match+10 >= st.Commit:
			ready = append(ready, m.Replica)
		case m.Learner:
			learners = append(learners, m.Replica)
		default:
			voters = append(voters, m.Replica)
		}
	}
	rng, want := a.s.rng, a.s.config.voters
	damaged := slices.ContainsFunc(a.s.nodes, func(n *simNode) bool {
		return n.flips > 0 || n.copied
	})
	quiet := !a.s.healing && len(dead) == 0 && !damaged && rng.IntN(30) == 0
	var c Change
	switch {
	case len(ready) > 0 && len(voters) < want:
		c = Change{Promote: ready[:1], Remove: dead}
	case len(dead) > 0:
		c = Change{Remove: dead}
	case len(voters)+len(ready)+len(learners) < want:
		c = Change{AddLearner: a.free(st)}
	case len(ready)+len(learners) > 0 && len(voters) >= want && (a.s.healing || quiet):
		c = Change{Remove: append(ready, learners...)[:1]}
	case len(ready) > 0 && !a.s.healing && rng.IntN(2) == 0:
		c = Change{Promote: ready[:1], Remove: voters[rng.IntN(len(voters)):][:1]}
	case quiet && len(voters) == want && rng.IntN(2) == 0:
		c = Change{Remove: voters[rng.IntN(want):][:1]}
	case quiet:
		c = Change{AddLearner: a.free(st)}
	}
	if len(c.Promote)+len(c.AddLearner)+len(c.Remove) == 0 {
		return
	}
	a.busy = a.s.now + 3*time.Second
	until := a.busy
	leader.core.Change(a.group, c, func(err error) {
		if a.busy == until {
			a.busy = 0
		}
		switch {
		case err == nil:
			a.s.counts["changes"]++
		case errors.Is(err, ErrChangeRefused), errors.Is(err, ErrUnknown),
			errors.Is(err, ErrNotLeader), errors.Is(err, ErrOverloaded),
			errors.Is(err, ErrLogFailed), errors.Is(err, ErrGroupUnknown),
			errors.Is(err, errSimRefused), errors.Is(err, ErrRolledBack):
		default:
			a.s.violated("group %d: change %+v: %v", a.group, c, err)
		}
	})
}

// free returns a new id on a node that has no living member, if there is one.
func (a *simAdmin) free(st *Status) []uint64 {
	for _, i := range a.s.rng.Perm(len(a.s.nodes)) {
		n := a.s.nodes[i]
		member := slices.ContainsFunc(st.Members, func(m Member) bool {
			return Node(m.Replica) == n.id && !a.dead[m.Replica]
		})
		if n.up() && !member && n.core.Groups()[a.group] == 0 {
			a.given[n.id]++
			return []uint64{NewID(n.id, a.given[n.id])}
		}
	}
	return nil
}

// steady reports whether the group has all its voters, who agree on that even after a loss of
// power, and can bear to lose one.
func (a *simAdmin) steady() bool {
	if a.busy > a.s.now {
		return false
	}
	best, leader := a.newest()
	if best == nil || leader == nil || best.Joint || len(best.Members) < a.s.config.voters {
		return false
	}
	leads, _ := leader.core.lookup(a.group)
	for _, m := range best.Members {
		n := a.node(m.Replica)
		if st := n.status(a.group); st == nil || st.Err != nil || !st.Confirmed || n.copied {
			return false
		}
		if m.Learner || a.dead[m.Replica] || !n.up() ||
			n.core.Groups()[a.group] != m.Replica {
			return false
		}
		if n.core.journal.lookup(a.group).id.config.index != leads.config.index {
			return false
		}
	}
	for _, n := range a.s.nodes {
		g, err := (*group)(nil), error(nil)
		if n.up() {
			g, err = n.core.lookup(a.group)
		}
		if !n.up() || err == nil && g != nil &&
			(g.config.index > best.Applied || g.log.firstConfAfter(g.config.index, 1<<62) != 0) {
			return false
		}
	}
	return true
}

// settled reports whether all members have the same and no one else has anything.
func (a *simAdmin) settled() bool {
	if !a.steady() {
		return false
	}
	best, _ := a.newest()
	for _, n := range a.s.nodes {
		id := n.core.Groups()[a.group]
		member := slices.ContainsFunc(best.Members, func(m Member) bool { return m.Replica == id })
		if id != 0 && !member {
			return false
		}
		if st := n.status(a.group); id != 0 && (st == nil || st.Applied != best.Applied ||
			st.Applied != st.Commit || n.machines[a.group].applied != st.Applied) {
			return false
		}
	}
	return true
}
