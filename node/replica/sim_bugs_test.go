package replica

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/pentad-db/pentad/node/internal/sector"
)

// bug is one that is planted, in the modelled disk, in the machine or in a client: what a node
// would do whose authors had overlooked something. The simulator has to find each.
type bug string

const (
	bugNoMax         bug = "acq is the reading of a clock, without the last one"
	bugNoDedupe      bug = "a sequence that was seen is written again"
	bugNoWriters     bug = "the table of writers is missing in snapshots"
	bugEarlyAck      bug = "acknowledged when proposed"
	bugLocalRead     bug = "whoever believes to lead answers latest reads"
	bugNoVote        bug = "votes do not outlive a restart"
	bugLeaderHorizon bug = "horizon of the leader, rows of a follower"
	bugLocalHorizon  bug = "the leader closes by its clock, without the log"
	bugNoSync        bug = "acknowledged before the log is synced"
	bugNoSums        bug = "a bit that flipped in the middle of the log is believed"
	bugSameID        bug = "a lost replica comes back under its old id"
	bugNoProof       bug = "a replica takes part without proof that it knows what it promised"
	bugHalf          bug = "half of the others are enough for a directory that was put back"
	bugOwnClock      bug = "acqs begin with the machine clock of the leader"
)

func plantedBugs() []bug {
	return []bug{bugNoMax, bugNoDedupe, bugNoWriters, bugEarlyAck, bugLocalRead, bugNoVote,
		bugLeaderHorizon, bugLocalHorizon, bugNoSync, bugNoSums, bugSameID, bugNoProof,
		bugHalf, bugOwnClock}
}

// forgetVotes takes the votes out of what the disk is given.
func (n *simNode) forgetVotes() {
	for _, f := range n.disk.names {
		eachFrame(f.data, func(raw []byte, f *frame) {
			switch f.kind {
			case kindHardState:
				clear(f.payload)
			case kindCheckpoint:
				clear(f.payload[16:24])
			}
			binary.LittleEndian.PutUint32(raw[4:], frameSum(raw))
		})
	}
}

// flip changes a bit of the log at rest, which is never taken for a torn write. It reports whether
// there is one to change.
func (n *simNode) flip() bool {
	names, _ := n.disk.Names()
	var places []func(int) *byte
	for i, name := range names {
		data := n.disk.names[name].data
		end := len(data)
		if i == len(names)-1 {
			end = lastEnd(data)
		}
		if end > 0 {
			places = append(places, func(r int) *byte { return &data[r%end] })
		}
	}
	if len(places) == 0 {
		return false
	}
	if n.s.bug == bugNoSums {
		return n.forge()
	}
	*places[n.s.rng.IntN(len(places))](n.s.rng.IntN(1 << 30)) ^= 1 << n.s.rng.IntN(8)
	n.flips, n.scarred = n.flips+1, true
	return true
}

// lastEnd returns where the last whole flush of a file ends: what follows may be torn.
func lastEnd(data []byte) (end int) {
	for at := uint64(0); at < uint64(len(data)); {
		p := parsePlace(data, at)
		if !p.whole {
			break
		}
		at = p.next
		end = int(at)
	}
	return end
}

// forge changes a command in the log and makes its checksum right again, as a log would see it
// that has none.
func (n *simNode) forge() bool {
	var commands [][]byte
	for _, name := range slices.Sorted(maps.Keys(n.disk.names)) {
		eachFrame(n.disk.names[name].data, func(raw []byte, f *frame) {
			if f.kind == kindEntry && len(f.payload) > 1+markBytes+simCommandBytes {
				commands = append(commands, raw)
			}
		})
	}
	if len(commands) == 0 {
		return false
	}
	raw := commands[n.s.rng.IntN(len(commands))]
	raw[frameHeaderBytes+1+markBytes+1+n.s.rng.IntN(simCommandBytes-1)] ^= 1 << n.s.rng.IntN(8)
	binary.LittleEndian.PutUint32(raw[4:], frameSum(raw))
	return true
}

// eachFrame calls back with each frame of a file that can be read.
func eachFrame(data []byte, do func(raw []byte, f *frame)) {
	for at := uint64(0); at < uint64(len(data)); {
		p := parsePlace(data, at)
		if !p.readable || p.next > uint64(len(data)) {
			return
		}
		sector.Mask(p.body)
		src := p.body[:p.head.size]
		for range p.head.frames {
			f, rest, reason := parseFrame(src)
			if reason != "" {
				break
			}
			do(src[:len(src)-len(rest)], &f)
			src = rest
		}
		sector.Mask(p.body)
		at = p.next
	}
}

// slowBugs are those whose finding takes too many runs for the short form.
func slowBugs() []bug { return []bug{bugLocalRead, bugHalf} }
