// Package member is a node's part in a cluster: who it is, the replicas that it holds, and what it
// does for the cluster while it leads a group.
//
// It joins node/cluster, which knows who is where, and node/replica, which keeps replicas the same,
// with the stores that groups of slots have. It knows nothing of queries, and of HTTP only what
// nodes ask each other. Its main type is [Member], whose goroutines are those of the replicas and
// of gossip, one that makes this node do what the view says, one that plans for the whole cluster
// while this node leads the meta group, one that closes groups, and one for each change of members
// that is under way.
package member

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/store"
)

// Feature levels of what this program does in a cluster. 1: first; 2: groups can be split; 3: 256
// devices share a slot, so that who runs less looks for records elsewhere; 4: payloads of commands
// are packed as decimals; 5: commands for other nodes go over the connections of groups; 6: blocks
// of segments have 8,192 rows. A new cluster begins at the least that this program runs, so that
// nodes of older programs can join it that run it, too.
const (
	firstFeature = 6
	lastFeature  = 6
)

// rejoinEvery is how often seeds are asked: nodes are often started at one time, and the first of
// them is not there yet.
const rejoinEvery = 5 * time.Second

// Options of a member. All but Log are needed.
type Options struct {
	Dir     string         // of the node
	Cluster cluster.Config // with HTTPListen, the address that the node serves
	Store   store.Options  // of each replica; its directory and group are set from the group's
	Log     *slog.Logger
	Changed func()      // called when replicas here, leaders or the view changed, also at once
	Fail    func(error) // called once when the process must end
}

// Member is a node of a cluster.
type Member struct {
	opt    Options
	token  cluster.Token
	self   cluster.Self
	node   cluster.Node
	gossip atomic.Pointer[cluster.Gossip] // nil until replicas run
	run    *shifted                       // nil before there is one
	meta   *cluster.Meta                  // fetched of others, while no replica here is newer
	http   *http.Client
	key    string // by which nodes of the cluster know each other over HTTP
	ready  atomic.Bool

	elections elections

	mu       sync.Mutex // guards what follows
	keeper   *keeper    // the replica of the meta group, nil without one
	replicas map[uint32]*held
	damaged  map[uint32]error             // replicas that lost a part of their log or state
	tried    map[uint32]time.Time         // when a replica did not start
	changing map[uint32]bool              // groups whose members are being changed
	hints    map[uint32]cluster.NodeID    // who was last seen to lead
	silent   map[cluster.NodeID]time.Time // since when a node has not answered
	seen     map[uint32]int64             // greatest acq that was acknowledged here, by group
	card     uint64                       // epoch that gossip tells

	open  context.Context // ends as the member begins to close
	close context.CancelFunc
	wg    sync.WaitGroup
}

// Open takes the node's place in its cluster, or makes the cluster. It returns before the node is
// let in.
func Open(ctx context.Context, opt Options) (_ *Member, err error) {
	m := &Member{opt: opt, meta: cluster.NewMeta(cluster.NewState()),
		http: newHTTP(), replicas: map[uint32]*held{}, changing: map[uint32]bool{},
		hints: map[uint32]cluster.NodeID{}, silent: map[cluster.NodeID]time.Time{},
		seen: map[uint32]int64{}, tried: map[uint32]time.Time{}}
	m.opt.Store.Turns = store.NewTurns(max(1, runtime.GOMAXPROCS(0)/2))
	m.open, m.close = context.WithCancel(context.Background())
	listener, err := m.listen()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = listener.Close() // the replicas may have closed it
		}
	}()
	if m.opt.Cluster, err = m.opt.Cluster.Complete(); err != nil {
		return nil, err
	}
	if m.token, err = cluster.LoadToken(m.opt.Cluster.TokenFile); err != nil {
		return nil, err
	}
	dir := m.path("cluster")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	if m.self, err = cluster.OpenSelf(dir, rand.Reader); err != nil {
		return nil, err
	}
	if m.node, err = m.opt.Cluster.Node(m.self, firstFeature, lastFeature); err != nil {
		return nil, err
	}
	m.loadView()
	if err := suits(m.View()); err != nil {
		return nil, fmt.Errorf("open node of a cluster: %w", err)
	}
	if err := m.start(ctx, listener); err != nil {
		return nil, errors.Join(err, m.end(ctx))
	}
	return m, nil
}

func (m *Member) path(names ...string) string {
	return filepath.Join(append([]string{m.opt.Dir}, names...)...)
}

