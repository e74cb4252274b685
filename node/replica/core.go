package replica

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/node/internal/durable"
	pb "go.etcd.io/raft/v3/raftpb"
)

// Sizes and counts; those of the library are in group.go.
const (
	electionTicks = 10
	// maxFlushPart bounds the entries of one flush, and with it the time that it takes.
	maxFlushPart = 16 << 20
	// minRetained and maxRetained bound what the log keeps of a group for followers that lag.
	minRetained, maxRetained, allRetained = 4 << 20, 64 << 20, 1 << 30
	minCached, maxCached, allCached       = 256 << 10, 4 << 20, 8 << 20
	// statusTicks is how often leaders say what their followers have.
	statusTicks = 4
	// hurryTicks is how long time passes faster for a group that lost its leader: enough for two
	// elections.
	hurryTicks = 2 * electionTicks
	// patienceTicks is how long a replica that may not lead waits for another one to do it: 3 s.
	patienceTicks = 60
	// transferTicks is how long the next leader of a group may take: 200 ms, in which the group
	// takes no writes.
	transferTicks = 4
)

// Network is how a core reaches other nodes.
type Network interface {
	// Send takes over the message or returns false, and never waits. What it takes may get lost.
	Send(node uint64, group GroupID, message []byte) bool
	// Open reads a file of a snapshot that another node holds.
	Open(ctx context.Context, node uint64, file SnapshotFile) (io.ReadCloser, error)
}

// CoreOptions of a core. Node, Files and Network are needed.
type CoreOptions struct {
	Node    uint64
	Files   durable.Folder
	Network Network
	// Now is a clock that never goes back; default is the time since the core was made.
	Now func() time.Duration
	// Workers share the groups; default 1.
	Workers int
	// Groups that are expected, by which memory and log are shared out; default 16.
	Groups int
	// QuotaBytes bounds what waits for the disk and for machines; default 256 MiB. Above it
	// proposals are ErrOverloaded and messages that bring entries are dropped.
	QuotaBytes int64
	// RetainBytes of log are kept of each group for followers that lag; default by Groups, 4 MiB to
	// 64 MiB. FileBytes is the size of a file of the log; default 64 MiB. A simulator makes both
	// small, so that it does in a minute what takes a day.
	RetainBytes, FileBytes int64
	// Wake is told which part has something to do; default nothing. Called with no lock held but
	// that of a queue, it must not block or call back.
	Wake func(Part)
	// Fail is called once, when the log has failed or stalls for 10 s: the process must end.
	Fail func(error)
	// Starts are the newest starts of this node's process, oldest first and this one last, by
	// which others notice that the directory was put back from an older state: each is higher than
	// the one before in its upper 32 bits, and drawn in the others. Default none, which others do
	// not check.
	Starts []uint64
	// Copied says that the directory may be a copy or put back: then all other voters of a group
	// have to confirm that the replica here knows what it promised, and not only half of them.
	Copied bool
	// Trust says that the operator vouches for the directory: what others remember of the replicas
	// here does not count. They still wait for what all other voters have, so that the newest of
	// several copies is known before there is a leader: TrustTicks at most, default 2 min. Then
	// half of them are enough, as the others may be lost.
	Trust      bool
	TrustTicks int
	// Elected is told when the replica of a group here hears of a leader that it did not follow
	// before, itself included; default nothing. It must not block or call back.
	Elected func(group GroupID)
	// MayLead reports whether replicas here may lead; default is yes. While it says no, those that
	// lead let others do it, and none campaigns before its group has had no leader for 3 s. It must
	// not block.
	MayLead func() bool
}

// Part is what one goroutine steps: a worker, the flusher or one of the appliers.
type Part int

// Parts; a worker is its number, from 0 on.
const (
	Flusher Part = -1
	Applier Part = -2
)

