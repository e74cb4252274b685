package replica

import (
	"math/bits"
	"sync"

	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/raft/v3/raftpb"
)

// Of a message of the library, this package looks at type, sender, receiver and size, at what is
// for the disk or the machine, and at what of it is committed, see passesOver: what else it means
// is the library's business.

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

// parseMessage parses what a peer sent, which it may alias. Messages that are only for the inside
// of a node, and proposals, which are not forwarded, are none.
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

const (
	// Messages of these sizes, in bits, are written into memory of ones that have been sent: a
	// replica that takes records sends each of them twice, and memory that was not touched yet is
	// expensive.
	leastSpareBits = 10
	mostSpareBits  = 20
)

// spareBuffers is memory for messages, by the bits of its capacity.
type spareBuffers [mostSpareBits + 1][][]byte

// mostSpares is how many of one size are kept together.
const mostSpares = 16

var spares = sync.Pool{New: func() any { return new(spareBuffers) }}

// messageBuffer returns space for a message.
func messageBuffer(size int) []byte {
	class := max(leastSpareBits, bits.Len(uint(size-1)))
	if size < 1<<(leastSpareBits-1) || class > mostSpareBits {
		return make([]byte, 0, size)
	}
	all := spares.Get().(*spareBuffers)
	defer spares.Put(all)
	if last := len(all[class]) - 1; last >= 0 {
		buffer := all[class][last]
		all[class] = all[class][:last]
		return buffer
	}
	return make([]byte, 0, 1<<class)
}

// spare lets another message have the memory of one that is not needed any more.
func spare(message []byte) {
	class := bits.TrailingZeros(uint(cap(message)))
	if class < leastSpareBits || class > mostSpareBits || cap(message) != 1<<class {
		return
	}
	all := spares.Get().(*spareBuffers)
	defer spares.Put(all)
	if len(all[class]) < mostSpares {
		all[class] = append(all[class], message[:0])
	}
}
