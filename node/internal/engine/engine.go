// Package engine runs queries and feeds over all sources of their rows: the store of a node, or in
// a cluster the stores of its replicas and other nodes, which it asks, hedges and merges.
//
// File names begin with the area: query_ prepares and executes queries, route_ has the
// sources of an answer and hedged calls, feed_ changes.
//
// It knows nothing of HTTP, of writes, nor of how groups agree, and takes no options from contexts:
// a query is prepared once ([Engine.Prepare]), with the options of its request. Its main type is
// [Engine]. Goroutines: at most one for each source of an answer or feed and one for each hedged
// call, which end with it; those of [Engine.CatchUp] are its caller's.
package engine

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/admission"
	"github.com/pentad-db/pentad/node/internal/budget"
	"github.com/pentad-db/pentad/node/internal/clock"
	"github.com/pentad-db/pentad/node/internal/cpushare"
	"github.com/pentad-db/pentad/node/internal/feed"
	"github.com/pentad-db/pentad/node/internal/hedge"
	"github.com/pentad-db/pentad/node/internal/partials"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/internal/spill"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/wasmhost"
)

// Options are what an engine works with. All fields are needed unless they say otherwise; what they
// point to stays the caller's, and is closed after the engine was.
type Options struct {
	// Store is the node's own; it holds all records of a node that is in no cluster.
	Store        *store.Store
	Clock        *clock.Clock
	Plugins      *registry.Registry
	Host         *wasmhost.Host // of the plugins; nil: there are none
	NativeWork   *wasmhost.NativeWork
	PartialCache *partials.Cache // nil: none
	Hedges       *hedge.Limiter
	// Queries has the permits of queries, and PeerQueries those of queries of other nodes.
	Queries, PeerQueries *admission.Controller
	Processors           *cpushare.Scheduler // CPU time of queries
	Readers              int                 // slices that feeds read at the same time, at most
	Open                 context.Context     // ends when the node begins to close
	Limits               Limits
}

// Limits is the memory and disk space that answers may take.
type Limits struct {
	Spill        *spill.Space
	MemoryGroups int   // groups that a worker has in memory before it spills them
	MaxGroups    int   // groups of one aggregate at most
	ResultBytes  int64 // of an answer that is held in memory, at most
	FeedBytes    int64 // of slices that feeds hold; see sliceDivisor
}

// Cluster is what queries need of the node's part in a cluster; a [member.Member] has it.
type Cluster interface {
	// ReadIndex returns when the replica here has what a majority had committed.
	ReadIndex(ctx context.Context, group cluster.GroupID) error
	// HasNoLeader reports whether the replica of a group here has no leader.
	HasNoLeader(group cluster.GroupID) bool
	// SessionAcq returns up to which acq clients of this node expect to read a group: what they
	// wrote or read through it. RaiseSessionAcq raises it.
	SessionAcq(group cluster.GroupID) int64
	RaiseSessionAcq(group cluster.GroupID, acqNs int64)
	// CloseSoon makes the leader of a group let its horizon pass an acq, and PassFeed tells another
	// node that one of its feeds is waited for.
	CloseSoon(group cluster.GroupID, acqNs int64)
	PassFeed(node cluster.NodeID, feed uint64, acqNs int64)
}

// Engine runs queries over all sources of their rows. All methods may be called from many
// goroutines.
type Engine struct {
	store        *store.Store
	clock        *clock.Clock
	plugins      *registry.Registry
	host         *wasmhost.Host
	nativeWork   *wasmhost.NativeWork
	partialCache *partials.Cache
	hedges       *hedge.Limiter
	queries      *admission.Controller
	peerQueries  *admission.Controller
	processors   *cpushare.Scheduler
	open         context.Context
	// Limits may be changed while no query is in progress.
	Limits Limits

	cluster      atomic.Pointer[joined] // nil of a node that is in no cluster
	routes       atomic.Pointer[routingTable]
	routing      sync.Mutex               // held while routes are updated
	peers        map[cluster.NodeID]*Peer // guarded by routing
	allRouted    atomic.Bool              // see CheckRouted
	needsCatchUp chan struct{}            // wakes CatchUp

	// Feeds that are behind and feeds that have reached the horizon wait for permits of their own:
	// those that follow do not queue behind those that read the past.
	behind, following chan struct{}
	failures          registry.Failures
	// sliceMemory is that of the slices of feeds.
	sliceMemory *budget.Budget
	// Merged are the feeds that other nodes merge.
	Merged feed.Demands
	// wideQueries numbers queries over several tenants, each of which has a scheduling key of its
	// own.
	wideQueries atomic.Uint64
}

type joined struct{ Cluster }

// New returns the engine of a node. Unless alone, it answers nothing until it has joined a cluster
// and knows its routes.
func New(o Options, alone bool) *Engine {
	e := &Engine{store: o.Store, clock: o.Clock, plugins: o.Plugins, host: o.Host,
		nativeWork: o.NativeWork, partialCache: o.PartialCache, hedges: o.Hedges,
		queries: o.Queries, peerQueries: o.PeerQueries, processors: o.Processors, Limits: o.Limits,
		open:      o.Open,
		behind:    make(chan struct{}, max(1, o.Readers/2)),
		following: make(chan struct{}, max(1, o.Readers/2)), peers: map[cluster.NodeID]*Peer{},
		needsCatchUp: make(chan struct{}, 1), sliceMemory: budget.New(o.Limits.FeedBytes, 0)}
	e.routes.Store(&routingTable{})
	if alone {
		e.routes.Store(singleStoreTable(&localSource{engine: e, store: o.Store}))
	}
	return e
}

// Join makes the engine a part of a cluster, whose groups it is told by Route.
func (e *Engine) Join(c Cluster) { e.cluster.Store(&joined{c}) }

// closing reports whether the node has begun to close.
func (e *Engine) closing() bool { return e.open.Err() != nil }

// IsSingleStore reports whether one store of this node has all data.
func (e *Engine) IsSingleStore() bool { return e.routes.Load().single != nil }

// CheckGroups rejects options that name groups which are not here.
func (e *Engine) CheckGroups(options request.Options) error {
	t := e.routes.Load()
	if options.OnlyGroup > 0 {
		if err := t.checkNeverSplit(options.OnlyGroup); err != nil {
			return err
		}
	}
	for _, g := range options.Groups {
		if route := t.route(g); route == nil || route.local == nil {
			return NotHere(g)
		}
	}
	return nil
}