// Core is all of a node's replicas, driven in steps: Tick lets time pass, Deliver hands in what
// came from other nodes, and StepWorker, StepFlusher and StepApplier do what waits, and say whether
// there was anything. One goroutine at a time may step a worker, one the flusher; appliers may run
// side by side, each on another group. Answers come through callbacks, which must not block.
type Core struct {
	opt     CoreOptions
	journal *journal
	boot    uint64 // no other process or run that had this log had this number
	nonce   uint64 // drawn, for requests whose answers may come to another process
	workers []*worker
	flusher flusher
	applier applier
	pending atomic.Int64  // bytes that wait for the disk or a machine
	stalled atomic.Bool   // the disk is not answering, or is full
	watched time.Duration // when that was looked at last, by who ticks
	odd     bool          // likewise: the last tick was an odd one
	counter atomic.Uint64
	retain  int64 // bytes of log that are kept of one group
	snaps   outgoing
	failing sync.Once

	mu     sync.RWMutex // guards groups, those of workers, fresh and closed
	groups map[GroupID]*group
	fresh  map[GroupID]uint64 // replicas that were created by this process, by their groups
	closed bool
}

// worker has the groups whose number it is, modulo the number of workers.
type worker struct {
	core   *Core
	part   Part
	groups []*group // in the order of their numbers; changed by making another

	mu    sync.Mutex // guards what follows
	dirty []*group
	ticks int  // that have passed and not been seen to
	due   bool // they are to be
	rests bool // all groups rest, see group.isIdle
}

// OpenCore opens the shared log. No group runs before it is started.
func OpenCore(opt CoreOptions) (*Core, Report, error) {
	if opt.Node == 0 || opt.Node >= 1<<40 || opt.Files == nil || opt.Network == nil {
		return nil, Report{}, errors.New("open replicas: Node, Files or Network is missing")
	}
	opt.Workers, opt.Groups = max(opt.Workers, 1), max(opt.Groups, 16)
	if opt.QuotaBytes <= 0 {
		opt.QuotaBytes = 256 << 20
	}
	if opt.RetainBytes <= 0 {
		opt.RetainBytes = min(max(int64(allRetained/opt.Groups), minRetained), maxRetained)
	}
	if opt.FileBytes <= 0 {
		opt.FileBytes = fileBytes
	}
	if opt.TrustTicks <= 0 {
		opt.TrustTicks = trustTicks
	}
	if opt.Now == nil {
		start := time.Now()
		opt.Now = func() time.Duration { return time.Since(start) }
	}
	if opt.Wake == nil {
		opt.Wake = func(Part) {}
	}
	if opt.Elected == nil {
		opt.Elected = func(GroupID) {}
	}
	if opt.Fail == nil {
		opt.Fail = func(error) {}
	}
	if opt.MayLead == nil {
		opt.MayLead = func() bool { return true }
	}
	var drawn [8]byte
	if _, err := rand.Read(drawn[:]); err != nil {
		return nil, Report{}, fmt.Errorf("open replicas: %w", err)
	}
	c := &Core{opt: opt, groups: map[GroupID]*group{}, fresh: map[GroupID]uint64{},
		nonce:  binary.LittleEndian.Uint64(drawn[:]),
		retain: opt.RetainBytes}
	j := &journal{fileBytes: opt.FileBytes, keepBytes: 2 * allRetained,
		cacheBytes: min(max(allCached/opt.Groups, minCached), maxCached)}
	j, report, err := openJournal(opt.Files, j)
	if err != nil {
		return nil, report, err
	}
	c.journal, c.boot = j, j.seq
	c.flusher.core, c.applier.core = c, c
	c.snaps.live = map[GroupID]*handle{}
	for i := range opt.Workers {
		c.workers = append(c.workers, &worker{core: c, part: Part(i)})
	}
	return c, report, nil
}

// Groups returns the replicas that the log has on this node, by their groups.
func (c *Core) Groups() map[GroupID]uint64 {
	out := map[GroupID]uint64{}
	for _, g := range c.journal.all() {
		g.mu.Lock()
		if !g.dropped && g.id.replica != 0 {
			out[g.group] = g.id.replica
		}
		g.mu.Unlock()
	}
	return out
}

