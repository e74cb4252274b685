package replica

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// A file of any bytes opens, or is refused, and opens the same way again.
func FuzzOpenJournal(f *testing.F) {
	d := newDisk()
	l, _ := testJournal(f, d)
	fill(f, l, rand.New(rand.NewPCG(1, 1)), 5)
	f.Add(d.names[journalName(l.number)].data)
	f.Fuzz(func(t *testing.T, data []byte) {
		d := newDisk()
		d.names[journalName(1)] = &diskFile{disk: d, data: data, synced: len(data)}
		l, _ := testJournal(t, d)
		for _, g := range l.all() {
			last, _ := g.LastIndex()
			if g.damage == nil && last > g.cutIndex {
				if _, err := g.Entries(g.cutIndex+1, last+1, 1<<20); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := l.write(nil); err != nil {
			t.Fatal(err)
		}
		testJournal(t, d)
	})
}

func FuzzParseConfig(f *testing.F) {
	f.Add(appendConfig(nil, &config{state: &pb.ConfState{Voters: []uint64{1, 2}}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, rest, ok := parseConfig(data); ok {
			if got := appendConfig(nil, &c); !bytes.Equal(append(got, rest...), data) {
				t.Errorf("%x is written as %x", data, got)
			}
		}
		if o, ok := parseOffer(data); ok {
			if got := appendOffer(nil, &o); !bytes.Equal(got, data) {
				t.Errorf("%x is written as %x", data, got)
			}
		}
		if id, ok := parseIdentity(data); ok {
			if got := appendIdentity(nil, &id); !bytes.Equal(got, data) {
				t.Errorf("%x is written as %x", data, got)
			}
		}
	})
}

func batchOf(t testing.TB, messages ...outMessage) []byte {
	var out bytes.Buffer
	if err := writeBatch(&out, messages); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func FuzzReadBatch(f *testing.F) {
	f.Add(batchOf(f, newOutMessage(3, []byte("hello")), newOutMessage(4, nil)))
	small := newOutMessage(3, []byte("in fragments"))
	var piece bytes.Buffer
	if err := writeFragments(&piece, &small, nil); err != nil {
		f.Fatal(err)
	}
	f.Add(piece.Bytes())
	f.Add(appendChunk(nil, chunkData, []byte("data")))
	f.Add(appendRequest(nil, SnapshotFile{Group: 1, Index: 2, Name: "name", Offset: 3}))
	f.Add(appendHello(nil, hello{purpose: purposeFile, cluster: 1, from: 2, to: 3}))
	f.Fuzz(func(t *testing.T, data []byte) {
		var messages []outMessage
		var buf, pieces bytes.Buffer
		in := inbox{r: bytes.NewReader(data)}
		err := in.read(func(group GroupID, message []byte) {
			messages = append(messages, newOutMessage(group, message))
		})
		switch {
		case err != nil:
		case data[3]&(fragmentFlag>>24) == 0:
			if again := batchOf(t, messages...); !bytes.HasPrefix(data, again) {
				t.Errorf("%x is written as %x", data, again)
			}
		case len(messages) > 0: // it is whole
			if err := writeFragments(&pieces, &messages[0], nil); err != nil ||
				!bytes.HasPrefix(data, pieces.Bytes()) {
				t.Errorf("%x is written as %x, %v", data, pieces.Bytes(), err)
			}
		}
		for err == nil {
			err = in.read(func(GroupID, []byte) {})
		}
		if kind, err := readChunk(bytes.NewReader(data), &buf); err == nil {
			if got := appendChunk(nil, kind, buf.Bytes()); !bytes.Equal(got, data[:len(got)]) {
				t.Errorf("%x is written as %x", data, got)
			}
		}
		if r, err := readRequest(bytes.NewReader(data)); err == nil {
			if got := appendRequest(nil, r); !bytes.Equal(got, data[:len(got)]) {
				t.Errorf("%x is written as %x", data, got)
			}
		}
		if h, ok := parseHello(data); ok && !bytes.Equal(appendHello(nil, h), data) {
			t.Errorf("%x is written as %x", data, appendHello(nil, h))
		}
	})
}

// nowhere is a network that has no other nodes.
type nowhere struct{}

func (nowhere) Send(uint64, GroupID, []byte) bool { return false }

func (nowhere) Open(context.Context, uint64, SnapshotFile) (io.ReadCloser, error) {
	return nil, errors.New("there is nobody")
}

// A peer may send anything: the group goes on or stops, and the process lives.
func FuzzDeliver(f *testing.F) {
	ids := []uint64{NewID(1, 1), NewID(2, 1), NewID(3, 1)}
	add := func(m *pb.Message) {
		m.From, m.To = new(ids[1]), new(ids[0])
		f.Add(appendMessage(m))
	}
	add(&pb.Message{Type: pb.MsgApp.Enum(), Term: new(uint64(2)), Index: new(uint64(1)),
		LogTerm: new(uint64(1)), Entries: []*pb.Entry{{Term: new(uint64(2)), Index: new(uint64(2)),
			Type: pb.EntryConfChangeV2.Enum(), Data: []byte("x")}}, Commit: new(uint64(2))})
	add(&pb.Message{Type: pb.MsgHeartbeat.Enum(), Term: new(uint64(2)), Commit: new(uint64(99))})
	add(&pb.Message{Type: pb.MsgSnap.Enum(), Term: new(uint64(2)), Snapshot: &pb.Snapshot{
		Data: appendOffer(nil, &snapshotOffer{node: 2, config: config{state: &pb.ConfState{}}}),
		Metadata: &pb.SnapshotMetadata{Index: new(uint64(9)), Term: new(uint64(2)),
			ConfState: &pb.ConfState{Voters: ids}}}})
	f.Fuzz(func(t *testing.T, data []byte) {
		c, _, err := OpenCore(CoreOptions{Node: 1, Files: newDisk(), Network: nowhere{}})
		if err != nil {
			t.Fatal(err)
		}
		c.Create(1, ids[0], ids, func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		})
		c.StepFlusher()
		if err := c.Start(1, &list{}); err != nil {
			t.Fatal(err)
		}
		c.Deliver(2, 1, bytes.Clone(data))
		c.Deliver(3, 1, bytes.Clone(data))
		for range 20 {
			c.Tick()
			for c.StepWorker(0) || c.StepFlusher() || c.StepApplier() {
			}
		}
		if _, err := c.Status(1); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
