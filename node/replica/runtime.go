package replica

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/internal/accept"
	"github.com/pentad-db/pentad/node/internal/durable"
)

// Options of a runtime. Node, Files, Listener, Resolve and either TLS or PlainTCP are needed.
type Options struct {
	// Node is this node's number, 1 to 2^40-1.
	Node uint64
	// Cluster is a number that all nodes of a cluster share; others are hung up on.
	Cluster uint64
	// Files is the directory of the shared log, which has no other user; see Directory.
	Files durable.Folder
	// Listener takes the connections of other nodes; Close closes it. It is tried again after
	// errors, see package accept.
	Listener net.Listener
	// Resolve returns the present address of a node. It must not block.
	Resolve func(node uint64) (address string, ok bool)
	// TLS has this node's certificate, with TLSName of it among its names, and as RootCAs and
	// ClientCAs who vouches for those of the others.
	TLS *tls.Config
	// PlainTCP does without TLS: for tests, on loopback.
	PlainTCP bool
	// Groups that are expected, by which memory and log are shared out; default 16.
	Groups int
	// QuotaBytes bounds what waits for the disk and for machines; default 256 MiB.
	QuotaBytes int64
	// SnapshotBytesPerSec bounds what is sent of snapshots; default 64 MiB a second, which leaves
	// most of a disk and of a gigabit line to everything else.
	SnapshotBytesPerSec int64
	// Starts, Copied and Trust say how this process comes after those that had the directory
	// before; see CoreOptions.
	Starts        []uint64
	Copied, Trust bool
	// Fail is called once when the log has failed or the disk has not answered for 10 s. The
	// process must end then: a second attempt may be told that bytes are there that are not.
	Fail func(error)
	// Elected is told when the replica of a group here hears of a leader that it did not follow
	// before, itself included. It must not block.
	Elected func(group GroupID)
	// MayLead reports whether replicas here may lead; default is yes. See CoreOptions.
	MayLead func() bool
	// Heard takes a note of another node, see SendNote, on the goroutine that hears the node, and
	// returns one to answer with, if any. It must not block, nor keep the note; default is nothing.
	Heard func(node uint64, note []byte) (answer []byte)
	// Answer answers what other nodes Ask, many at once; default is to refuse. The request is its
	// own, the answer the runtime's. Close waits for it.
	Answer func(request []byte) []byte
}

// tickTime is the library's unit of time: a leader that is gone is missed after ten to twenty.
const tickTime = 50 * time.Millisecond

// Runtime is a Core with goroutines and connections: one goroutine for each worker, one that
// writes the log, some that run machines, one that ticks, and those of the connections, which are
// one for each peer, two for each file that is fetched and one for each request that is answered.
// Close waits for all of them.
type Runtime struct {
	core      *Core
	transport *transport
	closing   chan struct{}
	once      sync.Once
	wg        sync.WaitGroup
	wake      map[Part]chan struct{}
}

func (o *Options) validate() error {
	switch {
	case o.Listener == nil || o.Resolve == nil:
		return errors.New("open replicas: Listener or Resolve is missing")
	case (o.TLS == nil) != o.PlainTCP:
		return errors.New("open replicas: either TLS is given or PlainTCP is set")
	}
	if _, tries := o.Listener.(*accept.Listener); !tries {
		o.Listener = accept.New(o.Listener, nil)
	}
	if o.TLS != nil {
		o.TLS = o.TLS.Clone()
		o.TLS.ClientAuth, o.TLS.MinVersion = tls.RequireAndVerifyClientCert, tls.VersionTLS13
	}
	if o.SnapshotBytesPerSec <= 0 {
		o.SnapshotBytesPerSec = 64 << 20
	}
	return nil
}

