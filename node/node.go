// Package node is the server: it opens and closes the store, the plugin host, the engine of
// queries, the cluster member and the HTTP interface of a node. A program may also embed it and
// call its methods without a network.
//
// The methods are in queries.go, writes.go, cursors.go, plugins.go and snapshots.go, and call the
// same parts as the handlers in node/internal/httpapi: queries run in node/internal/engine, writes
// in node/internal/writes.
//
// It knows nothing of how rows are stored or found, groups agree or guests run. Its main type is
// [Node], whose comment lists the goroutines.
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/admission"
	"github.com/pentad-db/pentad/node/internal/clock"
	"github.com/pentad-db/pentad/node/internal/cpushare"
	"github.com/pentad-db/pentad/node/internal/cursors"
	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/node/internal/health"
	"github.com/pentad-db/pentad/node/internal/hedge"
	"github.com/pentad-db/pentad/node/internal/httpapi"
	"github.com/pentad-db/pentad/node/internal/httpserver"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/memory"
	"github.com/pentad-db/pentad/node/internal/nodecursors"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/partials"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/node/internal/snapshots"
	"github.com/pentad-db/pentad/node/internal/spill"
	"github.com/pentad-db/pentad/node/internal/verify"
	"github.com/pentad-db/pentad/node/internal/writes"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/background"
	"github.com/pentad-db/pentad/wasmhost"
)

const (
	mostResultBytes  = 1 << 30 // rows that ordered answers may hold in memory
	mostHeadBytes    = 2 << 30 // heads of all stores
	defaultMaxGroups = 1 << 20 // groups of one aggregate
	// headShardBytes is how much memory of heads each head shard needs: it makes space for 16,384
	// rows like those that it got.
	headShardBytes = 64 << 20
)

// mostPartialBytes is enough for a hundred dashboards over a billion records, with a state of 48
// bytes for each block.
const mostPartialBytes = 64 << 20

const (
	// A merge has some four tiles in memory: two with rows, and what sorts them.
	tilePart      = 32
	mostTileBytes = 32 << 20
	// A query has batches, buffers of files and parts of its answer of about queryBytes in memory,
	// beside what it sorts. A few run with any memory: some clients read slowly.
	queryBytes   = 48 << 20
	leastQueries = 3
)

// defaultQueries returns how many queries run at once, at most.
func defaultQueries(total memory.Total) int {
	most := 8 * runtime.GOMAXPROCS(0)
	return min(most, max(leastQueries, int(total.Part(queryBytes, int64(most)))))
}

// Options of a node. The zero value of each field but Dir works.
type Options struct {
	Dir      string        // data directory; created when missing
	Listen   string        // address to serve on; empty: no network
	Insecure bool          // allow addresses that other machines reach, without authentication
	Hosts    []string      // host names that clients may use besides IP addresses and localhost
	Logger   *slog.Logger  // nil: no logging
	Store    store.Options // Dir is set from above
	// MemoryBytes is the memory of the node, from which the defaults of other limits derive;
	// default is the limit of the control group or the machine.
	MemoryBytes int64
	// ResultBytes is the memory of all ordered answers, which spill to temporary files beyond it,
	// and of each answer of versions; default an 8th of MemoryBytes, at most 1 GiB.
	ResultBytes  int64
	MaxGroups    int   // groups of one aggregate at most; default 2^20
	MaxQueries   int   // concurrent queries; default 8 per processor, or one per 48 MiB
	MaxWaiting   int   // queries that wait for a permit, at most; default 16 * MaxQueries
	MaxPuts      int   // concurrent puts; default 8 per processor, see putsInCluster
	PartialBytes int64 // partial-aggregate cache; default a 16th, at most 64 MiB; below 0: none
	// NoPlugins leaves out plugins, for programs that embed a node and only put, read and ship: it
	// opens faster and takes less memory. Filters, aggregates and uploads are rejected; uploaded
	// plugins stay in the directory. Not in a cluster.
	NoPlugins bool
	// MaxClockOffset is how far the machine's clock may step, or differ from those of the other
	// nodes of a cluster, before the node stops following it; default 500 ms.
	MaxClockOffset time.Duration

	// Cluster makes the node a member of a cluster if it names a token file. Its HTTPListen is set
	// from Listen.
	Cluster cluster.Config
	// Shipper makes the node an edge node, see package edge; nil: it is not one.
	Shipper Shipper
	// Fail is called when the process must end, because the state of its disk is unknown after a
	// failed sync, or it cannot serve any more; required in a cluster.
	Fail func(error)
}

