// Package node is the server: it ties store and plugin host together, runs queries to their end,
// and speaks the wire protocol and JSON over HTTP. A program may also embed it and call the same
// methods without a network.
//
// It knows nothing of how rows are kept or guests are run. Its main type is [Node].
package node

import (
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

	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/cursors"
	"github.com/pentad-db/pentad/node/internal/kept"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

const (
	defaultResultBytes = 1 << 30 // rows that one ordered answer may hold in memory
	defaultMaxGroups   = 1 << 20 // groups of one aggregate
)

// Options of a node. The zero value of each field but Dir works.
type Options struct {
	Dir         string        // directory of the data; made when missing
	Listen      string        // address to serve on; empty: no network
	Insecure    bool          // allow addresses that others reach: there is no authentication
	Hosts       []string      // names that clients may use besides addresses and localhost
	Logger      *slog.Logger  // nil: quiet
	Store       store.Options // Dir is set from above
	ResultBytes int64         // memory of one ordered answer at most; default 1 GiB
	MaxGroups   int           // groups of one aggregate at most; default 2^20
	MaxQueries  int           // queries at the same time; default 8 per processor
	MaxPuts     int           // puts at the same time; default 8 per processor, see putsInCluster
	StateBytes  int64         // of states kept for plugins at most; default 64 MiB, below 0 none

	// Cluster makes the node one of a cluster: when it names a token file. Its HTTPListen is set
	// from Listen.
	Cluster cluster.Config
	// Outbox makes the node an edge node, see package edge; nil: it ships nothing.
	Outbox Outbox
	// Fail is called once when the process must end, because what its disk holds is not known any
	// more; needed in a cluster.
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
	setDefault(&o.ResultBytes, defaultResultBytes)
	setDefault(&o.MaxGroups, defaultMaxGroups)
	setDefault(&o.StateBytes, defaultStateBytes)
	setDefault(&o.MaxQueries, 8*runtime.GOMAXPROCS(0))
	if o.Cluster.TokenFile != "" {
		setDefault(&o.MaxPuts, putsInCluster*runtime.GOMAXPROCS(0))
	}
	setDefault(&o.MaxPuts, 8*runtime.GOMAXPROCS(0))
	o.Store.Dir = filepath.Join(o.Dir, "store")
	return o, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Node is an open node. All methods may be called from many goroutines.
//
// Goroutines: those of its store and plugin hosts, one that watches the clock, and when there is an
// address one that serves, and one for each reader of changes.
type Node struct {
	opt      Options
	log      *slog.Logger
	store    *store.Store
	layout   atomic.Pointer[layout]
	member   atomic.Pointer[member.Member] // nil of a node that is in no cluster
	placing  sync.Mutex                    // held while groups are placed
	unproved chan struct{}                 // has one when they were, for proveReplicas
	peers    map[cluster.NodeID]*peer      // guarded by placing
	host     *wasmhost.Host
	lent     *wasmhost.Host // as registry.lent
	drawn    drawn
	plugins  *registry
	cursors  *cursors.File // nil in a cluster
	states   *kept.Cache   // nil: none
	hedges   hedging
	failures failures
	server   *server
	queries  chan struct{} // a place is taken while a query runs
	readers  chan struct{} // of changes, which take half of those places at most
	// wideQueries counts queries of several tenants, which have no owner else.
	wideQueries atomic.Uint64
	puts        chan struct{}
	slices      atomic.Int64 // of changes, being read or written

	open      context.Context // ends as the node begins to close
	close     context.CancelFunc
	verifying chan struct{} // as queries; there is one place
	snapshots sync.Mutex    // held while a snapshot is made or removed

	closing atomic.Bool
	wg      sync.WaitGroup
	metrics metrics
	tally   tally
	figures figures
}

// putsInCluster is how many puts a node of a cluster takes at the same time, per processor: most of
// them wait, and those whose group has no leader shall not take the places of all others.
const putsInCluster = 128

// Open opens the data and, with an address, starts to serve it.
func Open(ctx context.Context, opt Options) (*Node, error) {
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := CheckListen(opt.Listen, opt.Insecure); err != nil {
		return nil, err
	}
	n := &Node{opt: opt, log: opt.Logger, queries: make(chan struct{}, opt.MaxQueries),
		readers: make(chan struct{}, max(1, opt.MaxQueries/2)),
		puts:    make(chan struct{}, opt.MaxPuts), verifying: make(chan struct{}, 1),
		hedges: hedging{silence: silence, goneAfter: goneAfter}}
	if opt.StateBytes > 0 {
		n.states = kept.New(opt.StateBytes)
	}
	n.open, n.close = context.WithCancel(context.Background())
	if err := os.MkdirAll(opt.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	var report store.Report
	if n.store, report, err = store.Open(ctx, opt.Store); err != nil {
		return nil, err
	}
	n.layout.Store(&layout{})
	if opt.Cluster.TokenFile == "" {
		n.layout.Store(oneStore(&local{Node: n, store: n.store}))
	}
	n.reportOpen(report)
	n.removeUnfinished()
	if err := n.start(ctx); err != nil {
		return nil, errors.Join(err, n.Close(ctx))
	}
	return n, nil
}

func (n *Node) start(ctx context.Context) (err error) {
	alone := n.opt.Cluster.TokenFile == ""
	dir := filepath.Join(n.opt.Dir, "plugins")
	if !alone { // what the node was told by itself stays apart
		dir = filepath.Join(n.opt.Dir, "cluster", "plugins")
	}
	n.host, err = wasmhost.New(ctx, wasmhost.Options{CacheDir: filepath.Join(dir, "cache"),
		GoProfile: true})
	if err != nil {
		return err
	}
	n.lent, err = wasmhost.New(ctx, wasmhost.Options{GoProfile: true, Beside: n.host})
	if err != nil {
		return err
	}
	n.plugins, err = openRegistry(ctx, dir, n.host, n.lent, alone, n.log)
	if err == nil && alone {
		err = n.openCursors()
	}
	if err != nil {
		return err
	}
	n.wg.Go(n.watchClock)
	if n.opt.Listen == "" {
		return nil
	}
	hosts, err := newHostNames(n.opt.Hosts, n.opt.Listen)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", n.opt.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", n.opt.Listen, err)
	}
	n.server = newServer(n, listener, hosts)
	if !alone {
		if err := n.openMember(ctx); err != nil {
			return errors.Join(err, listener.Close())
		}
	}
	n.wg.Go(func() {
		if err := n.server.serve(); err != nil {
			n.log.Error("serve", "err", err)
		}
	})
	n.log.Info("serving", "addr", listener.Addr().String())
	return nil
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

// CheckListen refuses addresses that other machines reach, because there is no authentication.
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
			"authentication; take 127.0.0.1, or say --insecure if the network is yours", addr)
	}
	return nil
}

