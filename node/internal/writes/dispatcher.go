package writes

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/pentad-db/pentad/node/internal/admission"
	"github.com/pentad-db/pentad/node/internal/clock"
	"github.com/pentad-db/pentad/node/internal/engine"
	"github.com/pentad-db/pentad/node/internal/member"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/puts"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/pentad-db/pentad/wasmhost"
)

// Shipper takes the puts of an edge node, which ships what it stores to another node.
type Shipper interface {
	// Put calls store, which stores the batch, unless too much waits to be shipped.
	Put(
		ctx context.Context, b *record.Batch, store func() (store.PutResult, error),
	) (store.PutResult, error)
}

// Options are what a dispatcher works with. All fields are needed unless they say otherwise; what
// they point to stays the caller's.
type Options struct {
	Store      *store.Store                   // the node's own
	Member     *atomic.Pointer[member.Member] // holds nil in a node that is in no cluster
	Engine     *engine.Engine
	Clock      *clock.Clock
	NativeWork *wasmhost.NativeWork
	Shipper    Shipper         // nil: the node is not an edge node
	Open       context.Context // ends when the node begins to close
	MaxPuts    int             // concurrent puts, at most
}

// Dispatcher takes all writes of a node: it hands them to the node's store, or in a cluster to the
// groups. All methods may be called from many goroutines.
type Dispatcher struct {
	opt  Options
	puts admission.Permits
	// Writers are for puts whose clients name none.
	Writers puts.WriterPool
}

// NewDispatcher returns the dispatcher of a node.
func NewDispatcher(opt Options) *Dispatcher {
	return &Dispatcher{opt: opt, puts: admission.NewPermits(opt.MaxPuts)}
}

// Puts returns the number of puts in flight.
func (d *Dispatcher) Puts() int { return len(d.puts) }

// Drain waits for puts in flight. None begins afterwards.
func (d *Dispatcher) Drain() { d.puts.Drain() }

// begin acquires a permit for a put. The caller releases it.
func (d *Dispatcher) begin() error {
	if err := d.checkOpen(); err != nil {
		return err
	}
	if !d.puts.TryAcquire() {
		return nodeerror.ErrTooBusy
	}
	return nil
}

func (d *Dispatcher) checkOpen() error {
	if d.opt.Open.Err() != nil {
		return nodeerror.ErrClosing
	}
	return nil
}

// groups returns the groups of the cluster.
func (d *Dispatcher) groups(m *member.Member) Groups { return NewGroups(m, &d.Writers) }

// Put stores a batch; see [store.Store.Put].
func (d *Dispatcher) Put(
	ctx context.Context, b *record.Batch, w store.WriterSeq,
) (store.PutResult, error) {
	return d.put(ctx, b, w, nil, d.opt.Store.Put, func(duplicatePart) {})
}

// PutUnlessNewer is Put of descriptions that were made from older ones; see
// [store.Store.PutUnlessNewer]. In a cluster each group stores its part of the batch or refuses it.
func (d *Dispatcher) PutUnlessNewer(
	ctx context.Context, b *record.Batch, w store.WriterSeq, newestNs int64,
) (store.PutResult, error) {
	return d.put(ctx, b, w, &newestNs,
		func(
			ctx context.Context, b *record.Batch, w store.WriterSeq,
		) (store.PutResult, error) {
			return d.opt.Store.PutUnlessNewer(ctx, b, w, newestNs)
		}, func(duplicatePart) {})
}

// PutAfter is Put for a writer whose sequence must follow another one; see [store.Store.PutAfter].
func (d *Dispatcher) PutAfter(
	ctx context.Context, b *record.Batch, w store.WriterSeq, previous uint64,
) (store.PutResult, error) {
	return d.put(ctx, b, w, nil,
		func(
			ctx context.Context, b *record.Batch, w store.WriterSeq,
		) (store.PutResult, error) {
			return d.opt.Store.PutAfter(ctx, b, w, previous)
		}, func(duplicatePart) {})
}

// put stores a batch in groups of a cluster, or of a node by itself with putToStore. It calls
// onDuplicate for each part that was stored under the writer before.
func (d *Dispatcher) put(
	ctx context.Context, b *record.Batch, w store.WriterSeq, newestNs *int64,
	putToStore func(context.Context, *record.Batch, store.WriterSeq) (store.PutResult, error),
	onDuplicate func(duplicatePart),
) (out store.PutResult, err error) {
	if err := d.begin(); err != nil {
		return out, err
	}
	defer d.puts.Release()
	d.opt.NativeWork.Begin()
	defer d.opt.NativeWork.End()
	if !w.Persistent {
		if err := d.checkNames(ctx, b, newestNs != nil); err != nil {
			return out, err
		}
	}
	if m := d.opt.Member.Load(); m != nil {
		return d.groups(m).put(ctx, b, w, newestNs, onDuplicate)
	}
	if shipper := d.opt.Shipper; shipper != nil {
		if !w.Persistent && claimsNames(b) {
			return out, refuseEdgeNames()
		}
		out, err = shipper.Put(ctx, b, func() (store.PutResult, error) {
			return putToStore(ctx, b, w)
		})
	} else {
		out, err = putToStore(ctx, b, w)
	}
	if err == nil && out.Duplicate {
		onDuplicate(duplicatePart{put: out})
	}
	return out, err
}

// refuseEdgeNames keeps an edge node from giving ids that the node which it ships to gives to other
// devices: readings of two devices would become those of one there.
func refuseEdgeNames() error {
	return &wire.Error{Kind: wire.KindForbidden, Message: "an edge node gives no names to " +
		"devices: name them at the node that it ships to, and put their readings here by id"}
}

func claimsNames(b *record.Batch) bool {
	return slices.ContainsFunc(b.MOID, func(moid int32) bool {
		return moid == record.NameMOID || moid == record.IDBlockMOID ||
			moid == record.DeviceNameMOID
	})
}

// Follows checks the sequence before one that PutAfter would use; see [store.Store.Follows].
func (d *Dispatcher) Follows(writer record.Writer, previous uint64) error {
	if err := d.checkOpen(); err != nil {
		return err
	}
	if d.opt.Member.Load() != nil {
		return nil
	}
	return d.opt.Store.Follows(writer, previous)
}

// rejectOnEdge rejects operations on an edge node that would make it differ from what it has
// shipped.
func (d *Dispatcher) rejectOnEdge() error {
	if d.opt.Shipper == nil {
		return nil
	}
	return &wire.Error{Kind: wire.KindForbidden, Message: "an edge node takes puts and " +
		"tombstones, stamps them itself, and keeps what upstream does not have yet: stamped " +
		"puts, copies, erases, purges and retentions are for upstream; see sdk/docs/edge.md"}
}