func (o Options) withDefaults() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("node: Options.Dir is empty; name a directory")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Cluster.TokenFile != "" && (o.Listen == "" || o.Fail == nil) {
		return o, errors.New("node: Options.Listen and Options.Fail are needed in a cluster")
	}
	if o.Cluster.TokenFile != "" && o.NoPlugins {
		return o, errors.New("node: Options.NoPlugins: a node of a cluster runs the plugins of " +
			"the queries of others; leave it out")
	}
	o.MemoryBytes = cmp.Or(o.MemoryBytes, int64(memory.Limit()))
	total := memory.Total(o.MemoryBytes)
	o.Store.HeadBytes = cmp.Or(o.Store.HeadBytes, total.Part(4, mostHeadBytes))
	o.Store.HeadShards = min(o.Store.HeadShards, int(max(1, o.Store.HeadBytes/headShardBytes)))
	o.ResultBytes = cmp.Or(o.ResultBytes, total.Part(8, mostResultBytes))
	o.PartialBytes = cmp.Or(o.PartialBytes, total.Part(16, mostPartialBytes))
	o.MaxGroups = cmp.Or(o.MaxGroups, defaultMaxGroups)
	o.Store.TileBytes = cmp.Or(o.Store.TileBytes, uint64(total.Part(tilePart, mostTileBytes)))
	o.MaxQueries = cmp.Or(o.MaxQueries, defaultQueries(total))
	o.MaxWaiting = cmp.Or(o.MaxWaiting, waitersPerPermit*o.MaxQueries)
	if o.Cluster.TokenFile != "" {
		o.MaxPuts = cmp.Or(o.MaxPuts, putsInCluster*runtime.GOMAXPROCS(0))
	}
	o.MaxPuts = cmp.Or(o.MaxPuts, 8*runtime.GOMAXPROCS(0))
	o.Store.Dir = filepath.Join(o.Dir, "store")
	o.Store.Scrub = cmp.Or(o.Store.Scrub, // of all its stores
		background.NewScrub(background.DefaultScrubEvery, background.DefaultScrubRate))
	return o, nil
}

// Node is an open node. All methods may be called from many goroutines. Goroutines: those of its
// store and plugin hosts, one that watches for problems and one that scrubs modules; with an
// address, one that serves, one for each connection and one for each feed; in a cluster those of
// its member, one that follows the catalog and one that lets new replicas catch up.
type Node struct {
	opt    Options
	log    *slog.Logger
	store  *store.Store
	clock  *clock.Clock                  // the only time source of the node
	engine *engine.Engine                // runs queries
	member atomic.Pointer[member.Member] // nil of a node that is in no cluster
	// restocked wakes followCatalog when the cluster has a newer catalog.
	restocked    chan struct{}
	host         *wasmhost.Host
	nativeWork   *wasmhost.NativeWork // puts, and queries without plugins
	adHocHost    *wasmhost.Host       // of modules that come with queries
	writes       *writes.Dispatcher
	plugins      *registry.Registry
	cursors      *nodecursors.Cursors
	snapshots    *snapshots.Folder
	verifier     *verify.Verifier
	partialCache *partials.Cache // nil: none
	spill        *spill.Space
	hedges       *hedge.Limiter
	health       health.Board
	healthMu     sync.Mutex // held while problems are collected and logged
	// clockFollowed is the number of clock steps that were logged; guarded by healthMu.
	clockFollowed int64
	hidden        []health.Problem // about data in the directory that is not served
	server        *httpapi.Server
	queries       *admission.Controller // permits of queries
	peerQueries   *admission.Controller // permits of queries of other nodes
	processors    *cpushare.Scheduler   // CPU time of queries

	open  context.Context // ends when the node begins to close
	close context.CancelFunc

	closing      atomic.Bool
	wg           sync.WaitGroup
	metrics      metrics
	storeTotals  storeTotals
	extraMetrics extraMetrics
}

