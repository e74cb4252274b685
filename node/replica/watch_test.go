package replica

import (
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
)

// A process that stood still finds its flush under way and ends only when the disk goes on not to
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

// Who leads and has no room on its disk lets others lead, who may have some, and does not ask to
// lead again before it has.
func TestAFullDiskHandsOver(t *testing.T) {
	var sent []*pb.Message
	d := newDisk()
	now := time.Duration(0)
	c, _, err := OpenCore(CoreOptions{Node: 1, Files: d, Network: overheard{sent: &sent},
		Now: func() time.Duration { return now }})
	if err != nil {
		t.Fatal(err)
	}
	me := NewID(1, 1)
	c.Create(1, me, []uint64{me, NewID(2, 1), NewID(3, 1)}, func(e error) { err = e })
	c.StepFlusher()
	if err == nil {
		err = c.Start(1, &list{})
	}
	if err != nil {
		t.Fatal(err)
	}
	asked := 0 // to lead
	ticks := func(n int) {
		for range n {
			now += 50 * time.Millisecond
			c.Tick()
			for c.StepWorker(0) || c.StepFlusher() || c.StepApplier() {
			}
			for _, m := range sent {
				kind, ok := map[pb.MessageType]pb.MessageType{pb.MsgPreVote: pb.MsgPreVoteResp,
					pb.MsgVote: pb.MsgVoteResp, pb.MsgApp: pb.MsgAppResp,
					pb.MsgHeartbeat: pb.MsgHeartbeatResp}[m.GetType()]
				if m.GetType() == pb.MsgTimeoutNow {
					asked++
				}
				if ok {
					c.Deliver(Node(m.GetTo()), 1, appendMessage(&pb.Message{Type: kind.Enum(),
						From: m.To, To: m.From, Term: m.Term,
						Index: new(m.GetIndex() + uint64(len(m.GetEntries())))}))
				}
			}
			sent = nil
		}
	}
	ticks(4 * electionTicks)
	if st, err := c.Status(1); err != nil || st.Leader != me {
		t.Fatalf("%+v, %v", st, err)
	}
	d.fail = func(operation string) error {
		if operation == "write" {
			return syscall.ENOSPC
		}
		return nil
	}
	c.Propose(1, [][]byte{[]byte("x")}, func(any, error) {})
	ticks(4 * electionTicks)
	if asked == 0 || !c.stalled.Load() {
		t.Errorf("nobody was asked to lead instead; stalled %v", c.stalled.Load())
	}
	d.fail = nil
	ticks(2)
	if c.stalled.Load() {
		t.Error("with room again it holds itself for stalled")
	}
}
