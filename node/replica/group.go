package replica

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// What the library may have in progress for one group.
const (
	maxMessageBytes     = 1 << 20
	maxInflightMessages = 256
	maxInflightBytes    = 16 << 20
	maxApplyBytes       = 8 << 20
	maxUncommittedBytes = 80 << 20
	// maxProposalBytes fits the largest batch that a node takes: 64 MiB of payloads, and 36 bytes
	// for the keys of each of 65,536 records.
	maxProposalBytes = 72 << 20
)

// group is one replica. Its worker alone touches the library's node and all fields but those
// named; others post what they want.
type group struct {
	core    *Core
	worker  *worker
	log     *groupLog
	id      GroupID
	replica uint64
	machine Machine // used by tasks
	status  atomic.Pointer[Status]
	resting atomic.Bool // see rests; as of the last time that its worker looked

	mu     sync.Mutex // guards what follows
	inbox  []func()
	queued bool     // among the dirty ones of its worker
	woken  bool     // and the worker knows
	spare  []func() // memory of an inbox that was emptied; its worker's own

	tasks  []func() // applier.mu guards it and busy
	busy   bool
	failed error // of the machine, which takes no more entries then; the tasks' own

	node        *raft.RawNode
	epoch       int   // one more each time the node is made again; answers to an older one are void
	err         error // why it has stopped
	config      config
	term, vote  uint64 // that were given to the log
	commit      uint64 // likewise
	leads       bool
	ledTerm     uint64 // in which it was the leader when it last looked; 0 for none
	applied     uint64
	appliedTerm uint64   // of the last entry that was applied since the start; 0 for none
	early       []func() // proposals that wait for the tenure
	ticks       int
	heardAt     int    // ticks when a leader was heard last
	orphanOf    uint64 // the leader whose process had ended when it was looked for last
	hurry       int    // ticks for which time passes faster
	cutting     uint64 // the log is to be cut there
	flushing    int    // writes that the log has not answered
	syncing     bool
	waiters     map[uint64]*waiter
	reads       map[uint64]*read
	told        map[uint64]uint64 // by replica, the commit index of the last append to it
	changes     []uint64          // indexes of changes of members that are not applied
	installing  bool
	uninstall   func()        // ends an install in progress
	deferred    []*pb.Message // appends that wait for the install
	makingSnap  bool
	proving     proving
	known       promises    // what other replicas are known to have promised
	noted       promises    // what of it the log was given
	transferred int         // how many transfers were begun
	handsOver   int         // ticks until which a transfer of leadership may last
	keeps       int         // ticks until which it does not give its leadership away again
	wroteAt     int         // ticks when entries were last given to the log
	reply       *pb.Message // to a heartbeat, which goes with the next ticks
	ticking     bool        // these are ticks
}

// waiter waits for what it proposed.
type waiter struct {
	term  uint64
	bytes int64
	done  func(any, error)
}

// storage is the log as the library sees it.
type storage struct {
	*groupLog
	g *group
}

func (s storage) Snapshot() (*pb.Snapshot, error) { return s.g.snapshot() }

// InitialState knows that what was applied was committed: of the commit index, the log may have
// an older note.
func (s storage) InitialState() (*pb.HardState, *pb.ConfState, error) {
	hs, cs, err := s.groupLog.InitialState()
	hs.Commit = new(max(hs.GetCommit(), s.g.applied))
	return hs, cs, err
}

func newGroup(c *Core, log *groupLog, m Machine) (*group, error) {
	g := &group{core: c, log: log, id: log.group, machine: m,
		worker:  c.workers[int(log.group)%len(c.workers)],
		waiters: map[uint64]*waiter{}, reads: map[uint64]*read{}, told: map[uint64]uint64{},
		uninstall: func() {}}
	applied := m.Applied()
	if err := g.finishInstall(applied); err != nil {
		return nil, err
	}
	log.mu.Lock()
	g.replica = log.id.replica
	damage, unknown := log.damage, log.dropped || log.id.replica == 0
	fenced := log.fenced
	cut, last := log.cutIndex, log.last()
	log.mu.Unlock()
	switch {
	case unknown:
		return nil, ErrGroupUnknown
	case damage != nil:
		return nil, fmt.Errorf("%w: %w", ErrStopped,
			&DamageError{Group: g.id, File: "log", Reason: damage.Error()})
	case fenced != nil && !c.opt.Trust:
		return nil, fmt.Errorf("%w: %w: %w", ErrStopped, ErrRolledBack, fenced)
	case applied > last || applied < cut && cut > 1:
		return nil, fmt.Errorf("%w: its state is at entry %d, and its log has %d to %d; the "+
			"cluster replaces it from the other replicas", ErrStopped, applied, cut+1, last)
	}
	if err := g.begin(); err != nil {
		return nil, err
	}
	if fenced != nil {
		c.flusher.addLater(&job{records: []record{{group: log, frame: frame{kind: kindFenced}}},
			done: func(error) {}})
	}
	g.prove(c.fresh[log.group] == g.replica)
	return g, nil
}