// putsInCluster is how many puts per processor a node of a cluster runs at the same time: most of
// them wait for other nodes, and those of a group without a leader must not block all others.
const putsInCluster = 128

// Open opens the data and, with an address, starts serving it.
func Open(ctx context.Context, opt Options) (*Node, error) {
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := CheckListen(opt.Listen, opt.Insecure); err != nil {
		return nil, err
	}
	n := &Node{opt: opt, log: opt.Logger,
		queries: opt.newAdmission(), peerQueries: opt.newAdmission(),
		processors: cpushare.New(runtime.GOMAXPROCS(0)), hedges: hedge.NewLimiter(),
		spill: spill.New(filepath.Join(opt.Dir, "spill"), opt.ResultBytes)}
	if opt.PartialBytes > 0 && !opt.NoPlugins {
		n.partialCache = partials.New(opt.PartialBytes)
	}
	n.open, n.close = context.WithCancel(context.Background())
	if err := os.MkdirAll(opt.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	var report store.Report
	n.setClock()
	if err := n.prepareDir(ctx); err != nil {
		return nil, err
	}
	if n.store, report, err = n.openStore(ctx); err != nil {
		return nil, err
	}
	if opt.Cluster.TokenFile == "" {
		if err := member.CheckAlone(opt.Dir, true); err != nil {
			return nil, errors.Join(err, n.store.Close())
		}
	}
	if err := n.findHidden(ctx); err != nil {
		return nil, errors.Join(err, n.store.Close())
	}
	n.reportOpen(report)
	if has := n.opt.MemoryBytes; has > 0 && has < memory.Least {
		n.log.Warn("less memory than a node needs, the system may kill it: raise the limit of the "+
			"container, or --memory", "memory_bytes", has, "least_bytes", memory.Least)
	}
	n.cleanSpill()
	if err := n.start(ctx); err != nil {
		return nil, errors.Join(err, n.Close(ctx))
	}
	n.wg.Go(n.searchAtRest)
	return n, nil
}

// prepareDir rejects a directory whose data the node would not serve, and converts that of a
// stand-alone node into the first node of a cluster if the options say so.
func (n *Node) prepareDir(ctx context.Context) error {
	if n.opt.Cluster.TokenFile == "" {
		return member.CheckAlone(n.opt.Dir, false)
	}
	return member.Adopt(ctx, member.AdoptOptions{Dir: n.opt.Dir, Cluster: n.opt.Cluster,
		Store: n.opt.Store, Log: n.log})
}

// findHidden reports records of a stand-alone node in the directory of a cluster's node, where
// earlier versions left them unnoticed.
func (n *Node) findHidden(ctx context.Context) error {
	if n.opt.Cluster.TokenFile == "" {
		return nil
	}
	holds, err := n.store.HasData(ctx)
	if holds {
		n.hidden = []health.Problem{{Code: "data_hidden", Message: "the directory has records " +
			"of a stand-alone node, which are not those of the cluster and are not served",
			Advice: "stop the node, move the directory's store to an empty directory, serve that " +
				"and copy what is wanted: pentad sync --restamp; or remove it"}}
	}
	return err
}

func (n *Node) start(ctx context.Context) (err error) {
	alone := n.opt.Cluster.TokenFile == ""
	dir := filepath.Join(n.opt.Dir, "plugins")
	if !alone { // plugins of the stand-alone node stay where they are
		dir = filepath.Join(n.opt.Dir, "cluster", "plugins")
	}
	file, err := n.openFiles(ctx, dir, alone)
	if err != nil {
		return err
	}
	n.assemble(alone, file)
	n.snapshots.RemoveUnfinished(n.log)
	if alone {
		n.wg.Go(func() { n.plugins.Load(n.open) })
	}
	n.wg.Go(n.watchHealth)
	if n.opt.Listen == "" {
		return nil
	}
	hosts, err := httpserver.NewHosts(n.opt.Hosts, n.opt.Listen)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", n.opt.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", n.opt.Listen, err)
	}
	n.server = n.newServer(listener, hosts)
	n.Watch(n.server.Problems)
	if !alone {
		if err := n.openMember(ctx); err != nil {
			return errors.Join(err, listener.Close())
		}
	}
	n.wg.Go(func() {
		err := n.server.Serve()
		if err != nil && !n.closing.Load() && n.opt.Fail != nil {
			n.opt.Fail(fmt.Errorf("serve: %w", err)) // nothing reaches it any more
		} else if err != nil {
			n.log.Error("serve", "err", err)
		}
	})
	n.log.Info("serving", "addr", listener.Addr().String())
	return nil
}

