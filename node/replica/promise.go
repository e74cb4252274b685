package replica

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// A replica promises something with each vote and each acknowledgment, and a majority relies on
// it. Who was promised something remembers it: a replica that comes back and knows less than it
// promised was put back from an older state, or its disk lost what it had synced.

// promise is the most that one replica of a group is known to have promised: that its term is at
// least this one; if it is this one, that it voted as it did and that its log has index.
type promise struct {
	replica uint64
	start   uint64 // of its process that was heard last; see CoreOptions.Starts; 0: unknown
	term    uint64
	vote    uint64 // 0: unknown
	index   uint64
}

const promiseBytes = 5 * 8

// merge takes in another promise of the same replica, and reports whether that said more. Within
// one term, votes and indexes only grow: a log is cut in favour of the term's leader before that is
// told how far it goes, and never again in that term.
func (p *promise) merge(o promise) (more bool) {
	if startCount(o.start) > startCount(p.start) {
		p.start, more = o.start, true
	}
	switch {
	case o.term < p.term:
		return more
	case o.term > p.term:
		p.term, p.vote, p.index = o.term, o.vote, o.index
		return true
	}
	if p.vote == 0 && o.vote != 0 {
		p.vote, more = o.vote, true
	}
	if o.index > p.index {
		p.index, more = o.index, true
	}
	return more
}

// keptBy reports whether a replica with this state can have made the promise.
func (p *promise) keptBy(term, vote, last uint64) bool {
	switch {
	case term != p.term:
		return term > p.term
	case p.vote != 0 && vote != p.vote:
		return false
	}
	return last >= p.index
}

// Starts of processes have a count in front, so that what is remembered of an old one is known to
// be old, and bits that are drawn, so that two processes with the same count are told apart.
const startBits = 32

func startCount(start uint64) uint64 { return start >> startBits }

// follows reports whether a process with these starts, the last of which is its own, comes after
// one that was seen. Starts that are older than all of them say nothing.
func startFollows(starts []uint64, seen uint64) bool {
	return seen == 0 || len(starts) == 0 || slices.Contains(starts, seen) ||
		startCount(seen) < startCount(starts[0])
}

// promises are those of a group, by replica.
type promises []promise

func (p promises) find(replica uint64) (int, bool) {
	return slices.BinarySearchFunc(p, replica, func(p promise, id uint64) int {
		return cmp.Compare(p.replica, id)
	})
}

// of returns what is known of a replica.
func (p promises) of(replica uint64) promise {
	if at, ok := p.find(replica); ok {
		return p[at]
	}
	return promise{replica: replica}
}

// merge takes in a promise, and reports whether it says more than was known.
func (p *promises) merge(o promise) bool {
	at, ok := p.find(o.replica)
	if !ok {
		*p = slices.Insert(*p, at, promise{replica: o.replica})
	}
	return (*p)[at].merge(o)
}

func appendPromises(dst []byte, all promises) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(all)))
	for _, p := range all {
		for _, v := range [...]uint64{p.replica, p.start, p.term, p.vote, p.index} {
			dst = binary.LittleEndian.AppendUint64(dst, v)
		}
	}
	return dst
}

// parsePromises parses what appendPromises wrote, in the order of the replicas, and returns what
// follows it.
func parsePromises(src []byte) (all promises, rest []byte, ok bool) {
	if len(src) < 4 {
		return nil, nil, false
	}
	count := uint64(binary.LittleEndian.Uint32(src))
	src = src[4:]
	if count > uint64(len(src)/promiseBytes) {
		return nil, nil, false
	}
	for i := range count {
		var v [promiseBytes / 8]uint64
		for n := range v {
			v[n] = binary.LittleEndian.Uint64(src[8*n:])
		}
		src = src[promiseBytes:]
		if i > 0 && all[i-1].replica >= v[0] {
			return nil, nil, false
		}
		all = append(all, promise{v[0], v[1], v[2], v[3], v[4]})
	}
	return all, src, true
}

// Kinds of proofs: messages by which replicas tell each other what was promised.
const (
	proofAsk   = 1 // what the sender has, to be held against what the receiver remembers of it
	proofTell  = 2 // the answer
	proofKnown = 3 // what a leader knows of its followers, without an answer
	proofFork  = 4 // the receiver has another entry at a committed index than the sender
	lastProof  = proofFork

	proofHeaderBytes = 8 * 10
	maxStarts        = 255
)

// proof is a message between two replicas of a group about what they promised. What it says of
// the sender is durable there.
type proof struct {
	kind       uint8
	from, to   uint64
	number     uint64 // of an ask, which the answer repeats: drawn, as numbers of old ones return
	term, vote uint64 // of the sender, and the last entry of its log
	last       uint64
	lastTerm   uint64
	commit     uint64 // an entry that the sender has and knows to be committed, and its term
	commitTerm uint64
	starts     []uint64 // of the sender's node
	known      promises // what the sender remembers; of others than the receiver in proofKnown
	config     config   // as the sender has it
}

// appendProof begins with a zero, which no message of the library does.
func appendProof(dst []byte, p *proof) []byte {
	dst = append(dst, 0, p.kind, uint8(len(p.starts)), 0, 0, 0, 0, 0)
	for _, v := range [...]uint64{p.from, p.to, p.number, p.term, p.vote, p.last, p.lastTerm,
		p.commit, p.commitTerm} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	for _, v := range p.starts {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	return appendConfig(appendPromises(dst, p.known), &p.config)
}

func isProof(message []byte) bool { return len(message) > 0 && message[0] == 0 }

func parseProof(src []byte) (p proof, ok bool) {
	if len(src) < proofHeaderBytes || src[0] != 0 || src[1] == 0 || src[1] > lastProof ||
		src[3]|src[4]|src[5]|src[6]|src[7] != 0 {
		return p, false
	}
	p.kind = src[1]
	starts := int(src[2])
	src = src[8:]
	for _, v := range [...]*uint64{&p.from, &p.to, &p.number, &p.term, &p.vote, &p.last,
		&p.lastTerm, &p.commit, &p.commitTerm} {
		*v = binary.LittleEndian.Uint64(src)
		src = src[8:]
	}
	if starts > len(src)/8 {
		return p, false
	}
	for range starts {
		p.starts = append(p.starts, binary.LittleEndian.Uint64(src))
		src = src[8:]
	}
	if p.known, src, ok = parsePromises(src); !ok {
		return p, false
	}
	p.config, src, ok = parseConfig(src)
	return p, ok && len(src) == 0
}
