// Package edge is a node at the edge of a network that comes and goes: it takes records and answers
// queries like any other node, and ships every record, once and in order for each device, to a
// core node or cluster when it can be reached.
//
// What has to be shipped is in the node's own store: what that holds from an acq on, read as a
// change feed. The outbox is a small file, which says where the next batch begins and ends before
// it is sent; so a batch that is sent again after a crash is the same one, and the core knows it by
// writer and sequence. The sequence is where the batch ends, so a core that was put back from an
// older copy says how much of this edge it has, and the rest is sent again. The package knows
// nothing of how a store keeps rows. Its main type is [Edge].
package edge

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/node"
	"github.com/pentad-db/pentad/node/cluster"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/sdk/record"
)

// Policy says what happens when more waits to be shipped than may.
type Policy uint8

// Policies.
const (
	Block      Policy = 0 // puts are refused until there is space
	DropOldest Policy = 1 // the oldest records go; gap records say so in their place
)

// ParsePolicy reads a policy as people write it.
func ParsePolicy(text string) (Policy, error) {
	switch text {
	case "block":
		return Block, nil
	case "drop-oldest":
		return DropOldest, nil
	}
	return 0, fmt.Errorf("%.80q: unknown policy; use block or drop-oldest", text)
}

const (
	defaultQuota = 1 << 30            // weeks of a reading a second from each of some ten devices
	defaultKeep  = 7 * 24 * time.Hour // as long as an operator may need to look at the edge itself
	defaultRetry = 30 * time.Second
	minQuota     = 1 << 16
	dirName      = "edge"
)

// Options of an edge node. Node.Dir is needed, and Upstream or Cluster.
type Options struct {
	Node node.Options // of the node itself; it is in no cluster
	// Upstream is host:port of the core node, or of any nodes of one cluster.
	Upstream []string
	// Cluster is how to find them by gossip instead, or as well: when it names a token file. The
	// edge is then seen in the cluster, and counts for nothing there.
	Cluster cluster.Config
	// Quota is how many bytes may wait to be shipped, payloads and 32 for each record; 1 GiB.
	Quota int64
	Full  Policy // what happens then
	// Keep is how long records stay here after they were shipped; 7 days; below 0: for ever. They
	// go in steps of a quarter of it, at least six hours.
	Keep        time.Duration
	BytesPerSec int64         // to ship at most; 0: no limit
	Retry       time.Duration // the longest pause before another try; 30 s
	Batch       int           // records to ship at once at most; 65,536

	forgetStep time.Duration  // tests do not wait for hours
	askEvery   time.Duration  // nor for minutes
	folder     durable.Folder // of the outbox; tests have one that loses power
}

func (o Options) withDefaults() (Options, error) {
	if o.Node.Dir == "" {
		return o, errors.New("edge: Options.Node.Dir is empty; name a directory")
	}
	if len(o.Upstream) == 0 && o.Cluster.TokenFile == "" {
		return o, errors.New("edge: Options.Upstream is empty; name the node to ship to, or the " +
			"token of a cluster in Options.Cluster")
	}
	if o.Node.Cluster.TokenFile != "" || o.Node.Shipper != nil {
		return o, errors.New("edge: Options.Node has a cluster or a shipper; an edge node holds " +
			"no replicas, so leave them out")
	}
	if o.Node.Logger == nil {
		o.Node.Logger = slog.New(slog.DiscardHandler)
	}
	o.Quota = cmp.Or(o.Quota, defaultQuota)
	o.Keep = cmp.Or(o.Keep, defaultKeep)
	o.Retry = cmp.Or(o.Retry, defaultRetry)
	o.Batch = cmp.Or(o.Batch, record.MaxBatchRecords)
	o.forgetStep = cmp.Or(o.forgetStep, max(o.Keep/4, 6*time.Hour))
	o.askEvery = cmp.Or(o.askEvery, askEvery)
	o.Batch = min(o.Batch, record.MaxBatchRecords)
	if o.Quota < minQuota || o.Full > DropOldest || o.BytesPerSec < 0 || o.Batch < 1 ||
		o.Retry < 0 {
		return o, fmt.Errorf("edge: quota %d, policy %d, %d bytes/s, batch %d, retry %v: the "+
			"quota is %d at least, nothing is negative", o.Quota, o.Full, o.BytesPerSec, o.Batch,
			o.Retry, minQuota)
	}
	return o, nil
}

