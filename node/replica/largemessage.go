package replica

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/pentad-db/pentad/sdk/crc32c"
	pb "go.etcd.io/raft/v3/raftpb"
)

const (
	// pieceFlag in the size of a batch says that it is a piece of one message.
	pieceFlag = 1 << 31
	// pieceBytes is the size of a piece: over a slow line, what comes between two of them still
	// comes within a tick.
	pieceBytes = 256 << 10
	// maxPiecedBytes bounds a message in pieces: the largest entry and what is around it.
	maxPiecedBytes = maxProposalBytes + 1<<20
	// maxPulseBytes is more than a pulse has.
	maxPulseBytes = 256
)

// A message that is large goes in pieces. Between them go pulses, by which leaders and followers
// know that the others are there: behind an entry that is under way for longer than they have
// patience, followers would elect another leader, again and again. The others keep their order, as
// a follower refuses an entry that comes before the one that it follows.

func (m *outMessage) isLarge() bool { return len(m.message) > fullBatchBytes }

func (m *outMessage) isPulse() bool {
	if len(m.message) > maxPulseBytes || groupAt(m.head[:]) == NoGroup {
		return false
	}
	of, ok := parseMessage(m.message)
	return ok && (of.GetType() == pb.MsgHeartbeat || of.GetType() == pb.MsgHeartbeatResp)
}

// takePulses returns the pulses that wait.
func (p *peer) takePulses() (out []outMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	size, rest := 0, p.queue[:0]
	for _, m := range p.queue {
		if size < fullBatchBytes && m.isPulse() {
			out = append(out, m)
			size += m.size()
		} else {
			rest = append(rest, m)
		}
	}
	clear(p.queue[len(rest):])
	p.queue, p.bytes = rest, p.bytes-size
	return out
}

// writePieces writes one message, and calls between after each piece but the last.
func writePieces(w io.Writer, m *outMessage, between func() error) error {
	head, rest := m.head[:], m.message
	for {
		n := min(len(rest), pieceBytes)
		if err := writePiece(w, head, rest[:n]); err != nil {
			return err
		}
		if head, rest = nil, rest[n:]; len(rest) == 0 {
			return nil
		}
		if err := between(); err != nil {
			return err
		}
	}
}

func writePiece(w io.Writer, a, b []byte) error {
	sum := crc32c.Update(crc32c.Sum(a), b)
	head := binary.LittleEndian.AppendUint32(nil, uint32(len(a)+len(b))|pieceFlag)
	for _, part := range [][]byte{binary.LittleEndian.AppendUint32(head, sum), a, b} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// join takes a piece, and hands out the message when it is whole.
func (in *inbox) join(piece []byte, each func(group GroupID, message []byte)) error {
	have := len(in.large)
	if have == 0 && len(piece) < messageHeaderBytes || len(piece) > messageHeaderBytes+pieceBytes {
		return fmt.Errorf("%w: a piece of %d bytes", errHostile, len(piece))
	}
	head := piece
	if have > 0 {
		head = in.large
	}
	size, now := uint64(binary.LittleEndian.Uint32(head[4:])), have+len(piece)
	whole := messageHeaderBytes + size
	if size > maxPiecedBytes || uint64(now) > whole {
		return fmt.Errorf("%w: %d bytes of a message of %d", errHostile, now-messageHeaderBytes,
			size)
	}
	if now > cap(in.large) { // what is handed out may be kept: no larger than the message
		room := make([]byte, have, min(uint64(max(2*have, now)), whole))
		copy(room, in.large)
		in.large = room
	}
	in.large = append(in.large, piece...)
	if uint64(now) < whole {
		return nil
	}
	message := in.large
	in.large = nil
	each(groupAt(message), message[messageHeaderBytes:])
	return nil
}
