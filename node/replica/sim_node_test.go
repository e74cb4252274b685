package replica

import (
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pentad-db/pentad/node/internal/clock"
)

// errPowerless unwinds what a process did when it ended.
var errPowerless = errors.New("the process has ended")

// simNode is a machine with a disk, and a process that runs at times.
type simNode struct {
	s        *simulation
	id       uint64
	core     *Core // nil while it is down
	run      int   // one more for each process; what an earlier one waits for never comes
	disk     *disk
	machines map[GroupID]*simMachine
	offset   time.Duration // of its wall clock
	synced   bool          // the kernel says that it is right
	began    time.Duration // its monotonic clock, likewise
	time     *clock.Clock  // of the process
	paused   time.Duration // until then
	woken    [5]bool       // by part + 2: its step is on the way
	steps    [5]func()     // likewise, and ticks: made once, as they are most of what happens
	ticks    func()
	flusher  *routine
	applier  *routine

	slow, full time.Duration // until then
	broken     bool          // the next write or sync fails
	refusing   bool          // the next entry is not applied, and those behind it would be
	fuse       int           // operations of the disk until an open is cut short; 0 for never
	flips      int           // of bits, of which the next open must tell
	scarred    bool          // there were some

	starts     []uint64  // of its process, as the directory knows them
	kept       *simImage // a copy of its directory
	copied     bool      // the directory was put back, and the replicas in it are not proven
	rolledBack bool      // it was put back once
}

func newSimNode(s *simulation, id uint64) *simNode {
	n := &simNode{s: s, id: id, disk: newDisk(), machines: map[GroupID]*simMachine{}}
	n.ticks = n.tick
	for i := range n.steps {
		n.steps[i] = func() { n.step(Part(i - 2)) }
	}
	return n
}

// routine runs steps that wait in their middle for a disk or a network.
type routine struct {
	next  func() (time.Duration, bool)
	stop  func()
	yield func(time.Duration) bool
	busy  bool
}

const stepIdle, stepDone = -1, 0

func newRoutine(step func() bool) *routine {
	r := &routine{}
	r.next, r.stop = iter.Pull(func(yield func(time.Duration) bool) {
		defer func() {
			if e := recover(); e != nil && e != errPowerless {
				panic(e)
			}
		}()
		r.yield = yield
		for {
			did := time.Duration(stepIdle)
			if step() {
				did = stepDone
			}
			if !yield(did) {
				return
			}
		}
	})
	return r
}

// wait lets time pass inside a step.
func (r *routine) wait(d time.Duration) {
	if !r.yield(max(d, 1)) {
		panic(errPowerless)
	}
}

// goOn steps a routine, or what it waited for is over.
func (n *simNode) goOn(r *routine, part Part) {
	r.busy = true
	d, _ := r.next()
	if d > 0 {
		n.after(d, func() { n.goOn(r, part) })
		return
	}
	r.busy = false
	if d == stepDone {
		n.wake(part)
	}
}

// after does something later, unless the process has ended by then.
func (n *simNode) after(d time.Duration, do func()) {
	n.s.order++
	n.s.events.push(simEvent{n.s.now + d, n.s.order, do, n, n.run})
}

func (n *simNode) wake(part Part) {
	if n.woken[part+2] {
		return
	}
	n.woken[part+2] = true
	n.after(time.Duration(n.s.rng.IntN(800))*time.Microsecond, n.steps[part+2])
}

// step is what a process does some time after it was woken.
func (n *simNode) step(part Part) {
	n.woken[part+2] = false
	switch {
	case part == Flusher && !n.flusher.busy:
		n.goOn(n.flusher, part)
	case part == Applier && !n.applier.busy:
		n.goOn(n.applier, part)
	case part >= 0:
		n.core.StepWorker(part)
	}
}

func (n *simNode) tick() {
	n.core.Tick()
	n.settle()
	n.after(50*time.Millisecond, n.ticks)
}

// up reports whether someone who asks gets an answer.
func (n *simNode) up() bool { return n.core != nil && n.paused <= n.s.now }

