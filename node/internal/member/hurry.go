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
// the others must pass, and their leaders promise it at once, or close them by commands of their
// logs where they cannot, see promise. While no feed waits nothing is sent.

const (
	// hurryPause is the least time from one round to the next, and hurryCost what is added for each
	// group that is closed by a command: one takes the three nodes together some 50 us of a
	// processor, so that nodes spend a quarter of one each at most, and with 8 groups a twentieth.
	hurryPause = 5 * time.Millisecond
	hurryCost  = 200 * time.Microsecond
	// hurryAhead is how far an acq may lie above the clock of a leader that waits until it is
	// there: clocks of nodes that may lead differ less.
	hurryAhead = time.Second
)

// hurries are the groups that are to be closed soon.
type hurries struct {
	wake chan struct{} // holds one: there are some

	mu      sync.Mutex // guards what follows
	wanted  map[cluster.GroupID]hurried
	closing map[cluster.GroupID]bool   // those of which a command is under way
	closes  map[cluster.GroupID]uint64 // how many commands there were
}

// hurried is what is wanted of a group.
type hurried struct {
	acqNs int64 // its horizon is to pass this
	here  bool  // a feed of this node waits, so that the leader is told if it is another node
}

func newHurries() hurries {
	return hurries{wake: make(chan struct{}, 1), wanted: map[cluster.GroupID]hurried{},
		closing: map[cluster.GroupID]bool{}, closes: map[cluster.GroupID]uint64{}}
}

// CloseSoon lets the horizon of a group pass an acq as soon as its leader can: closeGroups would
// take up to a second. It does not wait, and what it asks for may be lost.
func (m *Member) CloseSoon(group cluster.GroupID, acqNs int64) {
	m.hurries.add(group, hurried{acqNs, true})
}

func (h *hurries) add(group cluster.GroupID, w hurried) {
	h.mu.Lock()
	old := h.wanted[group]
	h.wanted[group] = hurried{max(old.acqNs, w.acqNs), old.here || w.here}
	h.mu.Unlock()
	h.call()
}

func (h *hurries) call() {
	select {
	case h.wake <- struct{}{}:
	default: // a round is due
	}
}

// take returns what is wanted of groups of which no command is under way.
func (h *hurries) take() map[cluster.GroupID]hurried {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[cluster.GroupID]hurried{}
	for group, w := range h.wanted {
		if !h.closing[group] {
			out[group] = w
			delete(h.wanted, group)
		}
	}
	return out
}

// begin notes that a command is under way.
func (h *hurries) begin(group cluster.GroupID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closing[group] = true
	h.closes[group]++
}

func (h *hurries) end(group cluster.GroupID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.closing, group)
	if _, more := h.wanted[group]; more {
		h.call()
	}
}

// count returns how often a group was closed here.
func (h *hurries) count(group cluster.GroupID) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closes[group]
}

// hurry closes groups that this node leads when a feed waits for them, and tells the leaders of
// others, until the member closes.
func (m *Member) hurry() {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-m.hurries.wake:
		case <-m.open.Done():
			return
		}
		pause.Reset(hurryPause + time.Duration(m.hurryRound())*hurryCost)
		select {
		case <-pause.C:
		case <-m.open.Done():
			return
		}
	}
}

// hurryRound does what is wanted, and returns how many groups it has begun to close.
func (m *Member) hurryRound() (closed int) {
	away := map[cluster.NodeID]map[cluster.GroupID]int64{}
	here := map[cluster.GroupID]hurried{}
	now, ok := m.clock.Stamp()
	for group, w := range m.hurries.take() {
		if s := m.Store(group); s != nil {
			if horizon, err := s.ExtendHorizon(m.open); err == nil && horizon > w.acqNs {
				continue
			}
		}
		leader := m.Leader(group)
		switch {
		case leader == m.self.ID && (!ok || w.acqNs-now > int64(hurryAhead)):
		case leader == m.self.ID && w.acqNs >= now:
			m.hurries.add(group, w)
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
		for _, note := range hurryNotes(groups) {
			m.run.Tell(uint64(leader), note) // lost ones are made good by closeGroups
		}
	}
	if len(here) == 0 {
		return 0
	}
	rest := m.promise(here, now)
	for _, group := range rest {
		m.closeNow(group)
	}
	return len(rest)
}

// closeNow begins to close a group that this node leads, by a command.
func (m *Member) closeNow(group cluster.GroupID) {
	m.hurries.begin(group)
	m.wg.Go(func() {
		defer m.hurries.end(group)
		ctx, cancel := context.WithTimeout(m.open, restEvery)
		defer cancel()
		_, _ = m.Here(ctx, group, commands.AppendClose(nil)) // closeGroups says the same
	})
}

const (
	// What notes begin with; those of clocks begin with 1 and 2.
	hurryKind   = 3
	passKind    = 4
	promiseKind = 5

	passBytes        = 24 // kind u8, zero 7 bytes, feed u64, acq i64
	hurryHeaderBytes = 8  // kind u8, zero 7 bytes
	hurryGroupBytes  = 12 // group u32, acq i64
	// mostHurried groups fit into a note of 1 KiB.
	mostHurried = 84
)

var errNoHurry = errors.New("not a note of groups to close")

// hurryNotes returns the notes that tell a leader what is wanted of its groups.
func hurryNotes(wanted map[cluster.GroupID]int64) (notes [][]byte) {
	for some := range slices.Chunk(slices.Sorted(maps.Keys(wanted)), mostHurried) {
		note := []byte{hurryKind, 0, 0, 0, 0, 0, 0, 0}
		for _, group := range some {
			note = binary.LittleEndian.AppendUint32(note, uint32(group))
			note = binary.LittleEndian.AppendUint64(note, uint64(wanted[group]))
		}
		notes = append(notes, note)
	}
	return notes
}

// parseHurry parses one note.
func parseHurry(src []byte) (wanted map[cluster.GroupID]int64, err error) {
	if len(src) < hurryHeaderBytes || binary.LittleEndian.Uint64(src) != hurryKind ||
		(len(src)-hurryHeaderBytes)%hurryGroupBytes != 0 {
		return nil, errNoHurry
	}
	wanted = map[cluster.GroupID]int64{}
	for src = src[hurryHeaderBytes:]; len(src) > 0; src = src[hurryGroupBytes:] {
		group := cluster.GroupID(binary.LittleEndian.Uint32(src))
		if group == cluster.MetaGroup || group > cluster.MaxGroups {
			return nil, errNoHurry
		}
		wanted[group] = int64(binary.LittleEndian.Uint64(src[4:]))
	}
	return wanted, nil
}

// PassFeed tells another node that this one waits until a feed of it has passed an acq. It does not
// wait, and the note may be lost.
func (m *Member) PassFeed(node cluster.NodeID, feed uint64, acqNs int64) {
	m.run.Tell(uint64(node), passNote(feed, acqNs))
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
	if promises, err := parsePromises(note); err == nil {
		m.hearPromises(promises)
		return nil
	}
	wanted, err := parseHurry(note)
	if err != nil {
		return m.clock.Hear(node, note)
	}
	for group, acq := range wanted {
		m.hurries.add(group, hurried{acqNs: acq})
	}
	return nil
}