// Create notes a replica of a group in the log; done is called when that is durable. The first
// replicas of a group are created with the same voters, every later one with none: it gets its
// state from the leader. A replica that the owner believes to be here and that Groups does not
// name was lost, and must not be created again: give the node a new id.
func (c *Core) Create(group GroupID, replica uint64, voters []uint64, done func(error)) {
	g := c.journal.add(group)
	g.mu.Lock()
	old, live := g.id.replica, g.id.replica != 0 && !g.dropped
	g.mu.Unlock()
	if live || replica <= old || Node(replica) != c.opt.Node || group == NoGroup {
		done(fmt.Errorf("create replica %x of %v after replica %x: %w", replica, groupName(group),
			old, ErrWasHere))
		return
	}
	id := identity{replica: replica, config: config{state: &pb.ConfState{Voters: voters}}}
	f := frame{kind: kindCreated}
	if len(voters) > 0 {
		// As if a snapshot of index 1 had been installed everywhere.
		f.index, f.term, id.term, id.commit, id.config.index = 1, 1, 1, 1, 1
		id.config.newest = newestOf(nil, voters)
	}
	f.payload = appendIdentity(nil, &id)
	c.mu.Lock()
	c.fresh[group] = replica
	c.mu.Unlock()
	c.flusher.add(&job{records: []record{{group: g, frame: f}}, sync: true, done: done})
}

// Start lets a replica take part. The machine is used until the core is closed or the group
// dropped.
func (c *Core) Start(group GroupID, m Machine) error {
	log := c.journal.lookup(group)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return ErrClosed
	case log == nil:
		return fmt.Errorf("start %v: %w: create it first", groupName(group), ErrGroupUnknown)
	case c.groups[group] != nil:
		return fmt.Errorf("start %v: it runs already", groupName(group))
	}
	g, err := newGroup(c, log, m)
	if err != nil {
		return fmt.Errorf("start %v: %w", groupName(group), err)
	}
	c.groups[group] = g
	w := g.worker
	at, _ := slices.BinarySearchFunc(w.groups, group, byNumber)
	w.groups = slices.Insert(slices.Clone(w.groups), at, g)
	g.post(func() {}) // a group with one voter has something to do at once
	return nil
}

// Drop stops a replica for ever and frees its part of the log; done is called when that is
// durable. Its machine's state is the owner's to remove, afterwards.
func (c *Core) Drop(group GroupID, done func(error)) {
	log := c.journal.lookup(group)
	c.mu.Lock()
	g := c.groups[group]
	delete(c.groups, group)
	if g != nil {
		w := g.worker
		at, _ := slices.BinarySearchFunc(w.groups, group, byNumber)
		w.groups = slices.Delete(slices.Clone(w.groups), at, at+1)
	}
	c.mu.Unlock()
	if log == nil {
		done(fmt.Errorf("drop %v: %w", groupName(group), ErrGroupUnknown))
		return
	}
	log.mu.Lock()
	f := frame{kind: kindDropped, payload: u64(log.id.replica)}
	log.mu.Unlock()
	write := func() {
		c.flusher.add(&job{records: []record{{group: log, frame: f}}, sync: true, done: done})
	}
	if g == nil {
		write()
		return
	}
	// Through its worker and its applier, so that nothing of it comes after.
	g.post(func() {
		g.stop(ErrGroupUnknown)
		if h := c.snaps.get(group); h != nil {
			c.snaps.discard(group, h)
		}
		g.applies(func() { write() })
	})
}

func (c *Core) lookup(group GroupID) (*group, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	g := c.groups[group]
	switch {
	case c.closed:
		return nil, fmt.Errorf("%v: %w", groupName(group), ErrClosed)
	case g == nil:
		return nil, fmt.Errorf("%v: %w", groupName(group), ErrGroupUnknown)
	}
	return g, nil
}

