package replica

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// read waits for an index to be confirmed by a majority, and then for it to be applied.
type read struct {
	until int // ticks
	index uint64
	done  func(uint64, error)
}

// ReadIndex calls done when everything that was acknowledged before the call is applied here, on
// any replica of the group, with an index that contains it.
func (c *Core) ReadIndex(group GroupID, done func(index uint64, err error)) {
	g, err := c.lookup(group)
	if err != nil {
		done(0, fmt.Errorf("read index: %w", err))
		return
	}
	number := c.counter.Add(1)
	g.post(func() {
		if g.err != nil {
			done(0, fmt.Errorf("read index of %v: %w", groupName(group), g.err))
			return
		}
		if g.node.BasicStatus().Lead == raft.None {
			done(0, g.notLeader())
			return
		}
		g.reads[number] = &read{until: g.ticks + 2*electionTicks, done: done}
		g.node.ReadIndex(appendMark(nil, mark{g.replica, c.boot, number}))
	})
}

func (g *group) readAt(state raft.ReadState) {
	m, _, ok := parseMark(state.RequestCtx)
	r := g.reads[m.number]
	if !ok || m.replica != g.replica || m.boot != g.core.boot || r == nil {
		return
	}
	r.index = max(state.Index, 1)
	g.readsApplied()
}

// readsApplied answers the reads whose index is applied.
func (g *group) readsApplied() {
	if len(g.reads) == 0 {
		return
	}
	for _, number := range slices.Sorted(maps.Keys(g.reads)) {
		if r := g.reads[number]; r.index != 0 && r.index <= g.applied {
			delete(g.reads, number)
			r.done(r.index, nil)
		}
	}
}

// TransferLeader asks the leader, if it is here, to let another voter lead.
func (c *Core) TransferLeader(group GroupID, to uint64) {
	if g, err := c.lookup(group); err == nil {
		g.post(func() {
			if g.err == nil {
				g.transfer(to)
			}
		})
	}
}

// transfer lets another voter lead. The group takes no writes until that one does, or until the
// attempt ends: after transferTicks here, where the library would wait for an election.
func (g *group) transfer(to uint64) {
	g.node.TransferLeader(to)
	g.handsOver = g.ticks + transferTicks
}

// endTransfer takes writes once more where the next leader did not come in time: its disk stalls,
// or it lacks too much.
func (g *group) endTransfer() {
	if g.leads && g.ticks >= g.handsOver && g.node.BasicStatus().LeadTransferee != raft.None {
		g.node.TransferLeader(g.replica) // to itself, which ends the one in progress
	}
}

// Status returns what is known of the replica of a group here.
func (c *Core) Status(group GroupID) (Status, error) {
	g, err := c.lookup(group)
	if err != nil {
		return Status{}, fmt.Errorf("status: %w", err)
	}
	return *g.status.Load(), nil
}

// publishStatus makes the status what it is now. One that is published is not changed.
func (g *group) publishStatus() {
	st := g.node.BasicStatus()
	last, _ := g.log.LastIndex()
	out := &Status{Replica: g.replica, Leader: st.Lead, Term: st.GetTerm(), Commit: st.GetCommit(),
		Applied: g.applied, Last: last, Err: g.err,
		Joint: len(g.config.state.GetVotersOutgoing()) > 0}
	if !g.proving.done && g.err == nil {
		out.Unconfirmed, out.Led = g.unconfirmed(), g.proving.led
	}
	out.Confirmed = g.proving.done && !g.proving.guarded
	if g.err != nil {
		out.Leader = 0 // who has stopped neither leads nor hears who does
	}
	for _, id := range g.config.state.GetVoters() {
		out.Members = append(out.Members, Member{Replica: id})
	}
	for _, id := range g.config.state.GetLearners() {
		out.Members = append(out.Members, Member{Replica: id, Learner: true})
	}
	g.node.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		for i := range out.Members {
			if out.Members[i].Replica == id {
				out.Members[i].Match = p.Match
			}
		}
	})
	old := g.status.Swap(out)
	if out.Leader != raft.None && (old == nil || old.Leader != out.Leader) {
		g.core.opt.Elected(g.id)
	}
}

// tick lets 50 ms pass.
func (g *group) tick() {
	g.ticks++
	if g.err != nil {
		g.tellFork()
		return
	}
	if (g.ticks+int(g.id))%noteTicks == 0 {
		g.notePromises()
	}
	if !g.proving.done {
		g.proveTick()
		return
	}
	if g.leads {
		g.heardAt = g.ticks
	}
	g.endTransfer()
	if g.leads && !g.core.MayLead() && g.ticks >= g.keeps {
		g.offerLeadership()
	}
	g.tickRaft()
	if leader := g.node.BasicStatus().Lead; leader != raft.None && leader != g.orphanOf {
		g.hurry = 0
	}
	if g.hurry > 0 {
		g.hurry--
		g.tickRaft()
	}
	for _, number := range slices.Sorted(maps.Keys(g.reads)) {
		if r := g.reads[number]; g.ticks >= r.until {
			delete(g.reads, number)
			r.done(0, fmt.Errorf("read index of %v: no majority answered: %w", groupName(g.id),
				g.notLeader()))
		}
	}
	if g.proving.guarded {
		g.endVoteGuard()
	}
	if g.ticks%statusTicks == 0 {
		g.publishStatus()
	}
	if g.ticks%(2*electionTicks) == 0 {
		g.compact()
		g.offerAgain()
		g.leaveJoint()
	}
}

