package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// markBytes is what each proposal begins with, by which its proposer knows it again: replica u64,
// boot u64, number u64.
const markBytes = 24

type mark struct{ replica, boot, number uint64 }

func appendMark(dst []byte, m mark) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, m.replica)
	dst = binary.LittleEndian.AppendUint64(dst, m.boot)
	return binary.LittleEndian.AppendUint64(dst, m.number)
}

func parseMark(src []byte) (m mark, rest []byte, ok bool) {
	if len(src) < markBytes {
		return m, nil, false
	}
	return mark{replica: binary.LittleEndian.Uint64(src), boot: binary.LittleEndian.Uint64(src[8:]),
		number: binary.LittleEndian.Uint64(src[16:])}, src[markBytes:], true
}

// Propose asks the group to apply data, parts that are joined and copied. Done gets what the
// machine answered when that is applied here, or an error: ErrNotLeader, ErrOverloaded,
// ErrGroupUnknown, ErrStopped or ErrClosed when it was not proposed, ErrUnknown when that is not
// known.
func (c *Core) Propose(group GroupID, data [][]byte, done func(result any, err error)) {
	c.ProposeIn(group, data, nil, done)
}

// ProposeIn is Propose of data that is stamped as it is appended, unless stamp is nil. It waits
// until the leader has a tenure.
func (c *Core) ProposeIn(
	group GroupID, data [][]byte, stamp Stamp, done func(result any, err error),
) {
	g, err := c.lookup(group)
	bytes := 0
	for _, part := range data {
		bytes += len(part)
	}
	size := int64(bytes + markBytes)
	switch {
	case err != nil:
		done(nil, fmt.Errorf("propose: %w", err))
		return
	case bytes == 0 || bytes > maxProposalBytes:
		done(nil, fmt.Errorf("propose to %v: %w: %d bytes, want 1 to %d", groupName(group),
			ErrTooLarge, bytes, maxProposalBytes))
		return
	case c.pending.Load()+size > c.opt.QuotaBytes || c.full():
		done(nil, fmt.Errorf("propose to %v: %w", groupName(group), ErrOverloaded))
		return
	}
	m := mark{replica: g.replica, boot: c.boot, number: c.counter.Add(1)}
	buf := appendMark(messageBuffer(int(size)), m)
	for _, part := range data {
		buf = append(buf, part...)
	}
	c.pending.Add(size)
	var enter func()
	enter = func() {
		if stamp != nil && g.unsettled() {
			g.early = append(g.early, enter)
			return
		}
		g.propose(m.number, size, done, func() error {
			defer spare(buf) // the library makes a copy
			if stamp != nil {
				t, ok := g.tenure()
				if !ok {
					return raft.ErrProposalDropped
				}
				if err := stamp(t, buf[markBytes:]); err != nil {
					return err
				}
			}
			return g.node.Propose(buf)
		})
	}
	g.post(enter)
}

// full reports whether the disk of the log is.
func (c *Core) full() bool {
	c.flusher.mu.Lock()
	defer c.flusher.mu.Unlock()
	return c.flusher.full
}

func (g *group) propose(
	number uint64, bytes int64, done func(any, error), do func() error,
) {
	w := &waiter{bytes: bytes, done: done}
	g.waiters[number] = w
	if g.err != nil {
		g.answer(number, nil, fmt.Errorf("propose to %v: %w", groupName(g.id), g.err))
		return
	}
	st := g.node.BasicStatus()
	w.term = st.GetTerm()
	err := do()
	switch {
	case err == nil:
	case st.RaftState != raft.StateLeader:
		g.answer(number, nil, g.notLeader())
	case errors.Is(err, raft.ErrProposalDropped):
		g.answer(number, nil, fmt.Errorf("propose to %v: %w", groupName(g.id), ErrOverloaded))
	default:
		g.answer(number, nil, fmt.Errorf("propose to %v: %w", groupName(g.id), err))
	}
}

