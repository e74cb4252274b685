package member

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing/synctest"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/clock"
	"github.com/pentad-db/pentad/node/store"
)

// simNode is a place with an address, a disk and a wall clock, where a process runs at times.
type simNode struct {
	s      *simulation
	place  int
	host   string
	dir    string   // of the present process, or of the next one
	disk   *simDisk // likewise
	clock  atomic.Int64
	proc   *simProcess // nil while there is none; of the goroutine that runs the plan
	since  time.Time   // when its directory was made: an empty one takes time to fill
	wakeAt time.Time   // when a process is to start
	backup *simBackup  // a copy of an earlier state of its disks, nil before there is one
}

// simProcess is a run of a node.
type simProcess struct {
	s       *simulation
	node    *simNode
	dir     string
	disk    *simDisk
	gone    chan struct{} // closed when it has ended: nothing that it does then is heard of
	member  atomic.Pointer[Member]
	groups  atomic.Pointer[simGroups]
	rumours atomic.Pointer[simGossip]
	self    atomic.Uint64
	fails   atomic.Pointer[error] // why it asked to be ended

	mu       sync.Mutex // guards what follows
	paused   chan struct{}
	machines map[cluster.GroupID]*simMachine
}

func (p *simProcess) id() cluster.NodeID { return cluster.NodeID(p.self.Load()) }

func (p *simProcess) ended() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// runs waits while the process is paused, and reports false when it is closing.
func (p *simProcess) runs(closing <-chan struct{}) bool {
	p.mu.Lock()
	paused := p.paused
	p.mu.Unlock()
	if paused != nil {
		select {
		case <-paused:
		case <-closing:
			return false
		}
	}
	select {
	case <-closing:
		return false
	default:
		return true
	}
}

func (p *simProcess) isPaused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused != nil
}

func (p *simProcess) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused == nil {
		p.paused = make(chan struct{})
	}
}

func (p *simProcess) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paused != nil {
		close(p.paused)
		p.paused = nil
	}
}

func newSimNode(s *simulation, place int) *simNode {
	n := &simNode{s: s, place: place, host: fmt.Sprintf("10.0.0.%d", place+1)}
	n.renew()
	return n
}

// renew gives the node an empty disk.
func (n *simNode) renew() {
	n.dir = n.s.newPath(fmt.Sprintf("node%d", n.place))
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		n.s.t.Fatal(err)
	}
	n.disk = newSimDisk(rand.New(rand.NewPCG(n.s.dice.Uint64(), 1)))
	n.disk.noSync = n.s.bug == bugNoSync
	n.since = time.Now()
}

// start begins a process.
func (n *simNode) start() {
	if n.proc != nil {
		return
	}
	s := n.s
	p := &simProcess{s: s, node: n, dir: n.dir, disk: n.disk, gone: make(chan struct{}),
		machines: map[cluster.GroupID]*simMachine{}}
	config := cluster.Config{TokenFile: s.token, Bind: n.host + ":5152",
		RaftBind: n.host + ":5151", HTTPListen: n.host + ":5150"}
	if n.place == 0 && s.first {
		s.first = false
		config.Init, config.Groups, config.Replicas = true, s.config.groups, s.config.replicas
	} else {
		for _, other := range s.nodes {
			if other != n {
				config.Join = append(config.Join, other.host+":5152")
			}
		}
	}
	n.proc, n.wakeAt = p, time.Time{}
	s.arrive(p)
	o := Options{Dir: n.dir, Cluster: config,
		Store: store.Options{SealRows: s.config.sealRows, HeadBytes: 64 << 20, Workers: 2,
			WallClock: clock.New(clock.Options{Machine: simTime{n}})},
		Log: s.log.With("node", n.place), Changed: func() {},
		Fail: func(err error) {
			s.log.Error("a process asks to be ended", "node", n.place, "err", err)
			p.fails.CompareAndSwap(nil, &err)
		}}
	if s.bug == bugLeap {
		o.Now = n.now
	}
	m, err := openIn(context.Background(), o, p)
	if err != nil {
		if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EIO) {
			s.violated("node %d does not start: %v", n.place, err)
		}
		s.count("failed starts")
		n.proc = nil
		s.depart(p)
		close(p.gone)
		n.wakeAt = time.Now().Add(upTo(s.dice, s.config.restart))
		return
	}
	p.member.Store(m)
	s.count("starts")
}

// now is the wall clock of the node.
func (n *simNode) now() int64 { return time.Now().UnixNano() + n.clock.Load() }