// openFiles opens plugins, their hosts and cursors. Unless the node is alone they are those of the
// cluster, and file is nil.
func (n *Node) openFiles(
	ctx context.Context, dir string, alone bool,
) (file *cursors.File, err error) {
	off, err := n.openHosts(ctx, dir, alone)
	if err != nil {
		return nil, err
	}
	holds := false // the store has data, so the files of the node must exist
	if alone {
		if holds, err = n.store.HasData(ctx); err != nil {
			return nil, err
		}
	}
	n.plugins, err = registry.Open(ctx, registry.Options{Dir: dir, Off: off, Host: n.host,
		AdHocHost: n.adHocHost, InCluster: !alone, Log: n.log, MaxGroups: n.opt.MaxGroups})
	if err != nil || !alone {
		return nil, err
	}
	n.plugins.ReportMissing(holds)
	return nodecursors.OpenFile(filepath.Join(n.opt.Dir, "cursors"), holds, n.log)
}

// assemble makes the parts that answer requests; file has the cursors of a node that is in no
// cluster.
func (n *Node) assemble(alone bool, file *cursors.File) {
	n.engine = engine.New(engine.Options{Store: n.store, Clock: n.clock, Plugins: n.plugins,
		Host: n.host, NativeWork: n.nativeWork, PartialCache: n.partialCache, Hedges: n.hedges,
		Queries: n.queries, PeerQueries: n.peerQueries, Processors: n.processors,
		Readers: n.opt.MaxQueries / 2, Open: n.open, Limits: engine.Limits{Spill: n.spill,
			MemoryGroups: memoryGroups(&n.opt), MaxGroups: n.opt.MaxGroups,
			ResultBytes: n.opt.ResultBytes, FeedBytes: feedBytes(&n.opt)}}, alone)
	n.writes = writes.NewDispatcher(writes.Options{Store: n.store, Member: &n.member,
		Engine: n.engine, Clock: n.clock, NativeWork: n.nativeWork, Shipper: n.opt.Shipper,
		Open: n.open, MaxPuts: n.opt.MaxPuts})
	n.cursors = &nodecursors.Cursors{File: file, Member: &n.member, Engine: n.engine, Open: n.open}
	n.snapshots = &snapshots.Folder{Dir: filepath.Join(n.opt.Dir, "snapshots"), Store: n.store,
		Member: &n.member, Plugins: n.plugins, Cursors: n.cursors}
	n.verifier = verify.New(verify.Options{Store: n.store, Member: &n.member, Engine: n.engine,
		Open: n.open})
}

// newServer returns the HTTP interface of the node at a listener, which it owns.
func (n *Node) newServer(l net.Listener, hosts httpserver.Hosts) *httpapi.Server {
	return httpapi.New(l, httpapi.Parts{Engine: n.engine, Writes: n.writes, Plugins: n.plugins,
		Cursors: n.cursors, Snapshots: n.snapshots, Verifier: n.verifier, Clock: n.clock,
		Member: &n.member, Shipper: n.opt.Shipper}, httpapi.Options{Hosts: hosts,
		InCluster: n.opt.Cluster.TokenFile != "", MemoryBytes: n.opt.MemoryBytes, Log: n.log,
		Open: n.open, Problems: n.Problems, Metrics: n.metrics.handler(n),
		Answered: n.metrics.request})
}