// finishInstall notes that a snapshot was installed when a crash came before the log had it.
func (g *group) finishInstall(applied uint64) error {
	g.log.mu.Lock()
	defer g.log.mu.Unlock()
	f := g.log.installing
	if f == nil || f.index != applied || applied <= g.log.cutIndex {
		return nil
	}
	if i := f.index - g.log.first; f.index <= g.log.last() && g.log.entries[i].term == f.term {
		return nil // that install failed, and the entries came since
	}
	done := *f
	done.kind = kindInstalled
	if err := g.log.note(&done, position{}); err != nil {
		return err
	}
	g.core.flusher.add(&job{records: []record{{group: g.log, frame: done}}, sync: true,
		done: func(error) {}})
	return nil
}

// begin makes the library's node from what the log has.
func (g *group) begin() error {
	g.log.mu.Lock()
	g.config = g.log.id.config
	g.term, g.vote, g.commit = g.log.id.term, g.log.id.vote, g.log.id.commit
	cut := g.log.cutIndex
	g.log.mu.Unlock()
	g.applied = max(g.machine.Applied(), cut)
	// The members may be noted as of an earlier entry than the state of the machine.
	applied := g.applied
	if conf := g.log.firstConfAfter(g.config.index, applied); conf != 0 {
		applied = conf - 1
	}
	g.changes = nil
	for at := g.log.firstConfAfter(applied, math.MaxUint64); at != 0; {
		g.changes = append(g.changes, at)
		at = g.log.firstConfAfter(at, math.MaxUint64)
	}
	return g.guard(func() error {
		var err error
		g.node, err = raft.NewRawNode(&raft.Config{
			ID: g.replica, ElectionTick: electionTicks, HeartbeatTick: restTicks,
			Storage: storage{g.log, g}, Applied: applied, AsyncStorageWrites: true,
			MaxSizePerMsg: maxMessageBytes, MaxCommittedSizePerReady: maxApplyBytes,
			MaxUncommittedEntriesSize: maxUncommittedBytes,
			MaxInflightMsgs:           maxInflightMessages, MaxInflightBytes: maxInflightBytes,
			CheckQuorum: true, PreVote: true, DisableProposalForwarding: true,
			StepDownOnRemoval: true, Logger: quiet{},
		})
		return err
	})
}

// guard turns a panic of the library, which is how it meets a log or a message that cannot be,
// into an error.
func (g *group) guard(f func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case runtime.Error:
			panic(r)
		case error:
			err = fmt.Errorf("%w: %w", ErrStopped, r)
		default:
			err = fmt.Errorf("%w: %v", ErrStopped, r)
		}
	}()
	return f()
}

// post lets the worker do something with the group.
func (g *group) post(f func()) { g.postLater(f, true) }

// postLater is post of what may wait, unless wake is set, until the worker is woken.
func (g *group) postLater(f func(), wake bool) {
	g.mu.Lock()
	g.inbox = append(g.inbox, f)
	queued, woken := g.queued, g.woken
	g.queued, g.woken = true, woken || wake
	g.mu.Unlock()
	w := g.worker
	if !queued {
		w.mu.Lock()
		w.dirty = append(w.dirty, g)
		w.mu.Unlock()
	}
	if wake && !woken {
		g.core.opt.Wake(w.part)
	}
}

