package replica

import (
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
)

// A process that stood still finds its flush in progress and ends only when the disk goes on not to
// answer.
func TestSleepIsNoStall(t *testing.T) {
	a := newAlone(t)
	const tick = 50 * time.Millisecond
	ticks := func(n int) {
		for range n {
			a.now += tick
			a.Tick()
		}
	}
	ticks(1)
	a.flusher.began.Store(int64(a.now) + 1) // a flush that does not return
	ticks(4)
	a.now += 83 * time.Second
	a.Tick()
	if a.stalled.Load() || len(a.failed) != 0 {
		t.Fatalf("after a sleep: stalled %v, failed %v", a.stalled.Load(), a.failed)
	}
	ticks(int(stallAfter / tick))
	if !a.stalled.Load() || len(a.failed) != 0 {
		t.Fatalf("after a stall: stalled %v, failed %v", a.stalled.Load(), a.failed)
	}
	ticks(int(failAfter / tick))
	if len(a.failed) != 1 {
		t.Fatalf("after a long stall: %v", a.failed)
	}
}

// A flush that begins as the process wakes, and before anybody looks, is watched from then on.
func TestAFlushAfterASleepMayStall(t *testing.T) {
	a := newAlone(t)
	a.Tick()
	a.now += time.Hour
	a.flusher.began.Store(int64(a.now) + 1)
	for range 3 + failAfter/(50*time.Millisecond) {
		a.Tick()
		a.now += 50 * time.Millisecond
	}
	if !a.stalled.Load() || len(a.failed) != 1 {
		t.Fatalf("stalled %v, failed %v", a.stalled.Load(), a.failed)
	}
}

// lonely is a core whose peers are played by a test: they agree with all that it says.
type lonely struct {
	*testing.T
	*Core
	disk  *disk
	now   time.Duration
	sent  []*pb.Message
	asked int // to lead
	votes int // it asked for
}

// newLonely returns one that leads group 1 with two others.
func newLonely(t *testing.T, mayLead func() bool) *lonely {
	l := &lonely{T: t, disk: newDisk()}
	c, _, err := OpenCore(CoreOptions{Node: 1, Files: l.disk, Network: overheard{sent: &l.sent},
		Now: func() time.Duration { return l.now }, MayLead: mayLead})
	if err != nil {
		t.Fatal(err)
	}
	l.Core = c
	me := NewID(1, 1)
	c.Create(1, me, []uint64{me, NewID(2, 1), NewID(3, 1)}, func(e error) { err = e })
	c.StepFlusher()
	if err == nil {
		err = c.Start(1, &list{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *lonely) leads() bool {
	st, err := l.Status(1)
	return err == nil && st.Leader == NewID(1, 1)
}

// ticks lets time pass; others answer unless they are silent.
func (l *lonely) ticks(n int, silent bool) {
	for range n {
		l.now += 50 * time.Millisecond
		l.Tick()
		for l.StepWorker(0) || l.StepFlusher() || l.StepApplier() {
		}
		for _, m := range l.sent {
			kind, ok := map[pb.MessageType]pb.MessageType{pb.MsgPreVote: pb.MsgPreVoteResp,
				pb.MsgVote: pb.MsgVoteResp, pb.MsgApp: pb.MsgAppResp,
				pb.MsgHeartbeat: pb.MsgHeartbeatResp}[m.GetType()]
			switch m.GetType() {
			case pb.MsgTimeoutNow:
				l.asked++
			case pb.MsgPreVote, pb.MsgVote:
				l.votes++
			}
			if ok && !silent {
				l.Deliver(Node(m.GetTo()), 1, appendMessage(&pb.Message{Type: kind.Enum(),
					From: m.To, To: m.From, Term: m.Term,
					Index: new(m.GetIndex() + uint64(len(m.GetEntries())))}))
			}
		}
		l.sent = nil
	}
}

// Who leads and has no space on its disk lets others lead, who may have some, and does not ask to
// lead again before it has.
func TestAFullDiskHandsOver(t *testing.T) {
	l := newLonely(t, nil)
	l.ticks(4*electionTicks, false)
	if !l.leads() {
		t.Fatal("it does not lead")
	}
	l.disk.fail = func(operation string) error {
		if operation == "write" {
			return syscall.ENOSPC
		}
		return nil
	}
	l.Propose(1, [][]byte{[]byte("x")}, func(any, error) {})
	l.ticks(4*electionTicks, false)
	if l.asked == 0 || !l.stalled.Load() {
		t.Errorf("no other replica was asked to lead; stalled %v", l.stalled.Load())
	}
	l.votes = 0
	l.ticks(2*patienceTicks, true)
	if l.votes > 0 {
		t.Errorf("without space it asked for %d votes", l.votes)
	}
	l.disk.fail = nil
	l.ticks(2, false)
	if l.stalled.Load() {
		t.Error("with space again it holds itself for stalled")
	}
}

// A replica that may not lead lets others do it, and asks for votes only when none does.
func TestWhoMayNotLeadHandsOver(t *testing.T) {
	may := true
	l := newLonely(t, func() bool { return may })
	l.ticks(4*electionTicks, false)
	may = false
	l.ticks(2*electionTicks, false)
	if !l.leads() || l.asked == 0 {
		t.Fatalf("leads %v, asked others %d times", l.leads(), l.asked)
	}
	l.votes = 0
	l.ticks(patienceTicks, true) // it loses the others, and its leadership
	if l.leads() || l.votes > 0 {
		t.Errorf("leads %v, asked for %d votes", l.leads(), l.votes)
	}
	l.ticks(patienceTicks, true)
	if l.votes == 0 {
		t.Error("it never asked for votes, though no other replica leads")
	}
	may = true
	l.ticks(4*electionTicks, false)
	if !l.leads() {
		t.Error("it does not lead, though it may")
	}
}
