package replica

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

const (
	// proofTicks is how long a replica of an unchanged directory waits for the confirmation of all
	// other voters. After that the confirmation of half of them is enough. 3 s, in which nodes that
	// are started together find each other.
	proofTicks = 60
	// trustTicks is how long a replica of a directory that the operator vouches for waits for all
	// others. 2 min, in which an operator starts the nodes of a cluster.
	trustTicks = 2400
	// askTicks is how often one that has not confirmed is asked, and againTicks one that has: it
	// may know by now that the group has other members.
	askTicks, againTicks = 4, 20
	// noteTicks is how often what was promised is noted and, by a leader, told: 2 s.
	noteTicks = 40
)

// proving is what a replica has to do after a start before it takes part: find out whether it knows
// all that it promised. Until then it neither hears the library's messages nor lets time pass for
// it, so it does not vote, acknowledge, campaign or confirm reads.
type proving struct {
	done      bool
	began     int             // ticks
	confirmed map[uint64]bool // replicas that remember nothing that is missing here
	asked     map[uint64]int  // ticks when each was asked last
	config    config          // the newest that a replica has
	led       uint64          // replica that sent what only leaders send; 0: none
	refused   int             // messages that offered less than what is committed here

	// A replica of a directory that may be a copy, or is known to be one, is taken to have voted in
	// every term and to have acknowledged every entry that another voter has: what others remember
	// may have been lost when all of them lost power. It votes in no term through floorTerm, and
	// while it is guarded, until its log reaches the floor, neither for a candidate whose log does
	// not, nor for itself.
	guarded              bool
	floorTerm            uint64
	floorLast, floorLogT uint64 // the furthest log: its last entry, and the term of that
}

// reaches reports whether a log that ends so is as far as the floor.
func (p *proving) reaches(last, logTerm uint64) bool {
	return logTerm > p.floorLogT || logTerm == p.floorLogT && last >= p.floorLast
}

// prove begins the proof and publishes the status. A replica that was created by this process
// cannot have promised anything that it forgot. From the end of prove on the group is that of its
// worker, to which a guard of votes may be posted.
func (g *group) prove(fresh bool) {
	g.proving = proving{done: fresh, confirmed: map[uint64]bool{},
		asked: map[uint64]int{}, config: g.config}
	g.log.mu.Lock()
	g.known = slices.Clone(g.log.promises)
	g.log.mu.Unlock()
	g.publishStatus()
	g.endProofWhenConfirmed()
}

// others returns the voters on other nodes, of the newest config that is known. One on this node is
// the replica that this one takes the place of.
func (g *group) others() (out []uint64) {
	s := g.proving.config.state
	for _, list := range [...][]uint64{s.GetVoters(), s.GetVotersOutgoing()} {
		for _, id := range list {
			if Node(id) != Node(g.replica) && !slices.Contains(out, id) {
				out = append(out, id)
			}
		}
	}
	return out
}

// endProofWhenConfirmed ends the proof when those that have confirmed are enough. A directory that
// may be a copy needs all other voters: any of them may be the only one that knows what is missing
// here; where there is no other, it may be from the time before the others came. Of one that
// nothing is known against, or that is trusted, half of them are enough after a while: with fewer,
// a group has no majority anyway, and with more, it would not outlive the loss of a node.
func (g *group) endProofWhenConfirmed() {
	p := &g.proving
	if p.done || g.err != nil {
		return
	}
	opt := &g.core.opt
	done := len(g.unconfirmed()) == 0 && (!opt.Copied || opt.Trust || len(g.others()) > 0)
	waited := g.ticks - p.began
	if !done && (opt.Trust && waited >= opt.TrustTicks ||
		!opt.Trust && !opt.Copied && waited >= proofTicks) {
		s := p.config.state
		done = g.isHalfConfirmed(s.GetVoters()) && g.isHalfConfirmed(s.GetVotersOutgoing())
	}
	switch {
	case !done || p.guarded: // it is being guarded already
	case opt.Copied || opt.Trust:
		g.guardVotes()
	default:
		p.done = true
		g.publishStatus()
	}
}

