package replica

import (
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// sent lets a tick pass at a node and counts its messages of each type until no node has anything
// to do; woken is whether the worker there had anything.
func (l *lockstep) sent(node uint64) (types map[pb.MessageType]int, woken bool) {
	l.now += tickTime
	l.cores[node].Tick()
	woken = l.cores[node].StepWorker(0)
	types = map[pb.MessageType]int{}
	for _, m := range l.mail {
		if p, ok := parseMessage(m.message); ok && !isProof(m.message) {
			types[p.GetType()]++
		}
	}
	l.settle()
	return types, woken
}

// Of a node whose groups rest, every second tick wakes nothing, and one heartbeat to each follower
// and one reply to each goes in two ticks, with the tick that wakes it.
func TestGroupsAtRest(t *testing.T) {
	for seed := range uint64(5) {
		l := newLockstep(t, seed)
		l.ticks(2*noteTicks + int(seed)%2)
		leader := l.leader()
		follower := leader%3 + 1
		const rounds = 10 * restTicks
		heartbeats, replies, woken := 0, 0, map[uint64]int{}
		for range rounds {
			for _, node := range [...]uint64{leader, follower} {
				types, was := l.sent(node)
				if was {
					woken[node]++
				} else if len(types) > 0 {
					t.Errorf("seed %d: node %d sent %v without being woken", seed, node, types)
				}
				heartbeats += types[pb.MsgHeartbeat]
				replies += types[pb.MsgHeartbeatResp]
			}
		}
		if woken[leader] != rounds/restTicks || woken[follower] != rounds/restTicks {
			t.Errorf("seed %d: woken %v in %d ticks", seed, woken, rounds)
		}
		// The third node lets no time pass, so it keeps its replies, and is not counted.
		if heartbeats != 2*rounds/restTicks || replies < rounds/restTicks-1 ||
			replies > rounds/restTicks {
			t.Errorf("seed %d: %d heartbeats and %d replies in %d ticks", seed, heartbeats, replies,
				rounds)
		}
	}
}

// A reply that a read waits for, and those of a group that has just written, do not wait.
func TestRepliesThatDoNotWait(t *testing.T) {
	l := newLockstep(t, 1)
	l.ticks(2 * noteTicks)
	leader := l.leader()
	confirmed := uint64(0)
	l.cores[leader].ReadIndex(1, func(index uint64, _ error) { confirmed = index })
	l.settle() // and no tick
	if confirmed == 0 {
		t.Error("a read waits for a tick")
	}
	l.cores[leader].Propose(1, [][]byte{[]byte("x")}, func(any, error) {})
	l.settle()
	for _, c := range l.cores {
		c.groups[1].reply = nil // from before, and lost
	}
	for range restTicks {
		l.now += tickTime
		l.cores[leader].Tick()
		l.settle()
	}
	for node, c := range l.cores {
		if c.groups[1].reply != nil {
			t.Errorf("node %d keeps its reply although entries were written just now", node)
		}
	}
}
