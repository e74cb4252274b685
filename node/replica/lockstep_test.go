package replica

import (
	"testing"
	"testing/cryptotest"
	"time"
)

// lockstep is three nodes with one group in one goroutine: all of them do what waits between two
// ticks, so that only ticks take time.
type lockstep struct {
	*testing.T
	now    time.Duration
	cores  map[uint64]*Core // those whose process runs
	disks  map[uint64]*disk
	frozen map[uint64]bool // whose disk does not answer
	mail   []letter
}

type letter struct {
	from, to uint64
	message  []byte
}

// mailbox is the network of a node.
type mailbox struct {
	nowhere
	of   *lockstep
	node uint64
}

func (m mailbox) Send(to uint64, _ GroupID, message []byte) bool {
	m.of.mail = append(m.of.mail, letter{m.node, to, message})
	return true
}

func newLockstep(t *testing.T, seed uint64) *lockstep {
	t.Helper()
	cryptotest.SetGlobalRandom(t, seed)
	l := &lockstep{T: t, cores: map[uint64]*Core{}, disks: map[uint64]*disk{},
		frozen: map[uint64]bool{}}
	voters := []uint64{NewID(1, 1), NewID(2, 1), NewID(3, 1)}
	for _, id := range voters {
		l.disks[Node(id)] = newDisk()
		c, _, err := OpenCore(CoreOptions{Node: Node(id), Files: l.disks[Node(id)],
			Network: mailbox{of: l, node: Node(id)}, Starts: []uint64{1<<startBits | 1},
			Now: func() time.Duration { return l.now }})
		if err != nil {
			t.Fatal(err)
		}
		c.Create(1, id, voters, func(e error) { err = e })
		c.StepFlusher()
		if err == nil {
			err = c.Start(1, &list{})
		}
		if err != nil {
			t.Fatal(err)
		}
		l.cores[Node(id)] = c
	}
	for l.leader() == 0 {
		l.tick()
	}
	l.ticks(electionTicks)
	return l
}

// tick lets each node tick, one after the other.
func (l *lockstep) tick() {
	l.now += tickTime
	for node := uint64(1); node <= 3; node++ {
		if c := l.cores[node]; c != nil {
			c.Tick()
			l.settle()
		}
	}
}

func (l *lockstep) ticks(n int) {
	for range n {
		l.tick()
	}
}

// settle goes on until no node has anything to do.
func (l *lockstep) settle() {
	for more := true; more; {
		more = len(l.mail) > 0
		for _, m := range l.mail {
			if c := l.cores[m.to]; c != nil {
				c.Deliver(m.from, 1, m.message)
			}
		}
		l.mail = nil
		for node := uint64(1); node <= 3; node++ {
			c := l.cores[node]
			if c == nil {
				continue
			}
			more = c.StepWorker(0) || more
			more = c.StepApplier() || more
			if !l.frozen[node] {
				c.flusher.began.Store(0)
				more = c.StepFlusher() || more
			} else if len(c.flusher.queue) > 0 && c.flusher.began.Load() == 0 {
				c.flusher.began.Store(int64(l.now) + 1)
			}
		}
	}
}

// leader returns the node that leads and knows it, 0 for none.
func (l *lockstep) leader() (leader uint64) {
	term := uint64(0)
	for node, c := range l.cores {
		st, err := c.Status(1)
		if err != nil {
			l.Fatal(err)
		}
		if st.Leader == st.Replica && st.Term > term {
			leader, term = node, st.Term
		}
	}
	return leader
}

// An end of the leader's process that was seen is outlived sooner than one that was not, and a
// false alarm moves nothing.
func TestOrphansDoNotWait(t *testing.T) {
	for seed := range uint64(20) {
		elected := func(seen bool) (ticks int) {
			l := newLockstep(t, seed)
			old := l.leader()
			delete(l.cores, old)
			for _, c := range l.cores {
				if seen {
					c.NodeEnded(old)
					l.settle()
				}
			}
			for ; l.leader() == 0; ticks++ {
				l.tick()
			}
			return ticks
		}
		if seen, missed := elected(true), elected(false); seen > electionTicks/2 ||
			missed < electionTicks-restTicks {
			t.Errorf("seed %d: a leader after %d ticks when the end is seen, else after %d", seed,
				seen, missed)
		}
		l := newLockstep(t, seed)
		leader := l.leader()
		before, err := l.cores[leader].Status(1)
		if err != nil {
			t.Fatal(err)
		}
		follower := leader%3 + 1
		for range 2 * hurryTicks {
			l.cores[follower].NodeEnded(leader)
			l.tick()
		}
		l.ticks(restTicks) // until it hears its leader again
		if st, err := l.cores[follower].Status(1); err != nil || st.Leader != before.Replica ||
			st.Term != before.Term {
			t.Errorf("seed %d: after false alarms %+v, %v; before them %+v", seed, st, err, before)
		}
	}
}

// A leader whose disk alone does not answer gives its leadership away as soon as that shows; when
// no disk answers, it waits like all others, and what was proposed is done in the end.
func TestStalledDiskOfOneAndOfAll(t *testing.T) {
	for seed := range uint64(10) {
		l := newLockstep(t, seed)
		old := l.leader()
		l.frozen[old] = true
		answered := false
		l.cores[old].Propose(1, [][]byte{[]byte("x")}, func(any, error) { answered = true })
		l.settle()
		l.ticks(int(stallAfter/tickTime) + 2)
		if l.leader() == old || !answered {
			t.Errorf("seed %d: leader %d, which has a frozen disk, answered %v", seed, old,
				answered)
		}

		l = newLockstep(t, seed)
		old = l.leader()
		before, err := l.cores[old].Status(1)
		for node := range l.cores {
			l.frozen[node] = true
		}
		answered = false
		l.cores[old].Propose(1, [][]byte{[]byte("x")}, func(_ any, e error) {
			answered = true
			err = e
		})
		l.settle()
		l.ticks(5 * electionTicks)
		l.frozen = map[uint64]bool{}
		l.tick()
		st, err2 := l.cores[old].Status(1)
		if !answered || err != nil || err2 != nil || st.Leader != before.Leader ||
			st.Term != before.Term {
			t.Errorf("seed %d: after a stall of all disks %+v, %v, answered %v, %v", seed, st, err2,
				answered, err)
		}
	}
}

// A leader that is asked to let a node lead whose disk does not answer takes writes again soon.
func TestATransferToAStalledDiskEndsSoon(t *testing.T) {
	for seed := range uint64(10) {
		l := newLockstep(t, seed)
		leader := l.leader()
		next := leader%3 + 1
		l.frozen[next] = true
		propose := func() (answered *bool) {
			answered = new(bool)
			l.cores[leader].Propose(1, [][]byte{[]byte("x")}, func(_ any, err error) {
				*answered = err == nil
			})
			l.settle()
			return answered
		}
		if !*propose() { // it lacks this one, so it cannot lead
			t.Fatalf("seed %d: not answered before the transfer", seed)
		}
		l.cores[leader].TransferLeader(1, NewID(next, 1))
		l.settle()
		if *propose() {
			t.Fatalf("seed %d: answered in the middle of a transfer", seed)
		}
		for ticks := 0; !*propose(); ticks++ {
			if ticks > transferTicks {
				t.Fatalf("seed %d: no writes %d ticks after the transfer began", seed, ticks)
			}
			l.tick()
		}
		if l.ticks(int(stallAfter / tickTime)); l.cores[next].MayLead() || l.leader() != leader {
			t.Errorf("seed %d: node %d leads; node %d may lead: %v", seed, l.leader(), next,
				l.cores[next].MayLead())
		}
	}
}