// guardVotes notes, as the vote of this replica in the newest term that others know, one for
// itself, and lets it take part when that is durable. What it voted in older terms does not count
// any more.
func (g *group) guardVotes() {
	g.log.mu.Lock()
	term, vote, commit := g.log.id.term, g.log.id.vote, g.log.id.commit
	g.log.mu.Unlock()
	if term < g.proving.floorTerm {
		term, vote = g.proving.floorTerm, 0
	}
	if term == g.proving.floorTerm && vote == 0 {
		vote = g.replica
	}
	g.proving.guarded = true
	f := frame{kind: kindHardState, term: term, index: commit, payload: u64(vote)}
	g.core.flusher.add(&job{records: []record{{group: g.log, frame: f}}, sync: true,
		done: func(err error) {
			g.post(func() {
				if err == nil {
					err = g.begin() // the library's node has done nothing yet
				}
				if err != nil {
					g.stop(err)
					return
				}
				g.proving.done = true
				g.publishStatus()
			})
		}})
}

// endVoteGuard ends the guard when the log reaches the floor.
func (g *group) endVoteGuard() {
	last, _ := g.log.LastIndex()
	term, err := g.log.Term(last)
	if err == nil && g.proving.reaches(last, term) {
		g.proving.guarded = false
		g.publishStatus()
	}
}

// refusesVote reports whether a vote is not given, because this replica may have given it to
// another or may have acknowledged what the candidate lacks.
func (g *group) refusesVote(m *pb.Message) bool {
	p := &g.proving
	switch m.GetType() {
	case pb.MsgVote, pb.MsgPreVote:
		return m.GetTerm() <= p.floorTerm ||
			p.guarded && !p.reaches(m.GetIndex(), m.GetLogTerm())
	case pb.MsgTimeoutNow:
		return p.guarded
	}
	return false
}

// isHalfConfirmed reports whether half of some voters, this one aside, have confirmed.
func (g *group) isHalfConfirmed(voters []uint64) bool {
	confirmed := 0
	for _, id := range voters {
		if id != g.replica && g.proving.confirmed[id] {
			confirmed++
		}
	}
	return confirmed >= len(voters)/2
}

// unconfirmed returns the voters that have not confirmed yet.
func (g *group) unconfirmed() []uint64 {
	return slices.DeleteFunc(g.others(), func(id uint64) bool { return g.proving.confirmed[id] })
}

// proveTick asks those that have not answered.
func (g *group) proveTick() {
	p := &g.proving
	for _, id := range g.others() {
		at, asked := p.asked[id] // also on behalf of a newer replica of its node
		wait := askTicks
		if p.confirmed[id] {
			wait = againTicks
		}
		if !asked || g.ticks-at >= wait {
			p.asked[id] = g.ticks
			g.sendProof(id, proofAsk, g.core.nonce)
		}
	}
	g.endProofWhenConfirmed()
	if g.ticks%statusTicks == 0 {
		g.publishStatus()
	}
}

// receiveUnproven takes a message of the library before the proof: it only shows who is there.
func (g *group) receiveUnproven(m *pb.Message) {
	switch m.GetType() {
	case pb.MsgApp, pb.MsgHeartbeat, pb.MsgSnap:
		g.proving.led = m.GetFrom()
	}
	if _, asked := g.proving.asked[m.GetFrom()]; !asked { // it may know newer members
		g.proving.asked[m.GetFrom()] = g.ticks
		g.sendProof(m.GetFrom(), proofAsk, g.core.nonce)
	}
}

// sendProof says what this replica has and remembers, all of which is durable but what it
// remembers.
func (g *group) sendProof(to uint64, kind uint8, number uint64) {
	p := proof{kind: kind, from: g.replica, to: to, number: number, starts: g.core.opt.Starts}
	g.log.mu.Lock()
	id := &g.log.id
	p.term, p.vote, p.last, p.config = id.term, id.vote, g.log.last(), id.config
	g.log.mu.Unlock()
	p.lastTerm, _ = g.log.Term(p.last)
	p.commit, p.commitTerm = g.committed()
	if kind == proofKnown {
		p.known = g.known
	} else {
		remembered := g.known.of(to)
		if p.vote == to { // who got a vote had asked for it
			remembered.merge(promise{term: p.term, vote: to})
		}
		p.known = promises{remembered}
	}
	g.core.opt.Network.Send(Node(to), g.id, appendProof(nil, &p))
}

// committed returns the last entry that is known to be committed and is durable here: what was
// applied is both. Of none, or none whose term is known, the index is 0.
func (g *group) committed() (index, term uint64) {
	index = g.applied
	if !g.proving.done { // and nothing is on its way to the log
		g.log.mu.Lock()
		index = max(index, min(g.log.id.commit, g.log.last()))
		g.log.mu.Unlock()
	}
	term, err := g.log.Term(index)
	if err != nil || index == 0 {
		return 0, 0
	}
	return index, term
}