// Change asks the leader to change who belongs to the group; done is called when the change is
// applied here. Members may stay in its first phase a little longer; Status says so.
func (c *Core) Change(group GroupID, change Change, done func(error)) {
	g, err := c.lookup(group)
	if err != nil {
		done(fmt.Errorf("change members: %w", err))
		return
	}
	m := mark{replica: g.replica, boot: c.boot, number: c.counter.Add(2)}
	fence := m
	fence.number--
	cc := &pb.ConfChangeV2{Context: appendMark(nil, m),
		Transition: pb.ConfChangeTransitionJointImplicit.Enum()}
	add := func(kind pb.ConfChangeType, ids []uint64) {
		for _, id := range ids {
			cc.Changes = append(cc.Changes,
				&pb.ConfChangeSingle{Type: kind.Enum(), NodeId: new(id)})
		}
	}
	add(pb.ConfChangeRemoveNode, change.Remove)
	add(pb.ConfChangeAddNode, change.Promote)
	add(pb.ConfChangeAddLearnerNode, change.AddLearner)
	refused := fmt.Errorf("change %v: %w", groupName(group), ErrChangeRefused)
	if len(cc.Changes) == 0 {
		done(refused)
		return
	}
	answer := func(_ any, err error) { done(err) }
	g.post(func() {
		if g.err == nil && g.node.BasicStatus().RaftState == raft.StateLeader &&
			(len(g.config.state.GetVotersOutgoing()) > 0 || !g.config.allows(cc)) {
			done(refused)
			return
		}
		g.propose(m.number, 0, answer, func() error { return g.node.ProposeConfChange(cc) })
		if g.waiters[m.number] == nil {
			return
		}
		// The library puts an empty entry in the place of a change that comes while another is
		// in progress. When this one comes by and the change did not, that is what happened.
		lost := func(_ any, err error) {
			if err != nil {
				g.answer(m.number, nil, err)
			} else {
				g.answer(m.number, nil, refused)
			}
		}
		g.propose(fence.number, 0, lost, func() error {
			return g.node.Propose(appendMark(nil, fence))
		})
	})
}

// allows reports whether a change is one of this config. All replicas ask it of the same config.
func (c *config) allows(cc *pb.ConfChangeV2) bool {
	for _, one := range cc.GetChanges() {
		id := one.GetNodeId()
		ok := true
		switch one.GetType() {
		case pb.ConfChangeAddLearnerNode:
			at, _ := slices.BinarySearchFunc(c.newest, Node(id), byNode)
			ok = Node(id) != 0 && (at == len(c.newest) || Node(c.newest[at]) != Node(id) ||
				c.newest[at] < id)
		case pb.ConfChangeAddNode:
			ok = slices.Contains(c.state.GetLearners(), id)
		case pb.ConfChangeRemoveNode:
			ok = slices.Contains(c.state.GetLearners(), id) ||
				slices.Contains(c.state.GetVoters(), id)
		default:
			ok = false
		}
		if !ok {
			return false
		}
	}
	return true
}

func byNode(id, node uint64) int {
	switch {
	case Node(id) < node:
		return -1
	case Node(id) > node:
		return 1
	}
	return 0
}

// newestOf returns the newest replica of each node, sorted, with some more.
func newestOf(old, ids []uint64) []uint64 {
	out := slices.Clone(old)
	for _, id := range ids {
		at, found := slices.BinarySearchFunc(out, Node(id), byNode)
		if !found {
			out = slices.Insert(out, at, id)
		}
		out[at] = max(out[at], id)
	}
	return out
}

// appliedEntries is what a task did to the machine, for the worker.
type appliedEntries struct {
	answers []answered
	changes []*pb.Entry
	last    uint64
	term    uint64 // of the last
	err     error
}

type answered struct {
	number uint64
	result any
}

// apply lets the machine take in what is committed.
func (g *group) apply(m *pb.Message) {
	entries, responses, epoch := m.GetEntries(), m.GetResponses(), g.epoch
	var bytes int64
	for _, e := range entries {
		bytes += int64(len(e.GetData()))
	}
	g.core.pending.Add(bytes)
	g.applies(func() {
		out := g.run(entries)
		g.post(func() {
			g.core.pending.Add(-bytes)
			g.finishApply(out)
			if out.err == nil && epoch == g.epoch {
				g.respond(responses)
				g.readsApplied()
				g.compact()
			}
		})
	})
}