// simTime is what a process reads of its node: a wall clock that is wrong at times, and one that
// only counts.
type simTime struct{ n *simNode }

func (t simTime) Read() (wallNs, monotonicNs int64) {
	return t.n.now(), int64(time.Since(t.n.s.began))
}
func (t simTime) SleptNs() int64     { return 0 }
func (t simTime) Synchronized() bool { return false }

// end ends the process, and with power what was not synced.
func (n *simNode) end(power bool) {
	p := n.proc
	if p == nil {
		return
	}
	synctest.Wait() // nothing is half written that the disk has not been asked to write
	s := n.s
	kept := map[string]string{}
	p.mu.Lock()
	for group, m := range p.machines {
		if m.data != nil && m.kept != "" && power {
			id := p.groups.Load().Groups()[group]
			kept[filepath.Join(p.dir, "groups", dirOf(group, id), "store")] = m.kept
		}
	}
	p.mu.Unlock()
	n.dir = s.newPath(fmt.Sprintf("node%d", n.place))
	if err := copyTree(p.dir, n.dir, kept); err != nil {
		s.violated("copy the directory of node %d: %v", n.place, err)
	}
	n.disk = p.disk.after(power)
	s.depart(p)
	close(p.gone)
	n.proc = nil
	if !power {
		s.tellGone(p)
	}
	p.resume()
	s.closing.Go(func() {
		if m := p.member.Load(); m != nil {
			_ = m.Close(context.Background()) // what it says is of a directory that is left
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, m := range p.machines {
			_ = os.RemoveAll(m.kept) // memory only
		}
		_ = os.RemoveAll(p.dir)
	})
}

// simBackup is a copy of the disks of a node that does not run.
type simBackup struct {
	id   cluster.NodeID
	dir  string
	disk *simDisk
}

// backUp copies the disks of the node, which does not run.
func (n *simNode) backUp(id cluster.NodeID) {
	if n.backup != nil {
		_ = os.RemoveAll(n.backup.dir) // memory only
	}
	n.backup = &simBackup{id, n.s.newPath("backup"), n.disk.after(false)}
	if err := copyTree(n.dir, n.backup.dir, nil); err != nil {
		n.s.violated("back up node %d: %v", n.place, err)
	}
}

// putBack gives the node the state of its backup.
func (n *simNode) putBack() {
	_ = os.RemoveAll(n.dir) // memory only
	n.dir = n.s.newPath(fmt.Sprintf("node%d", n.place))
	if err := copyTree(n.backup.dir, n.dir, nil); err != nil {
		n.s.violated("put node %d back: %v", n.place, err)
	}
	n.disk = n.backup.disk.after(false)
	if n.s.dice.IntN(2) > 0 {
		return // as a snapshot of a whole disk does it
	}
	name := filepath.Join(n.dir, "cluster", simSelf)
	text, err := os.ReadFile(name)
	if err == nil {
		err = os.Remove(name)
	}
	if err == nil {
		err = os.WriteFile(name, text, 0o644)
	}
	if err != nil {
		n.s.violated("put node %d back: %v", n.place, err)
	}
}

// simSelf is the file that says who a node is, and knows a copy of itself.
const simSelf = "NODE"

// tellGone lets some of the others observe that the process has ended, as broken connections do.
func (s *simulation) tellGone(p *simProcess) {
	for _, other := range s.nodes {
		if other.proc == nil || s.dice.IntN(4) == 0 {
			continue
		}
		q := other.proc
		time.AfterFunc(time.Duration(s.dice.IntN(60))*time.Millisecond, func() {
			if there := q.groups.Load(); there != nil && !q.ended() {
				there.core.NodeEnded(uint64(p.id()))
			}
		})
	}
}

// wipe gives the node an empty disk and a process that joins as a new node.
func (n *simNode) wipe() {
	n.s.wiped[n.proc.id()] = true
	n.end(true)
	_ = os.RemoveAll(n.dir) // memory only
	if n.backup != nil {
		_ = os.RemoveAll(n.backup.dir) // likewise
		n.backup = nil
	}
	n.renew()
}

// simLog collects the lines of all nodes, in the time of the simulation.
type simLog struct {
	mu    sync.Mutex // guards lines
	lines []string
}

const simLogLines = 4000

func (l *simLog) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) == simLogLines {
		l.lines = append(l.lines[:0], l.lines[simLogLines/2:]...)
	}
	l.lines = append(l.lines, string(text))
	return len(text), nil
}

func (l *simLog) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(
		_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.String("at", a.Value.Time().UTC().Format("15:04:05.000"))
		}
		return a
	}}))
}