func (n *Node) reportOpen(r store.Report) {
	if r.Log.TornFile != "" {
		n.log.Warn("cut a torn tail of the log: it was never acknowledged",
			"segment", r.Log.TornFile, "offset_bytes", r.Log.TornAt, "count", r.Log.TornSize)
	}
	if r.ManifestCut > 0 {
		n.log.Warn("cut a torn last line of the manifest", "count", r.ManifestCut)
	}
	for _, name := range r.RemovedFiles {
		n.log.Warn("removed a leftover of an interrupted seal", "segment", name)
	}
	n.log.Info("opened", "count", r.ReplayedRows)
}

// CheckListen rejects addresses that other machines reach, because there is no authentication.
func CheckListen(addr string, insecure bool) error {
	if addr == "" || insecure {
		return nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("listen on %q: %w", addr, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("listen on %q: other machines could reach it and there is no "+
			"authentication; use 127.0.0.1, or add --insecure in a network of your own", addr)
	}
	return nil
}

// Addr returns the address that the node serves, nil without one.
func (n *Node) Addr() net.Addr {
	if n.server == nil {
		return nil
	}
	return n.server.Addr()
}

// Close shuts down gracefully: the node reports that it is not ready, rejects new requests,
// finishes those in progress until ctx ends, and closes its data. If a method call is still in
// progress then, Close returns an error, and the data is closed when the call returns.
func (n *Node) Close(ctx context.Context) error {
	if n.closing.Swap(true) {
		return nodeerror.ErrClosing
	}
	n.close()
	var errs []error
	if n.server != nil {
		errs = append(errs, n.server.Shutdown(ctx))
	}
	n.wg.Wait()
	closed := make(chan error, 1)
	go func() { closed <- n.closeData(ctx) }()
	expired := make(chan struct{})
	defer context.AfterFunc(ctx, func() { // what ctx canceled needs a moment
		time.AfterFunc(closeGrace, func() { close(expired) })
	})()
	select {
	case err := <-closed:
		return errors.Join(append(errs, err)...)
	case <-expired:
		return errors.Join(append(errs, fmt.Errorf("a request is still running, and the data "+
			"is closed when it ends: %w", context.Cause(ctx)))...)
	}
}

// closeGrace is how long after the end of its context Close waits for requests that it canceled.
const closeGrace = 5 * time.Second

// closeData waits for running requests and closes the data.
func (n *Node) closeData(ctx context.Context) error {
	var errs []error
	for _, p := range []*admission.Controller{n.queries, n.peerQueries} {
		errs = append(errs, p.Drain(context.WithoutCancel(ctx)))
	}
	if n.writes != nil {
		n.writes.Drain()
		n.verifier.Drain()
	}
	if m := n.member.Load(); m != nil {
		errs = append(errs, m.Close(ctx))
	}
	errs = append(errs, n.store.Close())
	if n.plugins != nil {
		errs = append(errs, n.plugins.Close())
	}
	if n.cursors != nil {
		errs = append(errs, n.cursors.Close())
	}
	for _, host := range []*wasmhost.Host{n.host, n.adHocHost} {
		if host != nil {
			errs = append(errs, host.Close(ctx))
		}
	}
	return errors.Join(errs...)
}

// Seal moves every row into sealed segments; see [store.Store.Seal].
func (n *Node) Seal(ctx context.Context) error { return n.store.Seal(ctx) }

// Settle is Seal, and waits until no merge is due.
func (n *Node) Settle(ctx context.Context) error { return n.store.WaitForMerges(ctx) }

// Rest does what the store does when nothing came for a minute; see [store.Store.MergeIdle].
func (n *Node) Rest(ctx context.Context) error { return n.store.MergeIdle(ctx) }

// StoreStats returns the figures of the store, with those of all replicas here.
func (n *Node) StoreStats() store.Stats { return n.storeTotals.sum(n.stores) }

// cleanSpill removes temporary files of a process that was killed.
func (n *Node) cleanSpill() {
	removed, err := n.spill.Clean()
	if err != nil {
		n.log.Error("remove temporary files", "err", err) // they only waste disk space
	}
	if len(removed) > 0 {
		n.log.Warn("removed temporary files of answers that were cut short", "count", len(removed))
	}
}