// listen opens the address of the groups, so that others are told the port that it got.
func (m *Member) listen() (net.Listener, error) {
	if m.opt.Cluster.RaftBind == "" {
		m.opt.Cluster.RaftBind = cluster.DefaultRaftBind
	}
	l, err := net.Listen("tcp", m.opt.Cluster.RaftBind)
	if err != nil {
		return nil, fmt.Errorf("listen for other nodes: %w", err)
	}
	host, _, _ := net.SplitHostPort(m.opt.Cluster.RaftBind) // it was listened on
	_, port, _ := net.SplitHostPort(l.Addr().String())
	m.opt.Cluster.RaftBind = net.JoinHostPort(host, port)
	return l, nil
}

func (m *Member) start(ctx context.Context, listener net.Listener) error {
	var err error
	if m.key, err = httpKey(m.token); err != nil {
		return err
	}
	secure, err := certificate(m.token, m.self.ID)
	if err != nil {
		return err
	}
	files, err := replica.Directory(m.path("raft"))
	if err != nil {
		return err
	}
	opened := make(chan struct{})
	run, report, err := replica.Open(replica.Options{Node: uint64(m.self.ID),
		Cluster: binary.LittleEndian.Uint64(m.token.Cluster[:]), Files: files, Listener: listener,
		Resolve: m.resolve, TLS: secure, Fail: m.opt.Fail,
		Elected: func(group uint32) { m.elections.held(group - 1) }, // as shifted counts
		Answer: func(question []byte) []byte {
			<-opened
			return m.doHere(question)
		}})
	if err != nil {
		return err
	}
	m.run = &shifted{run}
	close(opened)
	m.damaged = map[uint32]error{}
	for group, err := range down(report.Quarantined) {
		m.giveUp(group, err)
	}
	if len(m.run.Groups()) == 0 {
		if err := m.found(ctx); err != nil {
			return err
		}
	}
	if err := m.resume(ctx); err != nil {
		return err
	}
	card := m.node
	card.State = cluster.NodeJoining
	o, err := m.opt.Cluster.Gossip(m.token, card)
	if err != nil {
		return err
	}
	o.Log, o.Rejoin = m.opt.Log, rejoinEvery
	gossip, err := cluster.StartGossip(o)
	if err != nil {
		return err
	}
	m.gossip.Store(gossip)
	m.wg.Go(m.follow)
	m.wg.Go(m.lead)
	m.wg.Go(m.closeGroups)
	return nil
}

// found makes the meta group of a new cluster where that was asked for.
func (m *Member) found(ctx context.Context) error {
	switch {
	case m.meta.View().Cluster != cluster.ID{}: // it has been in one, whatever was said then
		return nil
	case !m.opt.Cluster.Init && len(m.opt.Cluster.Join) == 0:
		return errors.New("this node is in no cluster yet: name nodes to join, or say that " +
			"it is the first node of a new one")
	case !m.opt.Cluster.Init:
		return nil
	}
	id := replica.NewID(uint64(m.self.ID), firstReplica)
	return m.run.Create(ctx, cluster.MetaGroup, id, []uint64{id})
}

// firstReplica is the number of the meta group's first replica; those of data follow it.
const firstReplica = 1

// Close leaves the cluster to the others until the node is started again.
func (m *Member) Close(ctx context.Context) error {
	m.close()
	m.wg.Wait()
	return m.end(ctx)
}

func (m *Member) end(ctx context.Context) error {
	m.close()
	var errs []error
	if g := m.gossip.Load(); g != nil {
		_ = g.Close(ctx) // others find out by themselves
	}
	if m.run != nil {
		errs = append(errs, m.run.Close())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.replicas {
		errs = append(errs, h.Close())
	}
	m.http.CloseIdleConnections()
	return errors.Join(errs...)
}

// View returns the newest view that this node has.
func (m *Member) View() *cluster.View {
	m.mu.Lock()
	k := m.keeper
	m.mu.Unlock()
	v := m.meta.View()
	if k != nil {
		if own := k.meta.View(); own.Epoch >= v.Epoch {
			return own
		}
	}
	return v
}

// Self returns who this node is.
func (m *Member) Self() cluster.NodeID { return m.self.ID }

// resolve returns where a node is: gossip knows of the last start, the view of what was agreed.
func (m *Member) resolve(node uint64) (string, bool) {
	n, ok := m.locate(cluster.NodeID(node))
	return n.RaftAddr, ok
}

func (m *Member) locate(id cluster.NodeID) (cluster.Node, bool) {
	n, ok := m.View().Node(id)
	gossip := m.gossip.Load()
	if gossip == nil {
		return n, ok
	}
	for _, p := range gossip.Peers() {
		if p.Card.Node.ID == id && (!ok || p.Card.Node.Incarnation > n.Incarnation) {
			return p.Card.Node, true
		}
	}
	return n, ok
}
