// Package member is a node's part in a cluster: who it is, the replicas that it holds, and what it
// does for the cluster while it leads a group.
//
// It joins node/cluster, which knows who is where, and node/replica, which keeps replicas the same,
// with the stores that groups of slots have. It knows nothing of queries, and of HTTP only what
// nodes ask each other. Its main type is [Member], whose goroutines are those of the replicas and
// of gossip, one that makes this node do what the view says, one that plans for the whole cluster
// while this node leads the meta group, one that moves the horizons of quiet groups, one that moves
// those at once that feeds wait for, one that asks others to lead groups whose leader is not heard,
// one that compares clocks, and one for each change of members and each move of a horizon that is
// in progress.
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
	"github.com/pentad-db/pentad/node/internal/accept"
	"github.com/pentad-db/pentad/node/internal/clock"
	"github.com/pentad-db/pentad/node/internal/memory"
	"github.com/pentad-db/pentad/node/replica"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/background"
)

// mostQuota bounds what waits for the disk and for machines.
const mostQuota = 256 << 20

// rejoinEvery is how often seeds are asked: nodes are often started at one time, and the first of
// them is not there yet.
const rejoinEvery = 5 * time.Second

// Options of a member. All but Passed and Now are needed.
type Options struct {
	Dir     string         // of the node
	Cluster cluster.Config // with HTTPListen, the address that the node serves
	Store   store.Options  // of each replica; its directory and group are set from the group's
	Log     *slog.Logger
	Changed func() // called when replicas here, leaders or the view changed, also at once
	// Passed is told that another node waits until a feed of this one, of which it knows the
	// number, has passed an acq. It must not block. Nil: no node waits.
	Passed func(feed uint64, acqNs int64)
	// MemoryBytes is what the node may have, of which its replicas take an 8th for what waits for
	// the disk and for machines; 0: that is not known.
	MemoryBytes int64
	Fail        func(error) // called once when the process must end
	// Now is the wall clock in ns that proposals carry, which is always believed; default: that of
	// Store.WallClock, or one of its own.
	Now func() int64
}

// Member is a node of a cluster.
type Member struct {
	opt   Options
	token cluster.Token
	self  cluster.Self
	node  cluster.Node
	// features are the levels that it runs: it writes and says nothing that is above that of the
	// cluster.
	features cluster.Features
	net      network
	gossip   atomic.Pointer[peers] // nil until replicas run
	run      groups                // nil before there is one
	clock    *clock.Clock
	meta     *cluster.Meta // fetched of others, while no replica here is newer
	http     *http.Client
	key      string // by which nodes of the cluster know each other over HTTP
	ready    atomic.Bool
	known    bool // the cluster knows of this start; of follow alone

	listener      *accept.Listener // of connections of other nodes
	elections     elections
	reached       reach
	closeRequests closeRequests
	tenures       tenures
	describing    describing
	adoption      *adoption // in progress, nil else; of Open and then of follow

	mu          sync.Mutex   // guards what follows
	metaReplica *metaReplica // the replica of the meta group, nil without one
	replicas    map[cluster.GroupID]*localReplica
	// distrusted are the groups whose replica here is not what it should be, and why.
	distrusted map[cluster.GroupID]distrusted
	// rotten is what Verify found last and nothing could be done about.
	rotten      restDamage
	tried       map[cluster.GroupID]time.Time      // when a replica did not start
	changing    map[cluster.GroupID]bool           // groups whose members are being changed
	hints       map[cluster.GroupID]cluster.NodeID // who was last seen to lead
	silent      map[cluster.NodeID]time.Time       // since when a node has not answered
	sessionAcqs map[cluster.GroupID]int64          // greatest acq acknowledged here, by group
	toldEpoch   uint64                             // epoch that gossip tells
	stranger    *stranger                          // nil: none is known
	// unconfirmed are the groups whose replica here waits for confirmation, and since when.
	unconfirmed map[cluster.GroupID]time.Time
	// leaderlessSince is when a replica here was first seen without a leader.
	leaderlessSince map[cluster.GroupID]time.Time

	open  context.Context // ends as the member begins to close
	close context.CancelFunc
	wg    sync.WaitGroup
}

// Open takes the node's place in its cluster, or makes the cluster. It returns before the node is
// let in.
func Open(ctx context.Context, opt Options) (*Member, error) {
	return openIn(ctx, opt, sockets{})
}

