package replica

import (
	"net"
	"testing"

	"github.com/pentad-db/pentad/node/internal/accept"
	pb "go.etcd.io/raft/v3/raftpb"
)

// A connection that ends is the end of a process only when no one listens any more at its place.
func TestEndOfAProcessIsSeen(t *testing.T) {
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	other := listen()
	defer func() { _ = other.Close() }()
	tr := newTransport(Options{Node: 1, Cluster: 7, Listener: accept.New(listen(), nil),
		PlainTCP: true,
		Resolve:  func(uint64) (string, bool) { return other.Addr().String(), true }})
	c, _, err := OpenCore(CoreOptions{Node: 1, Files: newDisk(), Network: nowhere{}})
	if err != nil {
		t.Fatal(err)
	}
	tr.core = c
	tr.wg.Go(tr.listen)
	defer tr.close()
	me, leader := NewID(1, 1), NewID(2, 1)
	c.Create(1, me, []uint64{me, leader, NewID(3, 1)}, func(e error) { err = e })
	c.StepFlusher()
	if err == nil {
		err = c.Start(1, &list{})
	}
	if err != nil {
		t.Fatal(err)
	}
	g, err := c.lookup(1)
	if err != nil {
		t.Fatal(err)
	}
	settle := func() { stepAll(c) }
	lead := func() net.Conn {
		conn, err := net.Dial("tcp", tr.opt.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		beat := appendMessage(&pb.Message{Type: pb.MsgHeartbeat.Enum(), From: &leader, To: &me,
			Term: new(uint64(2))})
		said := appendHello(nil, hello{purpose: purposeMessages, cluster: 7, from: 2, to: 1})
		if _, err := conn.Write(append(said, batchOf(t, newOutMessage(1, beat))...)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a leader", func() bool {
			settle()
			return g.node.BasicStatus().Lead == leader
		})
		return conn
	}
	first := lead()
	_ = first.Close() // and it listens on
	if _, err := other.Accept(); err != nil {
		t.Fatal(err)
	}
	second := lead()
	settle()
	if g.hurry != 0 {
		t.Error("a connection that ended was taken for the end of a process")
	}
	_ = other.Close()
	_ = second.Close()
	eventually(t, "the end of a process", func() bool {
		settle()
		return g.hurry > 0
	})
}

// stepAll lets a core do all that there is to do.
func stepAll(c *Core) {
	for c.StepWorker(0) || c.StepFlusher() {
	}
}