// tickRaft lets the time of the library go on. It does so also where nothing may lead, see send: a
// replica for which no time passes believes that it has just heard its leader, and helps to elect
// no other one. Only a single voter would lead at once, which cannot write.
func (g *group) tickRaft() {
	if g.leads || !g.proving.guarded && (!g.core.stalled.Load() || !g.isOnlyCandidate()) {
		g.node.Tick()
	}
}

// campaigns reports whether the replica may ask for votes. One that may not lead does so after all
// when the group has been without a leader for long: it may be the only one that has all that was
// committed. It gives the leadership away when others have that, too.
func (g *group) campaigns() bool {
	return g.core.MayLead() || !g.core.stalled.Load() && g.ticks-g.heardAt > patienceTicks
}

// MayLead reports whether replicas here may lead: the disk of the log takes writes, and
// CoreOptions.MayLead says so.
func (c *Core) MayLead() bool { return !c.stalled.Load() && c.opt.MayLead() }

// isOnlyCandidate reports whether no other replica could lead.
func (g *group) isOnlyCandidate() bool {
	return len(g.config.state.GetVoters()) == 1 && len(g.config.state.GetVotersOutgoing()) == 0
}

// expireLeader lets the group miss its leader at once, if that was a replica of a node whose
// process has ended: as much time passes as a leader may be silent, and then twice as much as
// elsewhere. Who campaigns first is still for the library to draw.
func (g *group) expireLeader(node uint64) {
	if g.err != nil || g.leads {
		return
	}
	leader := g.node.BasicStatus().Lead
	if leader == raft.None || Node(leader) != node {
		return
	}
	g.orphanOf, g.hurry = leader, hurryTicks
	for range electionTicks - (g.ticks - g.heardAt) { // more would let all campaign at once
		g.tickRaft()
	}
}

// leaveJoint asks for the second phase of a change. The library does so by itself, but only when
// it applies an entry, and in vain while leadership is being transferred.
func (g *group) leaveJoint() {
	if g.leads && len(g.config.state.GetVotersOutgoing()) > 0 {
		_ = g.node.ProposeConfChange(&pb.ConfChangeV2{}) // an error says: not now
	}
}

// offerLeadership lets another voter lead, each time the next of those that have what is on the
// disk here: at once where one has more, and else now and then. Who was sent more and has not
// written it either is no better: where all share what stalls, to stop writes for a transfer makes
// it worse.
func (g *group) offerLeadership() {
	type peer struct{ id, match, sent uint64 }
	var peers []peer
	own := uint64(0)
	g.node.WithProgress(func(id uint64, kind raft.ProgressType, p tracker.Progress) {
		switch {
		case id == g.replica:
			own = p.Match
		case kind == raft.ProgressTypePeer && p.RecentActive:
			peers = append(peers, peer{id, p.Match, p.Next - 1})
		}
	})
	peers = slices.DeleteFunc(peers, func(p peer) bool {
		return p.match < own || p.match == own && p.sent > own
	})
	slices.SortFunc(peers, func(a, b peer) int {
		return cmp.Or(cmp.Compare(b.match, a.match), cmp.Compare(a.id, b.id))
	})
	if len(peers) == 0 || peers[0].match == own && g.ticks%electionTicks != 0 {
		return
	}
	g.transfer(peers[g.transferred%len(peers)].id)
	g.transferred++
	g.keeps = g.ticks + electionTicks
}

// compact cuts the log where the machine does not need it any more, when it is long or pins the
// oldest file of a log that has grown large.
func (g *group) compact() {
	g.log.mu.Lock()
	bytes, cut, last := g.log.bytes, g.log.cutIndex, g.log.last()
	pins := len(g.log.entries) > 0
	file := uint32(0)
	if pins {
		file = g.log.entries[0].file
	}
	g.log.mu.Unlock()
	keep := g.core.retain
	oldest, total := g.core.journal.extent()
	if total > g.core.journal.keepBytes/2 && pins && file == oldest {
		keep = 0
	}
	if bytes <= keep || g.err != nil || g.installing {
		return
	}
	durable := g.machine.Durable()
	if durable < g.applied && !g.syncing {
		g.syncing = true
		g.applies(func() {
			err := g.machine.Sync()
			g.post(func() {
				g.syncing = false
				if err != nil {
					g.stop(fmt.Errorf("%w: sync the machine: %w", ErrStopped, err))
				}
			})
		})
	}
	limit := min(durable, g.node.BasicStatus().Applied, last)
	limit = min(limit, g.core.snaps.pinned(g, bytes))
	to, term := g.log.cutFor(limit, keep/2)
	if to <= max(cut, g.cutting) {
		return
	}
	g.cutting = to
	f := frame{kind: kindTruncated, term: term, index: to}
	g.core.flusher.add(&job{records: []record{{group: g.log, frame: f}}, done: func(error) {}})
}

// cutFor returns the first index, at most limit, after which at most keep bytes remain.
func (g *groupLog) cutFor(limit uint64, keep int64) (index, term uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	bytes := g.bytes
	for i, p := range g.entries {
		at := g.first + uint64(i)
		if at > limit || bytes <= keep {
			break
		}
		bytes -= int64(p.size)
		index, term = at, p.term
	}
	return index, term
}
