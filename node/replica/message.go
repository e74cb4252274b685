package replica

import (
	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/raft/v3/raftpb"
)

// Of a message of the library, this package looks at type, sender, receiver and size, at what is
// for the disk or the machine, and at nothing else: what it means is the library's business.

func appendMessage(m *pb.Message) []byte {
	if out := appendSimple(m); out != nil {
		return out
	}
	out, err := proto.Marshal(m)
	if err != nil {
		panic("BUG: a message that cannot be written: " + err.Error())
	}
	return out
}

// parseMessage parses what a peer sent, and keeps nothing of it. Messages that are only for the
// inside of a node, and proposals, which nobody forwards, are none.
func parseMessage(src []byte) (*pb.Message, bool) {
	m := parseSimple(src)
	if m == nil {
		m = &pb.Message{}
		if proto.Unmarshal(src, m) != nil {
			return nil, false
		}
	}
	switch m.GetType() {
	case pb.MsgApp, pb.MsgAppResp, pb.MsgVote, pb.MsgVoteResp, pb.MsgSnap, pb.MsgHeartbeat,
		pb.MsgHeartbeatResp, pb.MsgTimeoutNow, pb.MsgReadIndex, pb.MsgReadIndexResp, pb.MsgPreVote,
		pb.MsgPreVoteResp:
		return m, len(m.GetResponses()) == 0
	}
	return nil, false
}

func unmarshalChange(e *pb.Entry, cc *pb.ConfChangeV2) error {
	return proto.Unmarshal(e.GetData(), cc)
}