// receiveProof takes what another replica says of what was promised. A replica that has stopped
// answers, too: what it remembers is true.
func (g *group) receiveProof(p *proof) {
	switch p.kind {
	case proofAsk:
		g.answerProof(p)
	case proofTell:
		if p.number == g.core.nonce {
			g.hearProof(p)
		}
	case proofKnown:
		for _, one := range p.known {
			if one.replica != g.replica {
				g.known.merge(one)
			}
		}
	case proofFork:
		if g.err == nil { // else both know
			g.checkFork(p)
		}
	}
}

func (g *group) answerProof(p *proof) {
	g.observeMembers()
	seen := g.known.of(p.from)
	if len(p.starts) > 0 && startFollows(p.starts, seen.start) {
		// What it has is durable there, and what it says now is a promise.
		g.known.merge(promise{replica: p.from, start: p.starts[len(p.starts)-1]})
	}
	g.sendProof(p.from, proofTell, p.number)
	g.compareProof(p)
}

func (g *group) hearProof(p *proof) {
	if g.compareProof(p); g.err != nil || g.proving.done {
		return
	}
	if p.config.index > g.proving.config.index {
		g.proving.config = p.config
	}
	g.proving.confirmed[p.from] = true
	if g.core.opt.Copied || g.core.opt.Trust {
		g.proving.floorTerm = max(g.proving.floorTerm, p.term)
		if g.proving.reaches(p.last, p.lastTerm) {
			g.proving.floorLast, g.proving.floorLogT = p.last, p.lastTerm
		}
	}
	g.endProofWhenConfirmed()
}

// compareProof compares what another replica has and remembers with what is here. What it remembers
// of this one, this one must have, whenever it is heard.
func (g *group) compareProof(p *proof) {
	if errors.Is(g.err, ErrForked) {
		g.checkFork(p) // for the others of the group to know it
	}
	if g.err != nil {
		return
	}
	g.log.mu.Lock()
	term, vote, last := g.log.id.term, g.log.id.vote, g.log.last()
	g.log.mu.Unlock()
	at, newer := slices.BinarySearchFunc(p.config.newest, g.core.opt.Node, byNode)
	mine := p.known.of(g.replica)
	switch {
	case g.core.opt.Trust:
	case newer && p.config.newest[at] > g.replica:
		g.fence(fmt.Errorf("%w: node %016x knows replica %d of this node, which came after this "+
			"one", ErrRolledBack, Node(p.from), Number(p.config.newest[at])))
	case !startFollows(g.core.opt.Starts, mine.start):
		g.fence(fmt.Errorf("%w: node %016x remembers a start of this node (%x) that the directory "+
			"does not know of", ErrRolledBack, Node(p.from), mine.start))
	case !mine.keptBy(term, vote, last):
		g.fence(fmt.Errorf("%w: node %016x was promised term %d, a vote for node %016x and entry "+
			"%d; the log has term %d, a vote for node %016x and entry %d", ErrRolledBack,
			Node(p.from), mine.term, Node(mine.vote), mine.index, term, Node(vote), last))
	}
	if g.err == nil {
		g.checkFork(p)
	}
}

// checkFork stops the group when another replica has another entry where both know that one is
// committed: one of them was committed without a replica that had acknowledged the other. Nothing
// says which is right, so none goes on. A replica that does not keep what it promised says nothing:
// it is about to hear that.
func (g *group) checkFork(p *proof) {
	seen := g.known.of(p.from)
	commit, _ := g.committed()
	if p.commit == 0 || p.commit > commit || g.err != nil && !errors.Is(g.err, ErrForked) ||
		!startFollows(p.starts, seen.start) || !seen.keptBy(p.term, p.vote, p.last) {
		return
	}
	term, err := g.log.Term(p.commit)
	if err != nil || term == p.commitTerm {
		return
	}
	g.sendFork(p.from, p.commit, term)
	g.stop(fmt.Errorf("%w: %w: entry %d is committed here with term %d, and on node %016x with "+
		"term %d", ErrStopped, ErrForked, p.commit, term, Node(p.from), p.commitTerm))
}

// sendFork lets the other side of a fork find out.
func (g *group) sendFork(to, index, term uint64) {
	g.log.mu.Lock()
	p := proof{kind: proofFork, from: g.replica, to: to, commit: index, commitTerm: term,
		term: g.log.id.term, vote: g.log.id.vote, last: g.log.last(), starts: g.core.opt.Starts,
		config: config{state: &pb.ConfState{}}}
	g.log.mu.Unlock()
	g.core.opt.Network.Send(Node(to), g.id, appendProof(nil, &p))
}

