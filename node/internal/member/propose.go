package member

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/machine"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/wire"
)

// ErrUnavailable means that a group did not answer in time: it has no leader, or no node that knows
// one is reached.
var ErrUnavailable = errors.New("the group has no leader that can be reached; try again")

const (
	// commandTimeout bounds how long a command looks for a leader: an election takes about a
	// second, so this outlives several.
	commandTimeout = 8 * time.Second
	// timePerByte is what large commands may take longer: a megabyte a second.
	timePerByte = time.Microsecond
	// Pauses between two looks for a leader. Where a replica of the group is here, an election ends
	// them, so they are for what else goes wrong.
	leastPause = 5 * time.Millisecond
	mostPause  = 100 * time.Millisecond
)

// elections lets those know who wait for a leader of a group. Its zero value is ready.
type elections struct {
	mu   sync.Mutex
	next map[cluster.GroupID]chan struct{} // by group, guarded by mu; closed when there is a leader
}

// wait returns what is closed when the replica of a group here hears of the next leader.
func (e *elections) wait(group cluster.GroupID) <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.next[group]
	if c == nil {
		c = make(chan struct{})
		if e.next == nil {
			e.next = map[cluster.GroupID]chan struct{}{}
		}
		e.next[group] = c
	}
	return c
}

// wake wakes those who wait for a leader of a group.
func (e *elections) wake(group cluster.GroupID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.next[group]; c != nil {
		close(c)
		delete(e.next, group)
	}
}

// Answer is what a group answered to a command: of data, or of the meta group.
type Answer struct {
	Put   store.PutResult `json:"put"`
	AcqNs int64           `json:"acq_ns"`

	Changed bool              `json:"changed"`
	Replica cluster.ReplicaID `json:"replica"`
	Version uint64            `json:"version"`

	// Retried: the command was sent before and its outcome is unknown; an error may be that
	// it was done.
	Retried bool `json:"-"`
}

// Command asks the meta group to change the state of the cluster, which it does once.
func (m *Member) Command(ctx context.Context, cmd cluster.Command) (Answer, error) {
	return m.commandIdempotent(ctx, cmd, drawID())
}

// drawID draws what a command is known by when it is sent again.
func drawID() uint64 { return 1 + rand.Uint64N(math.MaxUint64) }

// commandIdempotent is Command under an id. A cursor that moves forward needs none, as it comes to
// the same place whatever comes between; and many do every second, which a state could not know.
func (m *Member) commandIdempotent(
	ctx context.Context, cmd cluster.Command, id uint64,
) (Answer, error) {
	if c, is := cmd.(*cluster.CommitCursor); !is || c.Force {
		cmd = &cluster.Idempotent{ID: id, Command: cmd}
	}
	data, err := cluster.AppendCommand(nil, cmd)
	if err != nil {
		return Answer{}, err
	}
	return m.Propose(ctx, cluster.MetaGroup, data, true)
}

// proposeOptions are how a command is sent to its group.
type proposeOptions struct {
	again   bool // it may be sent twice
	relayed bool // another node asks, so that no third one is asked to do the same
}

// Propose sends a command to the node that leads the group, wherever that is, and returns what the
// group answers. Again says that the command may be sent twice: then leaders that are lost are
// outlived, as long as there is time.
//
// Errors: those of commands that are wrong; ErrUnavailable; ErrUndecided; replica.ErrUnknown, when
// it must not be sent twice; replica.ErrOverloaded; of ctx.
func (m *Member) Propose(
	ctx context.Context, group cluster.GroupID, data []byte, again bool,
) (answer Answer, err error) {
	return m.proposeWith(ctx, group, data, proposeOptions{again: again})
}

func (m *Member) proposeWith(
	ctx context.Context, group cluster.GroupID, data []byte, c proposeOptions,
) (answer Answer, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx,
		commandTimeout+time.Duration(len(data))*timePerByte, ErrUnavailable)
	defer cancel()
	pause, sent := leastPause, false
	for try := 0; ; try++ {
		elected := m.elections.wait(group) // before the answer that may be out of date by then
		answer, err = m.askOnce(ctx, group, data, c, try)
		answer.Retried = sent
		if err == nil {
			m.raiseSessionAcq(group, max(answer.Put.LastAcqNs, answer.AcqNs))
		}
		if err == nil || !sendAgain(err, c.again) {
			return answer, err
		}
		sent = sent || errors.Is(err, replica.ErrUnknown)
		select {
		case <-elected:
		case <-time.After(pause + rand.N(pause)):
			pause = min(2*pause, mostPause)
		case <-ctx.Done():
			if errors.Is(err, ErrUndecided) {
				return answer, fmt.Errorf("group %d: %w", group, err)
			}
			return answer, fmt.Errorf("group %d: %w (%w)", group, context.Cause(ctx), err)
		case <-m.open.Done():
			return answer, replica.ErrClosed
		}
	}
}