// Edge is an open edge node: a [node.Node] whose puts are shipped.
//
// Goroutines: those of the node, one that ships, one that lets go what was shipped long ago, and
// with gossip its own and one that listens to it. Close ends them.
type Edge struct {
	*node.Node
	opt    Options
	log    *slog.Logger
	outbox *outbox
	meter  meter
	up     *upstream
	gossip *cluster.Gossip // nil without a cluster
	pace   pace
	run    context.Context // ends as the edge begins to close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	// moving is held while a batch is begun, while the oldest records are dropped or those that
	// were shipped are removed, and while the edge goes back: all change where the next batch
	// begins, or rely on it.
	moving    sync.Mutex
	refused   atomic.Int64 // bytes of the batch that the quota refused last
	lacked    atomic.Bool  // upstream had lost something since the start
	asked     time.Time    // when upstream was asked or took something last; of the one that ships
	maybeSent bool         // the batch in flight may have been sent before; of the one that ships
}

// Open opens the data, begins to take records and to ship them.
func Open(ctx context.Context, opt Options) (*Edge, error) {
	opt, err := opt.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Edge{opt: opt, log: opt.Node.Logger, meter: meter{counted: make(chan struct{})}}
	if e.up, err = newUpstream(opt.Upstream); err != nil {
		return nil, err
	}
	e.pace = pace{most: opt.Batch, rate: opt.BytesPerSec}
	if opt.folder == nil {
		dir := filepath.Join(opt.Node.Dir, dirName)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("make directory: %w", err)
		}
		opt.folder = durable.Dir(dir)
	}
	opt.Node.Shipper = (*shipper)(e)
	e.run, e.cancel = context.WithCancel(context.Background())
	if e.Node, err = node.Open(ctx, opt.Node); err != nil {
		e.cancel()
		return nil, err
	}
	if err := e.start(ctx, opt.folder); err != nil {
		return nil, errors.Join(err, e.Close(ctx))
	}
	return e, nil
}

func (e *Edge) start(ctx context.Context, dir durable.Folder) error {
	own, _, err := e.State(ctx)
	if err != nil {
		return err
	}
	if len(own.Policies) > 0 {
		return errors.New("edge: this node has retentions, which would remove records that were " +
			"never shipped; start it as a core node and remove them first: pentad retention list")
	}
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return fmt.Errorf("draw an id: %w", err)
	}
	if e.outbox, err = openOutbox(dir, own.Store, hex.EncodeToString(id[:])); err != nil {
		return err
	}
	if n := e.outbox.journal.Torn(); n > 0 {
		e.log.Warn("cut a torn end of the outbox: it was never relied on", "count", n)
	}
	if err := e.resume(ctx); err != nil {
		return err
	}
	if e.opt.Cluster.TokenFile != "" {
		if err := e.joinGossip(e.opt.Cluster); err != nil {
			return err
		}
		e.wg.Go(func() { e.watch(e.run) })
	}
	e.Publish(e.figures)
	e.wg.Go(func() { e.ship(e.run) })
	e.wg.Go(func() { e.forgetLoop(e.run) })
	return nil
}

// Close ends the shipping and the node. What was not shipped is when it is opened again.
func (e *Edge) Close(ctx context.Context) error {
	e.cancel()
	e.wg.Wait()
	if e.gossip != nil {
		_ = e.gossip.Close(ctx) // others find out by themselves
	}
	err := e.Node.Close(ctx)
	if e.outbox != nil {
		err = errors.Join(err, e.outbox.close())
	}
	return errors.Join(err, e.up.close())
}