// Tick lets 50 ms pass for every group. Where all groups of a worker rest, every second tick passes
// together with the next one. Other ticks that there was no time for are not made up for.
func (c *Core) Tick() {
	c.watchDisk()
	c.snaps.expire(c)
	c.odd = !c.odd
	for _, w := range c.workers {
		w.mu.Lock()
		w.ticks = min(w.ticks+1, restTicks)
		w.due = !c.odd || !w.rests
		due := w.due
		w.mu.Unlock()
		if due {
			c.opt.Wake(w.part)
		}
	}
	c.flusher.retry()
}

// IsIdle reports whether the next two ticks may come together, for the one who ticks to know.
func (c *Core) IsIdle() bool {
	for _, w := range c.workers {
		w.mu.Lock()
		rests := w.rests
		w.mu.Unlock()
		if !rests {
			return false
		}
	}
	return !c.odd && c.flusher.began.Load() == 0
}

// NodeEnded says that the process of another node has ended: groups that it led need not wait until
// they miss it. Nothing comes of a mistake, as replicas that still hear the leader do not elect
// another.
func (c *Core) NodeEnded(node uint64) {
	for _, w := range c.workers {
		for _, g := range c.groupsOf(w) {
			g.post(func() { g.expireLeader(node) })
		}
	}
}

// Deliver hands in a message that another node sent for a group, and takes it over: its entries are
// kept where they lie. It may be anything: what no peer of ours would send is dropped, and a group
// that it would break stops.
func (c *Core) Deliver(from uint64, group GroupID, message []byte) {
	g, err := c.lookup(group)
	if err != nil || c.pending.Load() > c.opt.QuotaBytes && len(message) > 1024 {
		return
	}
	if isProof(message) {
		c.deliverProof(g, from, message)
		return
	}
	m, ok := parseMessage(message)
	if !ok || m.GetTo() != g.replica || Node(m.GetFrom()) != from {
		return
	}
	c.pending.Add(int64(len(message)))
	g.postLater(func() {
		c.pending.Add(-int64(len(message)))
		g.receive(m)
	}, !g.resting.Load() || !isBeat(m))
}

func (c *Core) deliverProof(g *group, from uint64, message []byte) {
	p, ok := parseProof(message)
	if ok && Node(p.to) == c.opt.Node && Node(p.from) == from && from != c.opt.Node {
		g.post(func() { g.receiveProof(&p) })
	}
}

// StepWorker does what waits for the groups of one worker.
func (c *Core) StepWorker(part Part) bool {
	w := c.workers[part]
	w.mu.Lock()
	dirty, ticks, rest := w.dirty, 0, w.rests
	if w.dirty = nil; w.due {
		ticks, w.ticks, w.due = w.ticks, 0, false
	}
	w.mu.Unlock()
	if ticks > 0 {
		rest = true
		for _, g := range c.groupsOf(w) {
			g.process(ticks)
			rest = rest && g.resting.Load()
		}
	}
	for _, g := range dirty {
		g.process(0)
		rest = rest && g.resting.Load()
	}
	w.mu.Lock()
	w.rests = rest
	w.mu.Unlock()
	return len(dirty) > 0 || ticks > 0
}

// groupsOf returns the groups of a worker in the order of their numbers, not to be changed.
func (c *Core) groupsOf(w *worker) []*group {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return w.groups
}

func byNumber(g *group, number GroupID) int { return cmp.Compare(g.id, number) }

// Close stops all groups. Everything in progress is answered. Nothing may be stepped during it or
// after it.
func (c *Core) Close() error {
	c.mu.Lock()
	c.closed = true
	groups := c.groups
	c.groups = map[GroupID]*group{}
	for _, w := range c.workers {
		w.groups = nil
	}
	c.mu.Unlock()
	for _, g := range groups {
		g.post(func() { g.stop(ErrClosed) })
		g.process(0)
	}
	c.flusher.drain()
	c.snaps.close()
	return c.journal.close()
}