// Open opens the log of a node and begins to listen. Groups run once they are started.
func Open(opt Options) (*Runtime, Report, error) {
	if err := opt.validate(); err != nil {
		return nil, Report{}, err
	}
	workers := min(4, runtime.GOMAXPROCS(0))
	appliers := workers + maxTransfers // those that install a snapshot are away for long
	r := &Runtime{closing: make(chan struct{}), wake: map[Part]chan struct{}{
		Flusher: make(chan struct{}, 1), Applier: make(chan struct{}, appliers)}}
	for i := range workers {
		r.wake[Part(i)] = make(chan struct{}, 1)
	}
	r.transport = newTransport(opt)
	core, report, err := OpenCore(CoreOptions{Node: opt.Node, Files: opt.Files,
		Network: r.transport, Starts: opt.Starts, Copied: opt.Copied, Trust: opt.Trust,
		Workers: workers, Groups: opt.Groups, QuotaBytes: opt.QuotaBytes,
		Fail: opt.Fail, Elected: opt.Elected, MayLead: opt.MayLead, Wake: func(part Part) {
			select {
			case r.wake[part] <- struct{}{}:
			default:
			}
		}})
	if err != nil {
		return nil, report, err
	}
	r.core, r.transport.core = core, core
	for i := range workers {
		r.wg.Go(func() { r.loop(Part(i), func() bool { return core.StepWorker(Part(i)) }) })
	}
	r.wg.Go(func() { r.loop(Flusher, core.StepFlusher) })
	for range appliers {
		r.wg.Go(func() { r.loop(Applier, core.StepApplier) })
	}
	r.wg.Go(r.tick)
	r.transport.wg.Go(r.transport.listen)
	return r, report, nil
}

func (r *Runtime) loop(part Part, step func() bool) {
	for {
		select {
		case <-r.closing:
			return
		case <-r.wake[part]:
			runtime.Gosched() // who has more for it goes first: less is done one by one
		}
		for step() {
			select {
			case <-r.closing:
				return
			default:
			}
		}
	}
}

// tick lets time pass: in pairs of ticks while all groups rest.
func (r *Runtime) tick() {
	t := time.NewTicker(tickTime)
	defer t.Stop()
	for pairs := false; ; {
		select {
		case <-r.closing:
			return
		case <-t.C:
			r.core.Tick()
		}
		if pairs {
			r.core.Tick()
		}
		if rest := r.core.IsIdle(); rest != pairs {
			if pairs = rest; rest {
				t.Reset(restTicks * tickTime)
			} else {
				t.Reset(tickTime)
			}
		}
	}
}

// Close stops everything, answers all that wait, and closes listener and log. Machines are not
// used any more when it returns; to close them is the owner's.
func (r *Runtime) Close() error {
	err := ErrClosed
	r.once.Do(func() {
		close(r.closing)
		r.transport.close()
		r.wg.Wait()
		err = r.core.Close()
	})
	return err
}

// await waits for the answer of a callback. A caller that goes away does not learn what happens.
func await[T any](ctx context.Context, r *Runtime, start func(done func(T, error))) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	answer := make(chan outcome, 1)
	start(func(value T, err error) { answer <- outcome{value, err} })
	var none T
	select {
	case o := <-answer:
		return o.value, o.err
	case <-ctx.Done():
		return none, fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
	case <-r.closing:
		return none, fmt.Errorf("%w: %w", ErrUnknown, ErrClosed)
	}
}

func plain(start func(done func(error))) func(done func(struct{}, error)) {
	return func(done func(struct{}, error)) {
		start(func(err error) { done(struct{}{}, err) })
	}
}

// Groups returns the replicas that the log has on this node, by their groups.
func (r *Runtime) Groups() map[GroupID]uint64 { return r.core.Groups() }

// Create notes a replica of a group in the log; it returns when that is durable. See Core.Create.
func (r *Runtime) Create(
	ctx context.Context, group GroupID, replica uint64, voters []uint64,
) error {
	_, err := await(ctx, r, plain(func(done func(error)) {
		r.core.Create(group, replica, voters, done)
	}))
	return err
}