// tellFork asks the others of a group that stopped because of a fork, now and then, for what they
// have: one that still goes on is told.
func (g *group) tellFork() {
	if g.ticks%againTicks != 0 || !errors.Is(g.err, ErrForked) {
		return
	}
	for _, id := range g.others() {
		g.sendProof(id, proofAsk, g.core.nonce)
	}
}

// maxRefused is how often a peer may offer less than what is committed here without it being found
// out which of the two is wrong: their logs may have been cut where they differ.
const maxRefused = 100

// offersLess reports whether a leader sends entries in place of ones that are committed here, or a
// candidate that lacks some asks for a vote. Neither can come to be while replicas keep what they
// promised, and neither is taken. The peer is asked, and one of the two found to be wrong, or both.
func (g *group) offersLess(m *pb.Message) bool {
	less := false
	switch m.GetType() {
	case pb.MsgApp:
		if m.GetIndex() > g.applied || m.GetTerm() < g.term {
			return false // which is nearly always
		}
		less = g.differs(m.GetIndex(), m.GetLogTerm())
		for _, e := range m.GetEntries() {
			less = less || e.GetIndex() <= g.applied && g.differs(e.GetIndex(), e.GetTerm())
		}
	case pb.MsgVote, pb.MsgPreVote:
		last, _ := g.log.LastIndex()
		term, err := g.log.Term(last)
		less = err == nil && m.GetIndex() < g.applied && m.GetLogTerm() > term
	}
	if !less {
		return false
	}
	p, from := &g.proving, m.GetFrom()
	if at, asked := p.asked[from]; !asked || g.ticks-at >= askTicks {
		p.asked[from] = g.ticks
		g.sendProof(from, proofAsk, g.core.nonce)
	}
	if p.refused++; p.refused == maxRefused {
		g.stop(fmt.Errorf("%w: %w: node %016x offers entries in place of ones that are committed "+
			"here, through entry %d", ErrStopped, ErrForked, Node(from), g.applied))
	}
	return true
}

func (g *group) differs(index, theirs uint64) bool {
	term, err := g.log.Term(index)
	return err == nil && term != theirs
}

// fence ends a replica that knows less than it promised, for ever: a later start may not meet who
// remembers.
func (g *group) fence(err error) {
	f := frame{kind: kindFenced, payload: []byte(err.Error())}
	g.core.flusher.add(&job{records: []record{{group: g.log, frame: f}}, sync: true,
		done: func(error) {}})
	g.stop(fmt.Errorf("%w: %w", ErrStopped, err))
}

// observe remembers what a message promises of its sender.
func (g *group) observe(m *pb.Message) {
	p := promise{replica: m.GetFrom(), term: m.GetTerm()}
	switch m.GetType() {
	case pb.MsgVoteResp:
		if m.GetReject() {
			return
		}
		p.vote = g.replica
	case pb.MsgVote: // which goes when the vote for itself is durable, and the log before it
		p.vote, p.index = p.replica, m.GetIndex()
	case pb.MsgApp, pb.MsgSnap:
		p.vote = p.replica
		if at, ok := g.known.find(p.replica); ok && g.known[at].term >= p.term &&
			g.known[at].vote != 0 {
			return
		}
	default:
		return
	}
	g.known.merge(p)
}

// observeMembers takes in what a leader knows of all members, itself included.
func (g *group) observeMembers() {
	st := g.node.BasicStatus()
	if st.RaftState != raft.StateLeader || g.err != nil {
		return
	}
	term := st.GetTerm()
	g.node.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		if p.Match == 0 {
			return
		}
		one := promise{replica: id, term: term, index: p.Match}
		if id == g.replica {
			one.vote = id
			if n := len(g.core.opt.Starts); n > 0 {
				one.start = g.core.opt.Starts[n-1]
			}
		}
		g.known.merge(one)
	})
}

// notePromises notes what was promised, when that is more than was noted before, and lets a leader
// tell its followers. The note needs no flush of its own.
func (g *group) notePromises() {
	g.observeMembers()
	members := map[uint64]bool{}
	for _, list := range g.config.lists()[:4] {
		for _, id := range *list {
			members[id] = true
		}
	}
	g.known = slices.DeleteFunc(g.known, func(p promise) bool { return !members[p.replica] })
	if slices.Equal(g.known, g.noted) {
		return
	}
	g.noted = slices.Clone(g.known)
	f := frame{kind: kindPromised, payload: appendPromises(nil, g.known)}
	g.core.flusher.addLater(&job{records: []record{{group: g.log, frame: f}},
		done: func(error) {}})
	if !g.leads {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(members)) {
		if id != g.replica {
			g.sendProof(id, proofKnown, 0)
		}
	}
}
