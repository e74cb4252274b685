package replica

import (
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
)

// simFaults names what has to have happened in many runs, for them to prove anything.
func simFaults() []string {
	return []string{"crashes", "crashes of all", "cuts", "pauses", "clock jumps", "slow disks",
		"failed writes", "refused entries", "full", "torn tails", "lost disks", "flips",
		"damage found", "quarantined", "transfers", "ends seen", "false alarms",
		"rolled back alone", "rolled back with all down", "fenced", "settled", "changes",
		"dropped", "installs", "fetches", "reads", "acknowledged"}
}

// fault lets something bad happen to one node, or to all.
func (s *simulation) fault() {
	if s.healing {
		return
	}
	n := s.pick()
	later := func(ms int) time.Duration {
		return s.now + time.Duration(100+s.rng.IntN(ms))*time.Millisecond
	}
	switch s.rng.IntN(20) {
	case 0, 1:
		n.crash(s.rng.IntN(2) == 0)
		n.startSoon()
	case 2:
		s.counts["crashes of all"]++
		power := s.rng.IntN(4) > 0
		for _, n := range s.nodes {
			n.crash(power)
			n.startSoon()
		}
	case 3, 4:
		s.isolate(n)
	case 5:
		s.cutBetween(n.id, s.pick().id)
	case 6:
		s.counts["pauses"]++
		n.paused = later(3000)
	case 7:
		s.stepClock(n)
	case 8:
		s.counts["slow disks"]++
		n.slow = later(4000)
	case 9:
		n.broken = true
	case 10:
		n.full = later(2000)
	case 11, 12:
		s.transfer()
	case 13, 14:
		if s.mayLose() {
			s.counts["lost disks"]++
			n.wipe()
		}
	case 15:
		if s.mayLose() {
			n.crash(true)
			if n.flip() {
				s.counts["flips"]++
			}
			n.startSoon()
		}
	case 16:
		n.refusing = true
	case 17:
		if n.up() { // others go on, or have begun again
			s.counts["false alarms"]++
			n.core.NodeEnded(s.pick().id)
		}
	case 18, 19:
		s.rollBack(n)
	}
}

// simVote is what a replica may do once in a term.
type simVote struct {
	group       GroupID
	term, voter uint64
	asks        bool // for votes, in one run of its node; else it votes, for one candidate
}

// noteVote looks whether who votes, or asks for votes, remembers what it did.
func (n *simNode) noteVote(group GroupID, message []byte) {
	const kind = 1 << 3 // of the first field, which comes first; to parse all is dear
	if len(message) < 2 || len(message) > 100 || message[0] != kind ||
		message[1] != byte(pb.MsgVote) && message[1] != byte(pb.MsgVoteResp) {
		return // none
	}
	m, _ := parseMessage(message)
	once := func(asks bool, what uint64) {
		v := simVote{group, m.GetTerm(), m.GetFrom(), asks}
		if old, ok := n.s.votes[v]; ok && old != what {
			n.s.violated("%+v: %x, and before that %x", v, what, old)
		}
		n.s.votes[v] = what
	}
	switch {
	case m.GetType() == pb.MsgVote:
		once(true, uint64(n.run))
		once(false, m.GetFrom())
	case m.GetType() == pb.MsgVoteResp && !m.GetReject():
		once(false, m.GetTo())
	}
}

// mayLose reports whether every group can bear that one of its replicas never comes back.
func (s *simulation) mayLose() bool {
	for g := GroupID(1); g <= s.config.groups; g++ {
		if !s.admins[g].steady() {
			return false
		}
	}
	return true
}

func (s *simulation) cutBetween(from, to uint64) {
	if from == to {
		return
	}
	s.counts["cuts"]++
	link := [2]uint64{from, to}
	s.cut[link] = true
	s.after(time.Duration(100+s.rng.IntN(4000))*time.Millisecond, func() { delete(s.cut, link) })
}

// isolate cuts a node off: from what it hears, from what it says, or both.
func (s *simulation) isolate(n *simNode) {
	way := s.rng.IntN(3)
	for _, other := range s.nodes {
		if way != 0 {
			s.cutBetween(n.id, other.id)
		}
		if way != 1 {
			s.cutBetween(other.id, n.id)
		}
	}
}

// transfer asks the leader of a group to let a member lead.
func (s *simulation) transfer() {
	group := 1 + GroupID(s.rng.Uint32N(uint32(s.config.groups)))
	for _, n := range s.nodes {
		if st := n.status(group); st != nil && st.Leader == st.Replica {
			s.counts["transfers"]++
			n.core.TransferLeader(group, st.Members[s.rng.IntN(len(st.Members))].Replica)
		}
	}
}
