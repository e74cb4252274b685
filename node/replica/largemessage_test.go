package replica

import (
	"bytes"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// Behind a large entry followers still hear their leader, and leaders their followers; everything
// else keeps its order.
func TestPulsesGoBetweenFragments(t *testing.T) {
	here, there := net.Pipe()
	p := &peer{t: &transport{closing: make(chan struct{})}, wake: make(chan struct{}, 1)}
	var wg sync.WaitGroup
	wg.Go(func() { p.write(&dialedConn{Conn: here}, nil) })
	message := func(kind pb.MessageType, data []byte) []byte {
		return appendMessage(&pb.Message{Type: kind.Enum(), From: new(uint64(1)),
			To: new(uint64(2)), Entries: []*pb.Entry{{Data: data}}})
	}
	large := message(pb.MsgApp, bytes.Repeat([]byte("large"), 1<<20))
	var got []pb.MessageType
	in := inbox{r: there}
	if !p.add(1, large) {
		t.Fatal("a large message is not taken")
	}
	for batches := 1; len(got) < 4; batches++ {
		err := in.read(func(group GroupID, sent []byte) {
			m, ok := parseMessage(sent)
			if !ok || group != 1 || m.GetType() == pb.MsgApp && !bytes.Equal(sent, large) {
				t.Errorf("group %d: %d bytes, %v", group, len(sent), ok)
			}
			got = append(got, m.GetType())
		})
		if err != nil {
			t.Fatal(err)
		}
		if batches == 2 {
			for _, kind := range []pb.MessageType{pb.MsgAppResp, pb.MsgHeartbeat,
				pb.MsgHeartbeatResp} {
				if !p.add(1, message(kind, nil)) {
					t.Errorf("%v is not taken beside a large message", kind)
				}
			}
		}
	}
	want := []pb.MessageType{pb.MsgHeartbeat, pb.MsgHeartbeatResp, pb.MsgApp, pb.MsgAppResp}
	if !slices.Equal(got, want) {
		t.Errorf("%v came, want %v", got, want)
	}
	close(p.t.closing)
	if err := there.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
}

// What waits for a line that is busy with something large leaves space for pulses.
func TestPulsesFindSpace(t *testing.T) {
	p := &peer{t: &transport{closing: make(chan struct{})}, wake: make(chan struct{}, 1)}
	if !p.add(1, make([]byte, maxQueueBytes)) || p.add(1, make([]byte, 1<<10)) ||
		!p.add(1, make([]byte, maxPulseBytes)) {
		t.Errorf("%d bytes wait", p.bytes)
	}
}

func TestFragmentsOfNoMessage(t *testing.T) {
	f := func(what string, fragments ...[]byte) {
		t.Helper()
		var sent bytes.Buffer
		for _, fragment := range fragments {
			if err := writeFragment(&sent, nil, fragment); err != nil {
				t.Fatal(err)
			}
		}
		in := inbox{r: &sent}
		var err error
		for err == nil {
			err = in.read(func(GroupID, []byte) { t.Errorf("%s: a message", what) })
		}
		if !errors.Is(err, errHostile) {
			t.Errorf("%s: %v", what, err)
		}
		if cap(in.large) > 4*fragmentBytes {
			t.Errorf("%s: %d bytes are kept", what, cap(in.large))
		}
	}
	f("no header", []byte{1, 0, 0, 0})
	f("too large", []byte{1, 0, 0, 0, 0, 0, 0, 255})
	f("more than it says", []byte{1, 0, 0, 0, 2, 0, 0, 0}, []byte("abc"))
	f("a fragment that is too large", make([]byte, fragmentBytes+messageHeaderBytes+1))
	in := inbox{r: bytes.NewReader([]byte{0, 0, 0, 255, 0, 0, 0, 0})}
	if err := in.read(func(GroupID, []byte) {}); !errors.Is(err, errHostile) {
		t.Error(err)
	}
}

// A group takes the largest batch that a node takes, and says so of what is larger.
func TestLargestProposal(t *testing.T) {
	a := newAlone(t)
	data := string(make([]byte, maxProposalBytes))
	if err, answered := a.propose(data); err != nil || !answered {
		t.Errorf("%v, %v", err, answered)
	}
	if err, _ := a.propose(data + "x"); !errors.Is(err, ErrTooLarge) {
		t.Errorf("one byte more: %v", err)
	}
}