// process does what was posted, lets ticks pass, and then does what the library has ready.
func (g *group) process(ticks int) {
	g.mu.Lock()
	inbox, done := g.inbox, 0
	g.inbox, g.queued, g.woken = g.spare, false, false
	g.mu.Unlock()
	g.ticking = ticks > 0
	err := g.guard(func() error {
		for done < len(inbox) {
			done++
			inbox[done-1]()
		}
		for range ticks {
			g.tick()
		}
		if ticks > 0 {
			g.sendReply()
		}
		g.releaseProposals()
		return g.ready()
	})
	if err != nil {
		g.stop(err)
		for _, f := range inbox[done:] { // they answer that it has stopped
			f()
		}
		g.releaseProposals()
	}
	clear(inbox)
	g.spare = inbox[:0]
	g.resting.Store(g.isIdle())
	if g.leadershipChanged() {
		g.publishStatus()
	}
}

// ready hands on what the library wants done. A candidate asks for votes when its own is durable:
// the votes of others are enough for the library, and who led a term and forgot it with a loss of
// power could lead it again, with other entries.
func (g *group) ready() error {
	for g.err == nil && g.proving.done && g.node.HasReady() {
		rd := g.node.Ready()
		for _, state := range rd.ReadStates {
			g.readAt(state)
		}
		var asking []*pb.Message
		for _, m := range rd.Messages {
			switch {
			case m.GetTo() == raft.LocalAppendThread:
				m.Responses = append(m.Responses, asking...)
				g.append(m)
			case m.GetTo() == raft.LocalApplyThread:
				g.apply(m)
			case m.GetType() == pb.MsgVote:
				asking = append(asking, m)
			case g.passesOver(m) || g.keepsReply(m):
			default:
				g.send(m)
			}
		}
	}
	return nil
}

// passesOver reports whether a message tells a follower only that more is committed of what it was
// sent, while other entries are in progress, which will bring the same along: under load, every
// second message is such a one. If they are lost, the library asks the follower once more, sooner
// or later with a commit index that it has told before, and that goes. A follower that a change of
// members removes gets nothing after it, so while one is in progress everything goes.
func (g *group) passesOver(m *pb.Message) bool {
	if m.GetType() != pb.MsgApp {
		return false
	}
	known := g.told[m.GetTo()]
	g.told[m.GetTo()] = m.GetCommit()
	return len(m.GetEntries()) == 0 && known < m.GetCommit() && m.GetCommit() < m.GetIndex() &&
		len(g.changes) == 0
}

// append hands entries and votes to the log. Its answers go out when they are durable.
func (g *group) append(m *pb.Message) {
	switch {
	case g.installing:
		g.deferred = append(g.deferred, m)
	case !raft.IsEmptySnap(m.GetSnapshot()):
		g.install(m)
	default:
		g.write(m, nil)
	}
}

func (g *group) write(m *pb.Message, before []record) {
	j := &job{records: append(before, g.hardState(m, m.GetCommit())...), sync: len(before) > 0}
	j.sync = j.sync || m.GetTerm() != 0 && (m.GetTerm() != g.term || m.GetVote() != g.vote)
	if m.GetTerm() != 0 {
		g.term, g.vote, g.commit = m.GetTerm(), m.GetVote(), m.GetCommit()
	}
	g.noteChanges(m.GetEntries())
	for _, e := range m.GetEntries() {
		j.records = append(j.records, record{group: g.log, entry: e})
		j.bytes += len(e.GetData())
		j.sync = true
		g.wroteAt = g.ticks
	}
	epoch, responses := g.epoch, m.GetResponses()
	if !j.sync && g.flushing == 0 {
		// All that the responses depend on is durable, and what is noted may come later.
		j.done = func(error) {}
		g.core.flusher.addLater(j)
		g.respond(responses)
		return
	}
	g.flushing++
	g.core.pending.Add(int64(j.bytes))
	j.done = func(err error) {
		g.core.pending.Add(-int64(j.bytes))
		g.post(func() {
			g.flushing--
			if err != nil {
				g.stop(err)
			}
			if epoch == g.epoch {
				g.respond(responses)
			}
		})
	}
	g.core.flusher.add(j)
}

// noteChanges notes the changes of members among entries that are written, in the place of what the
// log had there.
func (g *group) noteChanges(entries []*pb.Entry) {
	for _, e := range entries {
		for n := len(g.changes); n > 0 && g.changes[n-1] >= e.GetIndex(); n-- {
			g.changes = g.changes[:n-1]
		}
		if e.GetType() != pb.EntryNormal {
			g.changes = append(g.changes, e.GetIndex())
		}
	}
}

