package member

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/store/commands"
	"github.com/pentad-db/pentad/sdk/record"
)

// bug is one that is planted around the members: what a node would do whose authors had overlooked
// something. The simulator has to find each.
type bug string

const (
	bugNoSync     bug = "acknowledged before the log is synced"
	bugDurable    bug = "the log is cut off before the store is durable"
	bugSkip       bug = "one replica leaves a command out"
	bugLocalClock bug = "a command is stamped by the clock of who applies it"
	bugNoErase    bug = "one replica does not apply erases"
	bugLocalRead  bug = "a read does not ask a majority"
	bugTwice      bug = "a batch that is sent again is not recognised"
	bugEarlyAck   bug = "a command whose outcome is unknown is acknowledged"
	bugHorizon    bug = "horizon of one replica, rows of another"
	bugLeap       bug = "a clock that leaps is followed at once"
	bugOldCopy    bug = "a directory that was put back is believed"
	bugForget     bug = "a leader does not look at what leaders before it have leased"
)

// plantedBugs are those that simulated clusters find. For bugForget a leader has to go within
// 300 ms of a lease, which TestLeasesOutliveLeaders brings about.
func plantedBugs() []bug {
	return []bug{bugNoSync, bugDurable, bugSkip, bugLocalClock, bugNoErase, bugLocalRead, bugTwice,
		bugEarlyAck, bugHorizon, bugLeap, bugOldCopy}
}

// spoiled is the place of the node that planted bugs of one replica concern.
const spoiled = 1

// spoil changes entries as planted bugs of a machine do.
func (s *simulation) spoil(m *simMachine, entries []replica.Entry) []replica.Entry {
	switch s.bug {
	case bugSkip, bugLocalClock, bugNoErase:
	default:
		return entries
	}
	out := slices.Clone(entries)
	for i := range out {
		e := &out[i]
		if len(e.Data) <= 8 {
			continue
		}
		switch {
		case s.bug == bugLocalClock:
			e.Data = bytes.Clone(e.Data)
			binary.LittleEndian.PutUint64(e.Data, uint64(m.p.node.now()))
		case m.p.node.place != spoiled:
		case s.bug == bugSkip && e.Index%50 == 0,
			s.bug == bugNoErase && bytes.Contains(e.Data, eraseHead()):
			e.Data = nil
		}
	}
	return out
}

// eraseHead is how the command of an erase begins.
func eraseHead() []byte {
	command, err := commands.AppendErase(nil, record.Box{record.CID: {record.At(1)}})
	if err != nil {
		panic(err)
	}
	return command[:4]
}