// Start lets a replica that was created take part. The machine is the runtime's until Close or
// Drop returns.
func (r *Runtime) Start(group GroupID, m Machine) error { return r.core.Start(group, m) }

// Drop ends a replica for ever. See Core.Drop.
func (r *Runtime) Drop(ctx context.Context, group GroupID) error {
	_, err := await(ctx, r, plain(func(done func(error)) { r.core.Drop(group, done) }))
	return err
}

// Propose asks the group to apply data, parts that are joined and copied, and returns what the
// machine here answered to it. See Core.Propose for its errors; when ctx ends first it is
// ErrUnknown.
func (r *Runtime) Propose(ctx context.Context, group GroupID, data ...[]byte) (any, error) {
	return r.ProposeIn(ctx, group, nil, nil, data...)
}

// ProposeIn is Propose of data that is stamped in the tenure of the leader. Unless ended is nil it
// is called once it is known what became of the proposal, which may be after ctx has ended; it must
// not block. See Core.ProposeIn.
func (r *Runtime) ProposeIn(
	ctx context.Context, group GroupID, stamp Stamp, ended func(), data ...[]byte,
) (any, error) {
	return await(ctx, r, func(done func(any, error)) {
		r.core.ProposeIn(group, data, stamp, func(result any, err error) {
			if ended != nil {
				ended()
			}
			done(result, err)
		})
	})
}

// Lead calls do for those of some groups that are led here, and returns after the last, or when ctx
// ends before. See Core.Lead.
func (r *Runtime) Lead(
	ctx context.Context, groups []GroupID, do func(group GroupID, t Tenure),
) error {
	_, err := await(ctx, r, plain(func(done func(error)) {
		r.core.Lead(groups, do, func() { done(nil) })
	}))
	return err
}

// ReadIndex returns when everything that was acknowledged before the call is applied here, on any
// replica of the group, with an index that contains it.
func (r *Runtime) ReadIndex(ctx context.Context, group GroupID) (uint64, error) {
	return await(ctx, r, func(done func(uint64, error)) { r.core.ReadIndex(group, done) })
}

// Change asks the leader to change who belongs to the group. See Core.Change.
func (r *Runtime) Change(ctx context.Context, group GroupID, change Change) error {
	_, err := await(ctx, r, plain(func(done func(error)) { r.core.Change(group, change, done) }))
	return err
}

// TransferLeader asks the leader, if it is here, to let another voter lead.
func (r *Runtime) TransferLeader(group GroupID, to uint64) { r.core.TransferLeader(group, to) }

// SetSnapshotRate changes what Options.SnapshotBytesPerSec says, which is more than 0.
func (r *Runtime) SetSnapshotRate(bytesPerSec int64) { r.transport.pace.set(bytesPerSec) }

// MayLead reports whether replicas here may lead. See Core.MayLead.
func (r *Runtime) MayLead() bool { return r.core.MayLead() }

// NoSpace returns a durable.ErrNoSpace while the log waits for space on the disk, nil else.
func (r *Runtime) NoSpace() error { return r.core.NoSpace() }

// CheckFiles looks whether the files of the log are still there. See Core.CheckFiles.
func (r *Runtime) CheckFiles() { r.core.CheckFiles() }

// MistakenNode returns the node of the same cluster that last looked for another node at the
// address of this one; 0: none has. Then the cluster knows this address from a node that was here
// before.
func (r *Runtime) MistakenNode() uint64 { return r.transport.mistaken.Load() }

// Verify reads what the log has at rest. See Core.Verify.
func (r *Runtime) Verify(ctx context.Context, pace func(ctx context.Context, n, all int64) error,
	damaged func(group GroupID, err error)) error {
	return r.core.Verify(ctx, pace, damaged)
}

// LogBytes returns the size of the shared log.
func (r *Runtime) LogBytes() int64 {
	_, bytes := r.core.journal.extent()
	return bytes
}

// Status returns what is known of the replica of a group here.
func (r *Runtime) Status(group GroupID) (Status, error) { return r.core.Status(group) }