func (g *group) hardState(m *pb.Message, commit uint64) []record {
	if raft.IsEmptyHardState(&pb.HardState{Term: m.Term, Vote: m.Vote, Commit: m.Commit}) {
		return nil
	}
	return []record{{group: g.log, frame: frame{kind: kindHardState, term: m.GetTerm(),
		index: commit, payload: u64(m.GetVote())}}}
}

func (g *group) respond(responses []*pb.Message) {
	for _, m := range responses {
		if g.err != nil {
			return
		}
		if m.GetTo() == g.replica {
			_ = g.node.Step(m) // an error says that it is out of date
		} else {
			g.send(m)
		}
	}
}

// receive takes a message of a peer.
func (g *group) receive(m *pb.Message) {
	if g.err != nil || m.GetType() == pb.MsgTimeoutNow && !g.core.MayLead() {
		return
	}
	if g.offersLess(m) || g.fenceIfRolledBack(m) {
		return
	}
	g.observe(m)
	if !g.proving.done {
		g.receiveUnproven(m)
		return
	}
	if g.refusesVote(m) {
		return
	}
	switch m.GetType() {
	case pb.MsgApp, pb.MsgHeartbeat, pb.MsgSnap:
		g.heardAt = g.ticks
	}
	if m.GetType() != pb.MsgSnap {
		_ = g.node.Step(m) // an error says that it is out of date
		return
	}
	// The slot is for the install that may come of it.
	if g.installing || !g.core.snaps.enter() {
		return
	}
	_ = g.node.Step(m)
	_ = g.ready()
	if !g.installing {
		g.core.snaps.leave()
	}
}

// send sends a message of the library. Those that ask for votes stay here while it must not
// campaign.
func (g *group) send(m *pb.Message) {
	if t := m.GetType(); (t == pb.MsgPreVote || t == pb.MsgVote) && !g.campaigns() {
		return
	}
	if g.core.opt.Network.Send(Node(m.GetTo()), g.id, appendMessage(m)) {
		return
	}
	g.node.ReportUnreachable(m.GetTo())
	if m.GetType() == pb.MsgSnap {
		g.node.ReportSnapshot(m.GetTo(), raft.SnapshotFailure)
	}
}

// leadershipChanged answers those who wait for what another leader decides now.
func (g *group) leadershipChanged() bool {
	if g.err != nil {
		return false
	}
	st := g.node.BasicStatus()
	leads := st.RaftState == raft.StateLeader
	held := leads && st.GetTerm() == g.ledTerm
	if len(g.waiters) > 0 && !held {
		lost := func(w *waiter) bool { return !leads || w.term != st.GetTerm() }
		g.loseWaiters(g.notLeader(), lost)
	}
	if g.leads && !leads {
		g.lose(g.notLeader())
	}
	g.leads, g.ledTerm = leads, 0
	if leads {
		g.ledTerm = st.GetTerm()
	}
	old := g.status.Load()
	return old.Leader != st.Lead || old.Term != st.GetTerm() || old.Applied != g.applied
}

func (g *group) notLeader() error {
	return &NotLeaderError{Group: g.id, Leader: g.node.BasicStatus().Lead}
}

func u64(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

// quiet is a logger of the library: what it says is of no use without its source, and its panics
// are met by guard.
type quiet struct{}

func (quiet) Debug(...any)                   {}
func (quiet) Debugf(string, ...any)          {}
func (quiet) Error(...any)                   {}
func (quiet) Errorf(string, ...any)          {}
func (quiet) Info(...any)                    {}
func (quiet) Infof(string, ...any)           {}
func (quiet) Warning(...any)                 {}
func (quiet) Warningf(string, ...any)        {}
func (quiet) Fatal(v ...any)                 { panic(fmt.Sprint(v...)) }
func (quiet) Fatalf(format string, v ...any) { panic(fmt.Sprintf(format, v...)) }
func (quiet) Panic(v ...any)                 { panic(fmt.Sprint(v...)) }
func (quiet) Panicf(format string, v ...any) { panic(fmt.Sprintf(format, v...)) }
