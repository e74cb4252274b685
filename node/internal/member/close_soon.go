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
	"github.com/pentad-db/pentad/node/store/commands"
)

// A feed over several groups hands on a record when the horizons of all have passed it, and those
// of groups that nothing is written to move once a second. So who reads such a feed says which acq
// the others must pass, and their leaders lease it at once, or close them by commands of their
// logs where they cannot, see leaseHorizons. While no feed waits nothing is sent.

const (
	// closePause is the least time from one round to the next, and closeCost what is added for each
	// group that is closed by a command: one takes the three nodes together some 50 us of a
	// processor, so that nodes spend a quarter of one each at most, and with 8 groups a twentieth.
	closePause = 5 * time.Millisecond
	closeCost  = 200 * time.Microsecond
	// maxCloseAhead is how far an acq may lie above the clock of a leader that waits until it is
	// there: clocks of nodes that may lead differ less.
	maxCloseAhead = time.Second
)

// closeRequests are the groups whose horizons, their closed timestamps, are to be moved soon.
type closeRequests struct {
	wake chan struct{} // holds one: there are some

	mu      sync.Mutex // guards what follows
	wanted  map[cluster.GroupID]closeRequest
	closing map[cluster.GroupID]bool   // those of which a command is in progress
	closes  map[cluster.GroupID]uint64 // how many commands there were
}

// closeRequest is what is wanted of a group.
type closeRequest struct {
	acqNs int64 // its horizon is to pass this
	here  bool  // a feed of this node waits, so that the leader is told if it is another node
}

func newCloseRequests() closeRequests {
	return closeRequests{wake: make(chan struct{}, 1), wanted: map[cluster.GroupID]closeRequest{},
		closing: map[cluster.GroupID]bool{}, closes: map[cluster.GroupID]uint64{}}
}

// CloseSoon lets the horizon of a group pass an acq as soon as its leader can: closeGroups would
// take up to a second. It does not wait, and what it asks for may be lost.
func (m *Member) CloseSoon(group cluster.GroupID, acqNs int64) {
	m.closeRequests.add(group, closeRequest{acqNs, true})
}

func (h *closeRequests) add(group cluster.GroupID, w closeRequest) {
	h.mu.Lock()
	old := h.wanted[group]
	h.wanted[group] = closeRequest{max(old.acqNs, w.acqNs), old.here || w.here}
	h.mu.Unlock()
	h.call()
}

func (h *closeRequests) call() {
	select {
	case h.wake <- struct{}{}:
	default: // a round is due
	}
}

// take returns what is wanted of groups of which no command is in progress.
func (h *closeRequests) take() map[cluster.GroupID]closeRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[cluster.GroupID]closeRequest{}
	for group, w := range h.wanted {
		if !h.closing[group] {
			out[group] = w
			delete(h.wanted, group)
		}
	}
	return out
}

// begin notes that a command is in progress.
func (h *closeRequests) begin(group cluster.GroupID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closing[group] = true
	h.closes[group]++
}

func (h *closeRequests) end(group cluster.GroupID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.closing, group)
	if _, more := h.wanted[group]; more {
		h.call()
	}
}

// count returns how often a group was closed here.
func (h *closeRequests) count(group cluster.GroupID) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closes[group]
}

// closeLoop closes groups that this node leads when a feed waits for them, and tells the leaders of
// others, until the member closes.
func (m *Member) closeLoop() {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-m.closeRequests.wake:
		case <-m.open.Done():
			return
		}
		pause.Reset(closePause + time.Duration(m.serveCloseRequests())*closeCost)
		select {
		case <-pause.C:
		case <-m.open.Done():
			return
		}
	}
}

// serveCloseRequests does what is wanted, and returns how many groups it has begun to close.
func (m *Member) serveCloseRequests() (closed int) {
	away := map[cluster.NodeID]map[cluster.GroupID]int64{}
	here := map[cluster.GroupID]closeRequest{}
	now, ok := m.clock.Stamp()
	for group, w := range m.closeRequests.take() {
		if s := m.Store(group); s != nil {
			if horizon, err := s.ExtendHorizon(m.open); err == nil && horizon > w.acqNs {
				continue
			}
		}
		leader := m.Leader(group)
		switch {
		case leader == m.self.ID && (!ok || w.acqNs-now > int64(maxCloseAhead)):
		case leader == m.self.ID && w.acqNs >= now:
			m.closeRequests.add(group, w)
		case leader == m.self.ID:
			here[group] = w
		case w.here: // what another node told goes round in no circles
			if away[leader] == nil {
				away[leader] = map[cluster.GroupID]int64{}
			}
			away[leader][group] = w.acqNs
		}
	}
	for leader, groups := range away {
		for _, note := range closeNotes(groups) {
			m.run.SendNote(uint64(leader), note) // lost ones are made good by closeGroups
		}
	}
	if len(here) == 0 {
		return 0
	}
	rest := m.leaseHorizons(here, now)
	for _, group := range rest {
		m.closeNow(group)
	}
	return len(rest)
}

