package replica

import (
	"testing"

	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/raft/v3/raftpb"
)

func someMessages() []*pb.Message {
	number := func(n uint64) *uint64 { return &n }
	return []*pb.Message{
		{},
		{Type: pb.MsgHeartbeat.Enum(), To: number(NewID(1, 1)), From: number(NewID(2, 1)),
			Term: number(3), Commit: number(1 << 60)},
		{Type: pb.MsgAppResp.Enum(), To: number(1), From: number(2), Term: number(300),
			LogTerm: number(0), Index: number(5), Commit: number(6), Vote: number(7),
			Reject: new(true), RejectHint: number(8), Context: []byte("context")},
		{Type: pb.MsgApp.Enum(), Index: number(1), Context: []byte{}, Reject: new(false),
			Entries: []*pb.Entry{
				{Type: pb.EntryConfChangeV2.Enum(), Term: number(2), Index: number(2),
					Data: []byte("x")},
				{Data: []byte{}}, {}, {Index: number(200), Data: make([]byte, 300)}}},
		{Type: pb.MsgSnap.Enum(), Term: number(2), Snapshot: &pb.Snapshot{Data: []byte("offer")}},
		{Type: pb.MsgStorageAppend.Enum(), Responses: []*pb.Message{{Type: pb.MsgAppResp.Enum()}}},
		{Type: (*pb.MessageType)(new(int32(-1))), Entries: []*pb.Entry{
			{Type: (*pb.EntryType)(new(int32(-1)))}}},
	}
}

// FuzzMessage holds what is written and parsed here against package proto.
func FuzzMessage(f *testing.F) {
	for _, m := range someMessages() {
		text, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte{1 << 3, byte(pb.MsgApp), 1 << 3, byte(pb.MsgVote)})
	f.Fuzz(func(t *testing.T, data []byte) {
		var want pb.Message
		err := proto.Unmarshal(data, &want)
		if got := parseSimple(data); got != nil && (err != nil || !proto.Equal(got, &want)) {
			t.Errorf("%x: %v, package proto: %v, %v", data, got, &want, err)
		}
		known := proto.UnmarshalOptions{DiscardUnknown: true}
		if err != nil || known.Unmarshal(data, &want) != nil {
			return
		}
		var back pb.Message
		text := appendMessage(&want)
		if err := proto.Unmarshal(text, &back); err != nil || !proto.Equal(&back, &want) {
			t.Errorf("%v is written as %x, which is %v, %v", &want, text, &back, err)
		}
	})
}

// What is sent all the time is not left to package proto.
func TestSimpleMessages(t *testing.T) {
	for i, m := range someMessages() {
		text := appendMessage(m)
		got := parseSimple(text)
		if simple := i < 4; (got != nil) != simple {
			t.Errorf("%v: parsed here: %v", m, got != nil)
		} else if simple && !proto.Equal(got, m) {
			t.Errorf("%v becomes %v", m, got)
		}
		if i < 4 && len(text) != proto.Size(m) {
			t.Errorf("%v: %d bytes, package proto: %d", m, len(text), proto.Size(m))
		}
	}
}

func BenchmarkMessage(b *testing.B) {
	m := someMessages()[1]
	for b.Loop() {
		if _, ok := parseMessage(appendMessage(m)); !ok {
			b.Fatal("not parsed")
		}
	}
}
