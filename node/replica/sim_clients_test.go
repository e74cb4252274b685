package replica

import (
	"errors"
	"slices"
	"time"
)

// history is what is known of one group from outside.
type history struct {
	sums     []uint64             // of the state, by index, as whoever came first had it
	applied  map[[2]uint32]uint64 // where each write took effect, by writer and sequence
	acked    []simRow
	ackedAcq int64 // the greatest
}

// simWriter writes one after the other, each again and again until it is acknowledged.
type simWriter struct {
	s        *simulation
	group    GroupID
	id       uint32
	sequence uint32
	acked    uint32 // the newest sequence that was
	attempt  int
	node     *simNode
	ackedAt  time.Duration
}

// guess returns a node that may lead.
func (s *simulation) guess(group GroupID) *simNode {
	n := s.pick()
	if st := n.status(group); st != nil && st.Leader != 0 {
		return s.nodes[Node(st.Leader)-1]
	}
	return n
}

func (w *simWriter) next() {
	if w.s.ending {
		return
	}
	w.sequence++
	w.node = w.s.guess(w.group)
	w.send()
}

func (w *simWriter) send() {
	s := w.s
	w.attempt++
	attempt, sequence := w.attempt, w.sequence
	again := func() {
		if w.attempt == attempt && w.sequence == sequence {
			w.node = s.guess(w.group)
			w.send()
		}
	}
	if !w.node.up() {
		s.after(time.Duration(5+s.rng.IntN(50))*time.Millisecond, again)
		return
	}
	reading, ok := w.node.stamp()
	if !ok {
		s.after(time.Duration(5+s.rng.IntN(50))*time.Millisecond, again)
		return
	}
	command := simCommand{simWrite, w.id, sequence, reading}.append(1 + s.rng.IntN(90))
	run, node := w.node.run, w.node
	w.node.core.Propose(w.group, [][]byte{command}, func(result any, err error) {
		switch {
		case err == nil:
			w.acknowledged(sequence, result.(simRow))
		case errors.Is(err, ErrUnknown), errors.Is(err, ErrNotLeader),
			errors.Is(err, ErrOverloaded), errors.Is(err, ErrGroupUnknown),
			errors.Is(err, ErrLogFailed), errors.Is(err, errSimRefused),
			errors.Is(err, ErrRolledBack):
			s.after(time.Duration(5+s.rng.IntN(50))*time.Millisecond, again)
		default:
			s.violated("propose to node %d: %v", node.id, err)
		}
	})
	if s.bug == bugEarlyAck && node.run == run && leads(node, w.group) {
		w.acknowledged(sequence, simRow{w.id, sequence, reading})
	}
	s.after(time.Duration(300+s.rng.IntN(1500))*time.Millisecond, again)
}

func leads(n *simNode, group GroupID) bool {
	st := n.status(group)
	return st != nil && st.Leader == st.Replica
}

func (w *simWriter) acknowledged(sequence uint32, row simRow) {
	if sequence <= w.acked {
		return // an earlier attempt, too, had come through
	}
	h := w.s.histories[w.group]
	w.s.checkAcq(w.group, row.acq)
	h.acked = append(h.acked, row)
	h.ackedAcq = max(h.ackedAcq, row.acq)
	w.s.counts["acknowledged"]++
	w.ackedAt = w.s.now
	w.acked = sequence
	w.attempt++
	w.s.after(time.Duration(1+w.s.rng.IntN(w.s.config.think))*time.Millisecond, w.next)
}

// simReader follows what is written, from whichever replica it meets.
type simReader struct {
	s     *simulation
	group GroupID
	at    int64
	rows  []simRow
}

func (r *simReader) step() {
	n := r.s.pick()
	m := n.machine(r.group)
	if m == nil {
		return
	}
	horizon := m.last
	r.s.checkAcq(r.group, horizon)
	switch r.s.bug {
	case bugLeaderHorizon:
		if leader := r.s.guess(r.group).machine(r.group); leader != nil {
			horizon = leader.last
		}
	case bugLocalHorizon:
		if leads(n, r.group) {
			horizon = max(horizon, n.clock())
		}
	}
	if horizon <= r.at {
		return
	}
	r.rows = append(r.rows, m.between(r.at, horizon)...)
	r.at = horizon
}

// readLatest asks some replica for all that was acknowledged before.
func (s *simulation) readLatest(group GroupID) {
	n := s.pick()
	m := n.machine(group)
	if m == nil {
		return
	}
	floor := s.histories[group].ackedAcq
	check := func() {
		s.counts["reads"]++
		if m.last < floor {
			s.violated("group %d: a read on node %d has acq %d, and %d was acknowledged before it",
				group, n.id, m.last, floor)
		}
	}
	if s.bug == bugLocalRead {
		if leads(n, group) {
			check()
		}
		return
	}
	n.core.ReadIndex(group, func(_ uint64, err error) {
		if err == nil {
			check()
		}
	})
}

// moveHorizon lets whoever believes to lead close what its clock has passed.
func (s *simulation) moveHorizon(group GroupID) {
	for _, n := range s.nodes {
		if now, ok := n.time.Stamp(); ok && leads(n, group) {
			n.core.Propose(group, [][]byte{simCommand{simClose, 0, 0, now}.append(0)},
				func(any, error) {})
		}
	}
}

// checkWhole holds what writers and readers know against what all replicas have in the end.
func (h *history) checkWhole(s *simulation, group GroupID) {
	var m *simMachine
	for _, n := range s.nodes {
		if one := n.machine(group); one != nil {
			m = one
		}
	}
	acqs := map[simRow]int{}
	for _, row := range m.rows {
		acqs[row]++
	}
	for _, row := range h.acked {
		if acqs[row] != 1 {
			s.violated("group %d: write %d of writer %d was acknowledged with acq %d and is there "+
				"%d times", group, row.sequence, row.writer, row.acq, acqs[row])
		}
	}
	for _, r := range s.readers {
		if r.group != group {
			continue
		}
		if want := m.between(0, r.at); !slices.Equal(r.rows, want) {
			s.violated("group %d: a reader at %d has %d rows, not the %d that are there", group,
				r.at, len(r.rows), len(want))
		}
	}
}
