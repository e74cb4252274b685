package member

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/machine"
	"github.com/pentad-db/pentad/node/replica"
)

// A leader lets horizons pass what feeds wait for without a command of the log: it leases acqs,
// that is, says that every command after one that is applied gives acqs from some acq on. Each
// leader begins its tenure further above what the log says than any leader before it may have
// leased, so a lease holds whichever node leads next, whatever its clock says, and although no node
// has written it down. A leader that was replaced and does not know it can lease no more either, as
// the log that it has ends before the tenure of the next one.

// leaseAhead is how far a lease may be above the horizon of the log. Groups that feeds wait for
// are closed by their logs that often; and a new leader may have to begin that far ahead of its
// clock, which has come there by itself where an election took longer.
const leaseAhead = 300 * time.Millisecond

// tenures are the least acqs that groups give which this node leads. Its zero value is ready.
type tenures struct {
	mu  sync.Mutex
	all map[cluster.GroupID]tenure // by group, guarded by mu
}

type tenure struct {
	term    uint64
	floorNs int64 // of the acqs of the term
}

// floor returns the least acq that a leader may give in a term.
func (t *tenures) floor(group cluster.GroupID, term uint64, of *machine.Machine) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.all[group]
	if now.term != term {
		if t.all == nil {
			t.all = map[cluster.GroupID]tenure{}
		}
		now = tenure{term, of.Store().LogHorizon() + int64(leaseAhead)}
		t.all[group] = now
	}
	return now.floorNs
}

// raise lets the leader of a group give no acqs below one in its present term.
func (t *tenures) raise(group cluster.GroupID, acqNs int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.all[group]
	now.floorNs = max(now.floorNs, acqNs)
	t.all[group] = now
}

// stampsOf returns what stamps the commands of a group as this node appends them, unless before,
// which may be nil, says why it must not.
func (m *Member) stampsOf(
	group cluster.GroupID, of *machine.Machine, before func(replica.Tenure) error,
) replica.Stamp {
	return func(t replica.Tenure, proposal []byte) error {
		if before != nil {
			if err := before(t); err != nil {
				return err
			}
		}
		machine.SetClock(proposal,
			max(machine.Clock(proposal), m.tenures.floor(group, t.Term, of)))
		return nil
	}
}

// lease is what a leader says of the horizon of a group: commands after the one at an index give
// acqs from one on.
type lease struct {
	index uint64
	acqNs int64
}

// leaseHorizons lets the horizons of groups that this node leads pass what is wanted of them, here
// and on the other nodes that have them, and returns the groups for which it takes a command: those
// that have something in progress, or whose log was last closed too long ago.
func (m *Member) leaseHorizons(
	wanted map[cluster.GroupID]closeRequest, nowNs int64,
) (rest []cluster.GroupID) {
	machines := map[cluster.GroupID]*machine.Machine{}
	for group := range wanted {
		if of := m.machine(group); of != nil {
			machines[group] = of
		}
	}
	var mu sync.Mutex
	made := map[cluster.GroupID]lease{} // guarded by mu
	ctx, cancel := context.WithTimeout(m.open, restEvery)
	defer cancel()
	groups := slices.Sorted(maps.Keys(machines))
	_ = m.run.Lead(ctx, groups, func(group cluster.GroupID, t replica.Tenure) {
		of := machines[group]
		acq := min(nowNs, of.Store().LogHorizon()+int64(leaseAhead))
		_ = m.tenures.floor(group, t.Term, of)
		if !t.Rests || acq <= wanted[group].acqNs {
			return
		}
		m.tenures.raise(group, acq) // before anything is seen of it
		mu.Lock()
		defer mu.Unlock()
		made[group] = lease{t.Applied, acq}
	}) // without an answer, a command does it
	mu.Lock()
	defer mu.Unlock()
	away := map[cluster.NodeID]map[cluster.GroupID]lease{}
	for group := range wanted {
		p, ok := made[group]
		if !ok {
			rest = append(rest, group)
			continue
		}
		machines[group].LeaseHorizon(p.index, p.acqNs)
		for _, node := range m.holders(group) {
			if away[node] == nil {
				away[node] = map[cluster.GroupID]lease{}
			}
			away[node][group] = p
		}
	}
	for node, groups := range away {
		for _, note := range leaseNotes(groups) {
			m.run.SendNote(uint64(node), note) // lost ones are made good by closeGroups
		}
	}
	return rest
}

// holders returns the other nodes that have a replica of a group.
func (m *Member) holders(group cluster.GroupID) (out []cluster.NodeID) {
	st, _ := m.run.Status(group) // without one there are none
	for _, x := range st.Members {
		if x.Replica != st.Replica {
			out = append(out, cluster.NodeID(replica.Node(x.Replica)))
		}
	}
	return out
}

// receiveLeases takes what leaders lease to the replicas here.
func (m *Member) receiveLeases(leases map[cluster.GroupID]lease) {
	for group, p := range leases {
		if of := m.machine(group); of != nil {
			of.LeaseHorizon(p.index, p.acqNs)
		}
	}
}

const (
	leaseHeaderBytes = 8  // kind u8, zero 7 bytes
	leaseBytes       = 20 // group u32, index u64, acq i64
	// maxLeases groups fit into a note of 1 KiB.
	maxLeases = 50
)

var errNotLeases = errors.New("not a note of leases")

// leaseNotes returns the notes that tell another node what is leased.
func leaseNotes(leases map[cluster.GroupID]lease) (notes [][]byte) {
	for some := range slices.Chunk(slices.Sorted(maps.Keys(leases)), maxLeases) {
		note := []byte{leaseKind, 0, 0, 0, 0, 0, 0, 0}
		for _, group := range some {
			note = binary.LittleEndian.AppendUint32(note, uint32(group))
			note = binary.LittleEndian.AppendUint64(note, leases[group].index)
			note = binary.LittleEndian.AppendUint64(note, uint64(leases[group].acqNs))
		}
		notes = append(notes, note)
	}
	return notes
}

// parseLeases parses one note.
func parseLeases(src []byte) (leases map[cluster.GroupID]lease, err error) {
	if len(src) < leaseHeaderBytes || binary.LittleEndian.Uint64(src) != leaseKind ||
		(len(src)-leaseHeaderBytes)%leaseBytes != 0 {
		return nil, errNotLeases
	}
	leases = map[cluster.GroupID]lease{}
	for src = src[leaseHeaderBytes:]; len(src) > 0; src = src[leaseBytes:] {
		group := cluster.GroupID(binary.LittleEndian.Uint32(src))
		if group == cluster.MetaGroup || group > cluster.MaxGroups {
			return nil, errNotLeases
		}
		leases[group] = lease{index: binary.LittleEndian.Uint64(src[4:]),
			acqNs: int64(binary.LittleEndian.Uint64(src[12:]))}
	}
	return leases, nil
}