// sendAgain reports whether a command that failed with an error is to be sent once more. With
// ErrUnknown it may have been decided, whatever the cause, such as a leader that was lost.
func sendAgain(err error, twice bool) bool {
	if errors.Is(err, replica.ErrUnknown) {
		return twice
	}
	return errors.Is(err, replica.ErrNotLeader) || errors.Is(err, replica.ErrGroupUnknown) ||
		errors.Is(err, replica.ErrOverloaded) || errors.Is(err, ErrUnavailable) ||
		errors.Is(err, replica.ErrStopped) || errors.Is(err, ErrUndecided)
}

// raiseSessionAcq keeps the greatest acq that this node has acknowledged or shown for a group.
func (m *Member) raiseSessionAcq(group cluster.GroupID, acqNs int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessionAcqs[group] = max(m.sessionAcqs[group], acqNs)
}

// SessionAcq returns the greatest acq that this node has acknowledged or shown for a group: a
// client that wrote or read through it may expect to read that.
func (m *Member) SessionAcq(group cluster.GroupID) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sessionAcqs[group]
}

// RaiseSessionAcq takes in an acq of a group up to which an answer of this node has shown
// everything.
func (m *Member) RaiseSessionAcq(group cluster.GroupID, acqNs int64) {
	m.raiseSessionAcq(group, acqNs)
}

// askOnce asks one node.
func (m *Member) askOnce(
	ctx context.Context, group cluster.GroupID, data []byte, c proposeOptions, try int,
) (Answer, error) {
	id := m.Leader(group)
	if id == m.self.ID {
		answer, err := m.Here(ctx, group, data)
		m.hint(group, err)
		return answer, err
	}
	addr, relay := "", false
	if via := m.detour(group, id); via != 0 && c.again && !c.relayed {
		id, relay = via, true
	}
	if n, ok := m.locate(id); ok {
		addr = n.HTTPAddr
	} else if all := m.others(); len(all) > 0 {
		id, addr = 0, all[try%len(all)] // one of them may know
	} else {
		return Answer{}, ErrUnavailable
	}
	answer, err := m.sendCommand(ctx, id, addr, group, data, relay)
	if !relay {
		m.hint(group, err)
	}
	return answer, err
}

// hint remembers the node that was named as the leader, or that none is known.
func (m *Member) hint(group cluster.GroupID, err error) {
	if err == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var not *replica.NotLeaderError
	if errors.As(err, &not) && not.Leader != 0 {
		m.hints[group] = cluster.NodeID(replica.Node(not.Leader))
	} else {
		delete(m.hints, group)
	}
}

// Leader returns the node that probably leads a group: the one that the replica here follows, that
// another node named, or any voter in the view; 0 when none is known.
func (m *Member) Leader(group cluster.GroupID) cluster.NodeID {
	if st, err := m.run.Status(group); err == nil && st.Leader != 0 {
		return cluster.NodeID(replica.Node(st.Leader))
	}
	m.mu.Lock()
	id, ok := m.hints[group]
	m.mu.Unlock()
	if ok {
		return id
	}
	v := m.View()
	if int(group) >= len(v.Groups) {
		return 0
	}
	var voters []cluster.Replica
	for _, r := range v.Voters(group) {
		if r.Node != m.self.ID {
			voters = append(voters, r)
		}
	}
	if len(voters) == 0 {
		return 0
	}
	return voters[rand.N(len(voters))].Node
}

// Here has a group decide on a command if this node leads it. One for the state that this program
// cannot read is refused: in the log it would stop every replica.
func (m *Member) Here(ctx context.Context, group cluster.GroupID, data []byte) (Answer, error) {
	c, data, checked := parseCheck(data)
	if checked && group != cluster.MetaGroup {
		return m.hereChecked(ctx, group, c, data)
	}
	return m.decideHere(ctx, group, data, nil, nil)
}

// decideHere is Here of a command without a check. Unless it is nil before is asked as the command
// is appended, and ended is called once it is known what became of it.
func (m *Member) decideHere(
	ctx context.Context, group cluster.GroupID, data []byte, before func(replica.Tenure) error,
	ended func(),
) (Answer, error) {
	proposal := [][]byte{data}
	var stamp replica.Stamp
	if group == cluster.MetaGroup {
		if _, err := cluster.ParseCommand(data); err != nil {
			return Answer{}, &wire.Error{Kind: wire.KindInvalid, Part: "body", Message: err.Error()}
		}
	} else {
		now, err := m.stamp(group)
		if err != nil {
			return Answer{}, err
		}
		of := m.machine(group)
		if of == nil {
			return Answer{}, fmt.Errorf("group %d: %w", group, replica.ErrGroupUnknown)
		}
		stamp = m.stampsOf(group, of, before)
		proposal = [][]byte{machine.AppendClock(nil, now), data}
	}
	result, err := m.run.ProposeIn(ctx, group, stamp, ended, proposal...)
	if err != nil {
		return Answer{}, err
	}
	switch r := result.(type) {
	case store.Outcome:
		if r.Skipped {
			return Answer{}, replica.ErrUnknown
		}
		return Answer{Put: r.Put, AcqNs: r.AcqNs}, r.Err
	case cluster.Result:
		return Answer{Changed: r.Changed, Replica: r.Replica, Version: r.Version}, r.Err
	}
	return Answer{}, fmt.Errorf("BUG: group %d answers with a %T", group, result)
}