func openIn(ctx context.Context, opt Options, over network) (_ *Member, err error) {
	m := &Member{opt: opt, net: over, meta: cluster.NewMeta(cluster.NewState()),
		http: over.client(), replicas: map[cluster.GroupID]*localReplica{},
		changing: map[cluster.GroupID]bool{},
		hints:    map[cluster.GroupID]cluster.NodeID{}, silent: map[cluster.NodeID]time.Time{},
		sessionAcqs: map[cluster.GroupID]int64{}, tried: map[cluster.GroupID]time.Time{},
		distrusted: map[cluster.GroupID]distrusted{}, closeRequests: newCloseRequests()}
	m.setClock()
	atOnce := max(1, runtime.GOMAXPROCS(0)/2)
	m.opt.Store.Background = background.NewLimit(atOnce, atOnce)
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
	m.features = m.opt.Cluster.Features
	m.meta.RunAs(m.features)
	if m.token, err = cluster.LoadToken(m.opt.Cluster.TokenFile); err != nil {
		return nil, err
	}
	dir := m.path("cluster")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	if err := m.loadView(); err != nil { // before anything is written
		return nil, fmt.Errorf("open node of a cluster: %w", err)
	}
	if m.self, err = cluster.OpenSelf(dir, rand.Reader); err != nil {
		return nil, err
	}
	if err = m.readAdoption(); err != nil {
		return nil, err
	}
	if m.node, err = m.opt.Cluster.Node(m.self); err != nil {
		return nil, err
	}
	m.logCopy()
	if err := m.start(ctx, listener); err != nil {
		return nil, errors.Join(err, m.Close(ctx))
	}
	return m, nil
}

func (m *Member) path(names ...string) string {
	return filepath.Join(append([]string{m.opt.Dir}, names...)...)
}

// listen opens the address of the groups, so that others are told the port that it got.
func (m *Member) listen() (*accept.Listener, error) {
	if m.opt.Cluster.RaftBind == "" {
		m.opt.Cluster.RaftBind = cluster.DefaultRaftBind
	}
	l, err := m.net.listen(m.opt.Cluster.RaftBind)
	if err != nil {
		return nil, fmt.Errorf("listen for other nodes: %w", err)
	}
	host, _, _ := net.SplitHostPort(m.opt.Cluster.RaftBind) // it was listened on
	_, port, _ := net.SplitHostPort(l.Addr().String())
	m.opt.Cluster.RaftBind = net.JoinHostPort(host, port)
	m.listener = accept.New(l, nil)
	return m.listener, nil
}

func (m *Member) start(ctx context.Context, listener *accept.Listener) error {
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
	m.countNodes(m.View())
	run, report, err := m.net.replicas(replica.Options{Node: uint64(m.self.ID),
		Cluster: binary.LittleEndian.Uint64(m.token.Cluster[:]), Files: files, Listener: listener,
		Resolve: m.resolve, TLS: secure, Fail: m.opt.Fail, Starts: m.self.Starts,
		Copied: m.self.Copied, Trust: m.opt.Cluster.TrustCopy,
		QuotaBytes: memory.Total(m.opt.MemoryBytes).Part(8, mostQuota),
		Elected:    func(group cluster.GroupID) { m.elections.wake(group) },
		MayLead:    m.clock.MayLead, Heard: m.hearNote,
		Answer: func(request []byte) []byte {
			<-opened
			return m.serveProposals(request)
		}})
	if err != nil {
		return err
	}
	m.run = run
	m.wg.Go(m.watchClock) // no replica leads before that has heard another node
	close(opened)
	m.logReport(&report)
	for group, err := range report.Quarantined {
		m.Distrust(group, err)
	}
	if err := m.gossipWith(); err != nil {
		return err
	}
	if len(m.run.Groups()) == 0 {
		if err := m.createCluster(ctx); err != nil {
			return err
		}
	}
	if err := m.resume(ctx); err != nil {
		return err
	}
	m.wg.Go(m.follow)
	m.wg.Go(m.planWhileLeader)
	m.wg.Go(m.closeGroups)
	m.wg.Go(m.closeLoop)
	m.wg.Go(m.restoreLeaders)
	return nil
}

// gossipWith lets this node find others, and them it.
func (m *Member) gossipWith() error {
	metadata := m.node
	metadata.State = cluster.NodeJoining
	o, err := m.opt.Cluster.Gossip(m.token, metadata)
	if err != nil {
		return err
	}
	o.Log, o.Rejoin = m.opt.Log, rejoinEvery
	gossip, err := m.net.gossip(o)
	if err != nil {
		return err
	}
	m.gossip.Store(&peers{gossip})
	return nil
}

// logReport says what was wrong with the log that the groups share.
func (m *Member) logReport(r *replica.Report) {
	if r.TornFile != "" {
		m.opt.Log.Warn("cut a torn tail of the groups' log: it was never acknowledged",
			"segment", r.TornFile, "offset_bytes", r.TornAt, "err", r.TornReason)
	}
	for _, d := range r.Damage {
		m.opt.Log.Error("the groups' log is damaged: groups that may have lost something there "+
			"are made again from other nodes", "segment", d.File, "offset_bytes", d.Offset,
			"err", d.Reason)
	}
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
	k := m.metaReplica
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
		if p.Meta.Node.ID == id && (!ok || p.Meta.Node.Incarnation > n.Incarnation) {
			return p.Meta.Node, true
		}
	}
	return n, ok
}