// Addr returns the address that is served, nil without one.
func (n *Node) Addr() net.Addr {
	if n.server == nil {
		return nil
	}
	return n.server.listener.Addr()
}

// Close ends gracefully: the node says that it is not ready, takes no more requests, finishes
// those under way until ctx ends, and closes its data.
func (n *Node) Close(ctx context.Context) error {
	if n.closing.Swap(true) {
		return errClosing
	}
	n.close()
	var errs []error
	if n.server != nil {
		errs = append(errs, n.server.shutdown(ctx))
	}
	n.wg.Wait()
	for _, places := range []chan struct{}{n.queries, n.puts, n.verifying} {
		for range cap(places) {
			places <- struct{}{} // what is under way ends first; nothing new begins
		}
	}
	if m := n.member.Load(); m != nil {
		errs = append(errs, m.Close(ctx))
	}
	errs = append(errs, n.store.Close())
	if n.plugins != nil {
		errs = append(errs, n.plugins.close())
	}
	if n.cursors != nil {
		errs = append(errs, n.cursors.Close())
	}
	for _, host := range []*wasmhost.Host{n.host, n.lent} {
		if host != nil {
			errs = append(errs, host.Close(ctx))
		}
	}
	return errors.Join(errs...)
}

var (
	errClosing  = errors.New("node is closing")
	errTooBusy  = errors.New("too many requests at once")
	errTooLarge = errors.New("the answer is too large to be ordered in memory; narrow the box, " +
		"set a limit or ask without order")
)

// take takes a place among those that work at the same time.
func take(places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	default:
		return errTooBusy
	}
}

// Put stores a batch; see [store.Store.Put].
func (n *Node) Put(
	ctx context.Context, b *record.Batch, w store.WriterSeq,
) (store.PutResult, error) {
	if n.closing.Load() {
		return store.PutResult{}, errClosing
	}
	if err := take(n.puts); err != nil {
		return store.PutResult{}, err
	}
	defer func() { <-n.puts }()
	n.host.Work()
	defer n.host.Rest()
	if m := n.member.Load(); m != nil {
		return n.putGroups(ctx, m, b, w)
	}
	if o := n.opt.Outbox; o != nil {
		return o.Put(ctx, b, func() (store.PutResult, error) { return n.store.Put(ctx, b, w) })
	}
	return n.store.Put(ctx, b, w)
}

// Horizon returns an acq below which nothing changes any more.
func (n *Node) Horizon(ctx context.Context) (int64, error) {
	return n.horizonOf(ctx, &record.Box{})
}

// Seal moves every row into sealed segments; see [store.Store.Seal].
func (n *Node) Seal(ctx context.Context) error { return n.store.Seal(ctx) }

// Settle is Seal, and waits until no merge is due.
func (n *Node) Settle(ctx context.Context) error { return n.store.Settle(ctx) }

// Rest does what the store does when nothing came for a minute; see [store.Store.Rest].
func (n *Node) Rest(ctx context.Context) error { return n.store.Rest(ctx) }

// StoreStats returns the figures of the store, with those of all replicas here.
func (n *Node) StoreStats() store.Stats { return n.tally.sum(n.stores) }