// closeNow begins to close a group that this node leads, by a command.
func (m *Member) closeNow(group cluster.GroupID) {
	m.closeRequests.begin(group)
	m.wg.Go(func() {
		defer m.closeRequests.end(group)
		ctx, cancel := context.WithTimeout(m.open, restEvery)
		defer cancel()
		_, _ = m.Here(ctx, group, commands.AppendHorizon(nil)) // closeGroups says the same
	})
}

const (
	// What notes begin with; those of clocks begin with 1 and 2.
	closeKind = 3
	passKind  = 4
	leaseKind = 5

	passBytes        = 24 // kind u8, zero 7 bytes, feed u64, acq i64
	closeHeaderBytes = 8  // kind u8, zero 7 bytes
	closeGroupBytes  = 12 // group u32, acq i64
	// maxClosed groups fit into a note of 1 KiB.
	maxClosed = 84
)

var errNotCloses = errors.New("not a note of groups to close")

// closeNotes returns the notes that tell a leader what is wanted of its groups.
func closeNotes(wanted map[cluster.GroupID]int64) (notes [][]byte) {
	for some := range slices.Chunk(slices.Sorted(maps.Keys(wanted)), maxClosed) {
		note := []byte{closeKind, 0, 0, 0, 0, 0, 0, 0}
		for _, group := range some {
			note = binary.LittleEndian.AppendUint32(note, uint32(group))
			note = binary.LittleEndian.AppendUint64(note, uint64(wanted[group]))
		}
		notes = append(notes, note)
	}
	return notes
}

// parseCloseNote parses one note.
func parseCloseNote(src []byte) (wanted map[cluster.GroupID]int64, err error) {
	if len(src) < closeHeaderBytes || binary.LittleEndian.Uint64(src) != closeKind ||
		(len(src)-closeHeaderBytes)%closeGroupBytes != 0 {
		return nil, errNotCloses
	}
	wanted = map[cluster.GroupID]int64{}
	for src = src[closeHeaderBytes:]; len(src) > 0; src = src[closeGroupBytes:] {
		group := cluster.GroupID(binary.LittleEndian.Uint32(src))
		if group == cluster.MetaGroup || group > cluster.MaxGroups {
			return nil, errNotCloses
		}
		wanted[group] = int64(binary.LittleEndian.Uint64(src[4:]))
	}
	return wanted, nil
}

// PassFeed tells another node that this one waits until a feed of it has passed an acq. It does not
// wait, and the note may be lost.
func (m *Member) PassFeed(node cluster.NodeID, feed uint64, acqNs int64) {
	m.run.SendNote(uint64(node), passNote(feed, acqNs))
}

func passNote(feed uint64, acqNs int64) []byte {
	note := binary.LittleEndian.AppendUint64([]byte{passKind, 0, 0, 0, 0, 0, 0, 0}, feed)
	return binary.LittleEndian.AppendUint64(note, uint64(acqNs))
}

func parsePass(src []byte) (feed uint64, acqNs int64, ok bool) {
	if len(src) != passBytes || binary.LittleEndian.Uint64(src) != passKind {
		return 0, 0, false
	}
	return binary.LittleEndian.Uint64(src[8:]), int64(binary.LittleEndian.Uint64(src[16:])), true
}

// hearNote takes a note of another node, and returns what to answer, if anything.
func (m *Member) hearNote(node uint64, note []byte) (answer []byte) {
	if feed, acq, ok := parsePass(note); ok {
		if m.opt.Passed != nil {
			m.opt.Passed(feed, acq)
		}
		return nil
	}
	if leases, err := parseLeases(note); err == nil {
		m.receiveLeases(leases)
		return nil
	}
	wanted, err := parseCloseNote(note)
	if err != nil {
		return m.clock.Hear(node, note)
	}
	for group, acq := range wanted {
		m.closeRequests.add(group, closeRequest{acqNs: acq})
	}
	return nil
}