// operate is what the disk asks before it does something.
func (n *simNode) operate(operation string) error {
	s := n.s
	if n.fuse > 0 {
		if n.fuse--; n.fuse == 0 {
			panic(errPowerless)
		}
	}
	if n.core == nil || n.flusher.yield == nil {
		return nil // the log is being opened
	}
	if n.full > s.now && (operation == "write" || operation == "create") {
		s.counts["full"]++
		return syscall.ENOSPC
	}
	if s.bug == bugNoVote {
		n.forgetVotes()
	}
	if strings.HasPrefix(operation, "sync") && s.bug != bugNoSync {
		d := time.Duration(100+s.rng.IntN(2000)) * time.Microsecond
		if n.slow > s.now {
			d = time.Duration(20+s.rng.IntN(600)) * time.Millisecond
		}
		if s.rng.IntN(3000) == 0 && !s.healing {
			d = time.Duration(1+s.rng.IntN(13)) * time.Second
		}
		n.flusher.wait(d)
	}
	if s.bug == bugNoSync && operation == "sync" {
		return errNotSynced
	}
	if n.broken {
		n.broken = false
		s.counts["failed writes"]++
		return syscall.EIO
	}
	return nil
}

// start begins a process: it opens the log and starts the replicas that it has there.
func (n *simNode) start() {
	if n.core != nil {
		return
	}
	n.run++
	n.nextStart()
	n.woken, n.paused = [5]bool{}, 0
	if !n.s.healing && n.s.rng.IntN(12) == 0 {
		n.fuse = 1 + n.s.rng.IntN(5)
	}
	n.startClock()
	core, report := n.open()
	n.fuse = 0
	if core == nil { // it lost power while it opened
		n.s.counts["crashes"]++
		n.disk = n.disk.crash(n.s.rng)
		n.lose()
		n.after(time.Duration(n.s.rng.IntN(500))*time.Millisecond, n.start)
		return
	}
	if len(report.Damage)+len(report.Quarantined) > 0 && !n.scarred {
		n.s.violated("node %d: damage %v, quarantined %v", n.id, report.Damage, report.Quarantined)
	}
	if report.TornFile != "" {
		n.s.counts["torn tails"]++
	}
	if n.flips > 0 && len(report.Damage) > 0 {
		n.s.counts["damage found"]++
	}
	n.flips = 0
	core.retain, core.journal.fileBytes = n.s.config.retain, n.s.config.fileBytes
	core.journal.cacheBytes, core.journal.keepBytes = 200, n.s.config.keepBytes
	n.core = core
	n.flusher, n.applier = newRoutine(core.StepFlusher), newRoutine(core.StepApplier)
	groups := core.Groups()
	for _, g := range slices.Sorted(maps.Keys(groups)) {
		if report.Quarantined[g] != nil {
			n.s.counts["quarantined"]++
			n.s.admins[g].died(groups[g])
			n.drop(g)
			continue
		}
		if m := n.machines[g]; m == nil || m.replica != groups[g] {
			n.machines[g] = newSimMachine(n, g, groups[g])
		}
		switch err := core.Start(g, n.machines[g]); {
		case isFenced(err):
			n.fenced(g, groups[g], err)
			n.drop(g)
		case err != nil:
			n.s.violated("node %d: %v", n.id, err)
		}
	}
	n.after(time.Duration(n.s.rng.IntN(50))*time.Millisecond, n.tick)
}

func (n *simNode) open() (core *Core, report Report) {
	n.disk.fail = n.operate
	defer func() {
		if e := recover(); e != nil && e != errPowerless {
			panic(e)
		}
	}()
	run := n.run
	core, report, err := OpenCore(CoreOptions{Node: n.id, Files: n.disk, Network: n,
		Starts: n.starts, Copied: n.copied && n.s.bug != bugHalf, Trust: n.s.bug == bugNoProof,
		TrustTicks: 1,
		Workers:    n.s.config.workers, Wake: n.wake,
		Now:     func() time.Duration { return n.s.now },
		MayLead: func() bool { return n.s.bug == bugOwnClock || n.time.MayLead() },
		Fail: func(error) {
			n.s.after(0, func() {
				if n.run == run {
					n.crash(false)
					n.startSoon()
				}
			})
		}})
	if err != nil {
		n.s.violated("node %d: open: %v", n.id, err)
		return nil, report
	}
	return core, report
}

// crash ends the process, and with it, when the machine loses power, what was not synced.
func (n *simNode) crash(power bool) {
	if n.core == nil {
		return
	}
	n.s.counts["crashes"]++
	n.core = nil
	n.run++
	if !power {
		n.tellGone()
	}
	n.flusher.stop()
	n.applier.stop()
	for g, m := range n.machines {
		n.machines[g] = m.reopened(power)
	}
	if power {
		n.disk = n.disk.crash(n.s.rng)
	}
}

// tellGone lets some of the others see that the process has ended, as broken connections do.
func (n *simNode) tellGone() {
	s := n.s
	for _, other := range s.nodes {
		if other == n || s.rng.IntN(4) == 0 || s.cut[[2]uint64{n.id, other.id}] {
			continue
		}
		other.after(time.Duration(s.rng.IntN(60))*time.Millisecond, func() {
			if other.core != nil {
				s.counts["ends seen"]++
				other.core.NodeEnded(n.id)
			}
		})
	}
}