// run is the machine's part of apply. Once it has failed nothing more is applied: what comes next
// is queued already, and must not follow an entry that the machine does not have.
func (g *group) run(entries []*pb.Entry) (out appliedEntries) {
	if g.failed != nil {
		out.err = g.failed
		return out
	}
	have := g.machine.Applied()
	given := make([]Entry, 0, len(entries))
	marks := make([]mark, 0, len(entries))
	for _, e := range entries {
		entry := Entry{Index: e.GetIndex(), Term: e.GetTerm()}
		var m mark
		if e.GetType() != pb.EntryNormal {
			out.changes = append(out.changes, e)
		} else {
			m, entry.Data, _ = parseMark(e.GetData())
		}
		out.last, out.term = entry.Index, entry.Term
		if entry.Index > have {
			given, marks = append(given, entry), append(marks, m)
		}
	}
	results := make([]any, len(given))
	if len(given) > 0 {
		err := follows(have, given[0].Index)
		if err == nil {
			err = g.machine.Apply(given, results)
		}
		if err != nil {
			g.failed = fmt.Errorf("%w: apply entries %d to %d: %w", ErrStopped,
				given[0].Index, out.last, err)
			out.err = g.failed
			return out
		}
	}
	for i, m := range marks {
		if m.replica == g.replica && m.boot == g.core.boot {
			out.answers = append(out.answers, answered{m.number, results[i]})
		}
	}
	return out
}

// follows checks that a machine, unless it is empty, is given what comes after what it has.
func follows(have, next uint64) error {
	if have > 0 && next != have+1 {
		return fmt.Errorf("entry %d does not follow entry %d, the last that was applied", next,
			have)
	}
	return nil
}

// finishApply is the worker's part of apply.
func (g *group) finishApply(out appliedEntries) {
	if out.err != nil {
		g.stop(out.err)
		return
	}
	if g.err != nil {
		return
	}
	g.applied, g.appliedTerm = max(g.applied, out.last), max(g.appliedTerm, out.term)
	for _, e := range out.changes {
		for len(g.changes) > 0 && g.changes[0] <= e.GetIndex() {
			g.changes = g.changes[1:]
		}
		// The library has the members of a snapshot as soon as it comes. If the install fails, it
		// starts again from those that the log has, and these changes come once more.
		if e.GetIndex() > g.config.index && !g.installing {
			g.configure(e)
		}
	}
	for _, a := range out.answers {
		g.answer(a.number, a.result, nil)
	}
}

// configure applies a change of members.
func (g *group) configure(e *pb.Entry) {
	cc := &pb.ConfChangeV2{}
	if err := unmarshalChange(e, cc); err != nil {
		g.stop(fmt.Errorf("%w: entry %d changes members: %w", ErrStopped, e.GetIndex(), err))
		return
	}
	m, _, ok := parseMark(cc.GetContext())
	mine := ok && m.replica == g.replica && m.boot == g.core.boot
	if !g.config.allows(cc) {
		if mine {
			g.answer(m.number, nil, fmt.Errorf("change %v: %w", groupName(g.id), ErrChangeRefused))
		}
		return
	}
	next := config{index: e.GetIndex(), newest: g.config.newest}
	next.state = g.node.ApplyConfChange(cc)
	for _, one := range cc.GetChanges() {
		next.newest = newestOf(next.newest, []uint64{one.GetNodeId()})
	}
	g.config = next
	clear(g.told)
	// Synced, although the entry is: it may be noted nowhere that the entry is committed, and the
	// members before may need, after a loss of power, one that is gone since.
	f := frame{kind: kindConfigured, index: next.index, payload: appendConfig(nil, &next)}
	g.core.flusher.add(&job{records: []record{{group: g.log, frame: f}}, sync: true,
		done: func(error) {}})
	g.publishStatus()
	if mine {
		g.answer(m.number, nil, nil)
	}
}
