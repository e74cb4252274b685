package replica

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/pentad-db/pentad/sdk/crc32c"
	pb "go.etcd.io/raft/v3/raftpb"
)

const (
	// fragmentFlag in the size of a batch says that it is a fragment of one message.
	fragmentFlag = 1 << 31
	// fragmentBytes is the size of a fragment: over a slow line, what comes between two of them
	// still comes within a tick.
	fragmentBytes = 256 << 10
	// maxFragmentedBytes bounds a message in fragments: the largest entry and what is around it.
	maxFragmentedBytes = maxProposalBytes + 1<<20
	// maxPulseBytes is more than a pulse has.
	maxPulseBytes = 256
)

// A message that is large goes in fragments. Between them go pulses, by which leaders and followers
// know that the others are there: behind an entry that is in progress for longer than they have
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

// writeFragments writes one message, and calls between after each fragment but the last.
func writeFragments(w io.Writer, m *outMessage, between func() error) error {
	head, rest := m.head[:], m.message
	for {
		n := min(len(rest), fragmentBytes)
		if err := writeFragment(w, head, rest[:n]); err != nil {
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

func writeFragment(w io.Writer, a, b []byte) error {
	sum := crc32c.Update(crc32c.Sum(a), b)
	head := binary.LittleEndian.AppendUint32(nil, uint32(len(a)+len(b))|fragmentFlag)
	for _, part := range [][]byte{binary.LittleEndian.AppendUint32(head, sum), a, b} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// join takes a fragment, and hands out the message when it is whole.
func (in *inbox) join(fragment []byte, each func(group GroupID, message []byte)) error {
	have := len(in.large)
	if have == 0 && len(fragment) < messageHeaderBytes ||
		len(fragment) > messageHeaderBytes+fragmentBytes {
		return fmt.Errorf("%w: a fragment of %d bytes", errHostile, len(fragment))
	}
	head := fragment
	if have > 0 {
		head = in.large
	}
	size, now := uint64(binary.LittleEndian.Uint32(head[4:])), have+len(fragment)
	whole := messageHeaderBytes + size
	if size > maxFragmentedBytes || uint64(now) > whole {
		return fmt.Errorf("%w: %d bytes of a message of %d", errHostile, now-messageHeaderBytes,
			size)
	}
	if now > cap(in.large) { // what is handed out may be kept: no larger than the message
		buffer := make([]byte, have, min(uint64(max(2*have, now)), whole))
		copy(buffer, in.large)
		in.large = buffer
	}
	in.large = append(in.large, fragment...)
	if uint64(now) < whole {
		return nil
	}
	message := in.large
	in.large = nil
	each(groupAt(message), message[messageHeaderBytes:])
	return nil
}