// lose makes the machines forget what was not synced.
func (n *simNode) lose() {
	for g, m := range n.machines {
		n.machines[g] = m.reopened(true)
	}
}

// refuses reports whether a machine cannot apply an entry. Its process ends soon after.
func (n *simNode) refuses() bool {
	if !n.refusing || n.s.healing {
		return false
	}
	n.refusing = false
	n.s.counts["refused entries"]++
	n.after(time.Duration(1+n.s.rng.IntN(100))*time.Millisecond, func() {
		n.crash(false)
		n.startSoon()
	})
	return true
}

func (n *simNode) startSoon() {
	n.after(time.Duration(n.s.rng.IntN(n.s.config.restart))*time.Millisecond, n.start)
}

// wipe replaces the disk by an empty one.
func (n *simNode) wipe() {
	n.crash(true)
	for g, m := range n.machines {
		if n.s.bug != bugSameID {
			n.s.admins[g].died(m.replica)
		}
	}
	n.disk, n.machines, n.scarred = newDisk(), map[GroupID]*simMachine{}, false
	n.copied = false
	n.startSoon()
}

func (n *simNode) drop(group GroupID) {
	n.core.Drop(group, func(err error) {
		if err == nil {
			delete(n.machines, group)
		} else if !errors.Is(err, ErrLogFailed) {
			n.s.violated("node %d: drop: %v", n.id, err)
		}
	})
}

// status returns what a replica says, nil for none that runs.
func (n *simNode) status(group GroupID) *Status {
	if !n.up() {
		return nil
	}
	st, err := n.core.Status(group)
	if err != nil {
		return nil
	}
	if isFenced(st.Err) {
		n.fenced(group, st.Replica, st.Err)
	} else if st.Err != nil && !errors.Is(st.Err, ErrLogFailed) &&
		!errors.Is(st.Err, errSimRefused) {
		n.s.violated("node %d: group %d: %v", n.id, group, st.Err)
	}
	return &st
}

// machine returns that of a replica that runs.
func (n *simNode) machine(group GroupID) *simMachine {
	if n.status(group) == nil {
		return nil
	}
	return n.machines[group]
}

// Send is part of Network.
func (n *simNode) Send(to uint64, group GroupID, message []byte) bool {
	s := n.s
	n.noteVote(group, message)
	if s.rng.Float64() < s.config.refuse {
		return false
	}
	for copies := 1; copies > 0; copies-- {
		if s.rng.Float64() < s.config.double {
			copies++
		}
		if s.rng.Float64() < s.config.loss {
			continue
		}
		d := time.Duration(200+s.rng.IntN(s.config.latency)) * time.Microsecond
		if s.rng.Float64() < s.config.late {
			d += time.Duration(s.rng.IntN(3000)) * time.Millisecond
		}
		s.after(d, func() {
			other := s.nodes[to-1]
			if other.core == nil || s.cut[[2]uint64{n.id, to}] {
				return
			}
			if other.paused <= s.now {
				other.core.Deliver(n.id, group, message)
			} else {
				other.after(0, func() { other.core.Deliver(n.id, group, message) })
			}
		})
	}
	return true
}

// Open is part of Network.
func (n *simNode) Open(_ context.Context, node uint64, f SnapshotFile) (io.ReadCloser, error) {
	other := n.s.nodes[node-1]
	link := &simFile{n: n, other: other, run: other.run}
	if err := link.wait(); err != nil {
		return nil, err
	}
	r, err := other.core.OpenSnapshot(f)
	if err != nil {
		return nil, err
	}
	link.ReadCloser = r
	n.s.counts["fetches"]++
	return link, nil
}

// simFile is a file of a snapshot on its way.
type simFile struct {
	io.ReadCloser
	n, other *simNode
	run      int
}

// wait lets the time of a round trip pass and says whether the other side is still there.
func (f *simFile) wait() error {
	s := f.n.s
	f.n.applier.wait(time.Duration(1+s.rng.IntN(20)) * time.Millisecond)
	a, b := [2]uint64{f.n.id, f.other.id}, [2]uint64{f.other.id, f.n.id}
	if f.other.run != f.run || !f.other.up() || s.cut[a] || s.cut[b] ||
		s.rng.Float64() < s.config.loss {
		return errors.New("the connection broke")
	}
	return nil
}

func (f *simFile) Read(p []byte) (int, error) {
	if err := f.wait(); err != nil {
		return 0, err
	}
	return f.ReadCloser.Read(p[:min(len(p), 400)])
}
