package node

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/pentad-db/pentad/wasmhost"
)

// errEnough ends a scan that has reached its limit.
var errEnough = errors.New("limit reached")

// Query runs a query for records to its end and hands them to emit in batches that are valid during
// the call, one at a time. emit's error ends the query and is returned.
func (n *Node) Query(
	ctx context.Context, q *record.Query, emit func(b *record.Batch) error,
) (wire.End, error) {
	ctx, err := n.begin(ctx, q)
	if err != nil {
		return wire.End{}, err
	}
	defer func() { <-n.queries }()
	if len(q.Filters) == 0 {
		n.host.Work()
		defer n.host.Rest()
	} else {
		var done func()
		ctx, done = n.owned(ctx, q)
		defer done()
	}
	out := output{q: q, emit: emit, budget: n.opt.ResultBytes}
	var end wire.End
	if only := n.layout.Load().only; only != nil {
		end, err = only.rows(ctx, q, out.add)
	} else {
		end, err = n.rowsOfAll(ctx, q, out.add)
	}
	if err != nil && !errors.Is(err, errEnough) {
		n.failed(q, err)
		return wire.End{}, err
	}
	if err := out.finish(); err != nil {
		return wire.End{}, err
	}
	end.Rows = out.rows
	return end, nil
}

// Count returns how many records a query finds, without limit and order.
func (n *Node) Count(ctx context.Context, q *record.Query) (uint64, wire.End, error) {
	ctx, err := n.begin(ctx, q)
	if err != nil {
		return 0, wire.End{}, err
	}
	defer func() { <-n.queries }()
	if len(q.Filters) == 0 {
		n.host.Work()
		defer n.host.Rest()
	} else {
		var done func()
		ctx, done = n.owned(ctx, q)
		defer done()
	}
	var end wire.End
	if only := n.layout.Load().only; only != nil {
		end, err = only.count(ctx, q)
	} else {
		end, err = n.countOfAll(ctx, q)
	}
	if err != nil {
		n.failed(q, err)
		return 0, wire.End{}, err
	}
	return end.Rows, end, nil
}

// begin takes a place among the queries, which the caller gives back when there is no error.
func (n *Node) begin(ctx context.Context, q *record.Query) (context.Context, error) {
	if n.closing.Load() {
		return ctx, errClosing
	}
	if err := q.Normalize(); err != nil {
		return ctx, err
	}
	if err := take(n.queries); err != nil {
		return ctx, err
	}
	ctx, err := n.reach(ctx, q)
	if err != nil {
		<-n.queries
	}
	return ctx, err
}

// precheck returns what a query would fail with before it begins, so that an answer which is a
// stream has the status of an error and not an error inside. Until done, which is never nil,
// modules that it brought need not be compiled again.
func (n *Node) precheck(q *record.Query) (done func(), err error) {
	if n.closing.Load() {
		return func() {}, errClosing
	}
	if len(n.queries) == cap(n.queries) {
		return func() {}, errTooBusy
	}
	if err := n.checkAsOf(n.open, q); err != nil {
		return func() {}, err
	}
	modules, err := n.useFilters(n.open, q)
	if err != nil {
		n.releaseFilters(modules)
		return func() {}, err
	}
	return func() { n.releaseFilters(modules) }, nil
}

// useFilters returns the modules of the filters of a query, in their order, and what is to be
// released of them with an error, too.
func (n *Node) useFilters(ctx context.Context, q *record.Query) ([]*pluginVersion, error) {
	modules := make([]*pluginVersion, 0, len(q.Filters))
	for i := range q.Filters {
		v, err := n.plugins.useCall(ctx, &q.Filters[i], plugin.KindFilter)
		if err != nil {
			return modules, err
		}
		modules = append(modules, v)
	}
	return modules, nil
}

func (n *Node) releaseFilters(modules []*pluginVersion) {
	for _, v := range modules {
		n.plugins.release(v)
	}
}

func endOf(s store.ScanStats, rows uint64) wire.End {
	return wire.End{Complete: true, HorizonNs: s.HorizonNs, Rows: rows,
		BlocksScanned: s.BlocksScanned, RowsExamined: s.RowsExamined, TookNs: s.TookNs,
		PurgedAcqNs: s.PurgedAcqNs}
}

// owned says for whom plugins run, as slots for guest calls are shared fairly: for a tenant, all of
// whose queries are one, or for a query of several tenants. Owner 0 is whoever loads modules.
// done is called at the end, when no instance is left.
func (n *Node) owned(
	ctx context.Context, q *record.Query,
) (ownedCtx context.Context, done func()) {
	if cids := q.Box[record.CID]; len(cids) == 1 && cids[0].To == cids[0].From+1 {
		return wasmhost.WithOwner(ctx, 1+uint64(uint32(cids[0].From))), func() {}
	}
	owner := 1<<32 + n.wideQueries.Add(1)
	return wasmhost.WithQuery(ctx, owner, tenantsKey(q.Box[record.CID])),
		func() { n.host.Forget(owner) }
}

// tenantsKey is one for all queries of the same tenants, and none of one tenant.
func tenantsKey(cids record.RangeSet) uint64 {
	var b []byte
	for _, r := range cids {
		b = binary.LittleEndian.AppendUint64(b, uint64(r.From))
		b = binary.LittleEndian.AppendUint64(b, uint64(r.To))
	}
	sum := sha256.Sum256(b)
	return 1<<63 | binary.LittleEndian.Uint64(sum[:])
}

// newSink makes the sink of a worker, and says how many of the first bytes of payloads it looks at,
// 0 for all.
type newSink func(worker int) (sink store.Sink, front uint32, err error)

// sinks is what a worker gives rows to: the sink that [newSink] makes, and where parts of blocks go
// apart, nil if nowhere.
type sinks struct {
	rows  store.Sink
	front uint32
	parts store.Apart
	room  func(beside bool) []byte // where payloads may lie, nil for anywhere
	leave func()                   // see [store.Taker]
}

// scan runs the store's scan with the filters of the query before each sink, in their order. Sinks
// look at those parts of rows only.
func (n *local) scan(
	ctx context.Context, q *record.Query, parts segment.Parts, newSink newSink,
) (store.ScanStats, error) {
	return n.scanApart(ctx, q, parts, nil, func(worker int) (s sinks, err error) {
		s.rows, s.front, err = newSink(worker)
		return s, err
	})
}

// scanApart is scan for who keeps states of parts of blocks.
func (n *local) scanApart(
	ctx context.Context, q *record.Query, parts segment.Parts, keep *keeping,
	newSinks func(worker int) (sinks, error),
) (store.ScanStats, error) {
	modules, err := n.useFilters(ctx, q)
	defer n.releaseFilters(modules)
	if err != nil {
		return store.ScanStats{}, err
	}
	if keep != nil {
		keep.identify(q, modules)
	}
	whole := *q
	whole.KeysOnly = false // plugins may look at payloads; parts says who does
	read := parts
	for _, m := range modules {
		read |= m.parts
	}
	stats, err := n.scanChain(ctx, &whole, modules, parts, newSinks)
	var guest *wasmhost.Error
	if errors.As(err, &guest) && guest.Rows > 0 && read&segment.Keys != segment.Keys {
		// The error names a record, whose key was not read: it may be of any other query. Nobody
		// sees rows of the second scan.
		guest.Rows, guest.Exact, guest.First, guest.Last = 0, false, record.Key{}, record.Key{}
		_, again := n.scanChain(ctx, &whole, modules, parts|segment.Keys, newSinks)
		if errors.As(again, &guest) {
			err = again
		}
	}
	return stats, err
}

// scanChain scans with the filters in modules before sinks that look at those parts. What instances
// say of their parameters is also asked where there is nothing to scan.
func (n *local) scanChain(
	ctx context.Context, q *record.Query, modules []*pluginVersion, parts segment.Parts,
	newSinks func(worker int) (sinks, error),
) (store.ScanStats, error) {
	var filters []*wasmhost.Filter
	defer func() {
		for _, f := range filters {
			_ = f.Close() // its failures were returned by Keep
		}
	}()
	chain := func(worker int) (sinks, segment.Parts, error) {
		to, err := newSinks(worker)
		if err != nil {
			return sinks{}, 0, err
		}
		read := parts.Front(to.front) // what the next filter and all behind it look at
		for i := len(modules) - 1; i >= 0; i-- {
			f, err := modules[i].module.NewFilter(ctx, q.Filters[i].Params)
			if err != nil {
				return sinks{}, 0, err
			}
			filters = append(filters, f)
			to.rows = filtered(ctx, f, read, to.rows)
			read = read.Union(modules[i].parts.Front(f.Front()))
		}
		return to, read, nil
	}
	made := false
	stats, err := n.store.ScanInto(ctx, q, func(worker int) (store.Taker, error) {
		made = true
		to, read, err := chain(worker)
		out := store.Taker{Rows: to.rows, Parts: read, Apart: to.parts, Leave: to.leave}
		// Elsewhere there would be payloads in it of rows that the aggregate is not to see.
		if len(modules) == 0 && q.View == record.ViewAll {
			out.Room = to.room
		}
		return out, err
	})
	if !made && err == nil {
		_, _, err = chain(0)
	}
	return stats, err
}

// output brings the rows of all workers into the order and limit of the query.
type output struct {
	q      *record.Query
	emit   func(b *record.Batch) error
	budget int64

	mu     sync.Mutex // guards all below
	rows   uint64
	chosen []record.Record // with an order: the rows so far
	bytes  int64
}

// add takes a batch from a worker.
func (o *output) add(b *record.Batch) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.q.Order != record.OrderNone {
		return o.collect(b)
	}
	if o.q.Limit > 0 && o.rows+uint64(b.Len()) > o.q.Limit {
		b = b.Head(int(o.q.Limit - o.rows))
	}
	if b.Len() > 0 {
		o.rows += uint64(b.Len())
		if err := o.emit(o.projected(b)); err != nil {
			return err
		}
	}
	if o.q.Limit > 0 && o.rows >= o.q.Limit {
		return errEnough
	}
	return nil
}

// projected leaves payloads out when the query asks for keys, also after a filter that saw them.
func (o *output) projected(b *record.Batch) *record.Batch {
	if !o.q.KeysOnly || len(b.Data) == 0 {
		return b
	}
	return &record.Batch{CID: b.CID, MID: b.MID, MOID: b.MOID, CapNs: b.CapNs, AcqNs: b.AcqNs,
		Tombs: b.Tombs}
}

// rowBytes is what a collected row takes beside its payload.
const rowBytes = 64

func (o *output) collect(b *record.Batch) error {
	data := slices.Clone(b.Data)
	if o.q.KeysOnly {
		data = nil
	}
	for i := range b.Len() {
		r := record.Record{Key: b.Key(i), Tomb: b.Tomb(i)}
		if data != nil && !r.Tomb {
			at, end := i*b.Stride, (i+1)*b.Stride
			if b.Offsets != nil {
				at, end = int(b.Offsets[i]), int(b.Offsets[i+1])
			}
			r.Payload = data[at:end:end]
		}
		o.chosen = append(o.chosen, r)
		o.bytes += rowBytes + int64(len(r.Payload))
	}
	if limit := o.q.Limit; limit > 0 && uint64(len(o.chosen)) > 4*limit+sortSlack {
		o.cut()
	}
	if o.bytes > o.budget {
		return errTooLarge
	}
	return nil
}

// sortSlack keeps small limits from sorting after every batch.
const sortSlack = 1 << 16

// cut sorts what was collected and drops what lies beyond the limit.
func (o *output) cut() {
	compare := record.Key.Compare
	if o.q.Order == record.OrderAcq {
		compare = func(a, b record.Key) int {
			return cmp.Or(cmp.Compare(a.AcqNs, b.AcqNs), a.Compare(b))
		}
	}
	slices.SortFunc(o.chosen, func(a, b record.Record) int { return compare(a.Key, b.Key) })
	if o.q.Limit == 0 || uint64(len(o.chosen)) <= o.q.Limit {
		return
	}
	// Payloads are copied: they alias the whole batches that they came with.
	o.chosen = slices.Clone(o.chosen[:o.q.Limit])
	o.bytes = 0
	for i := range o.chosen {
		o.chosen[i].Payload = slices.Clone(o.chosen[i].Payload)
		o.bytes += rowBytes + int64(len(o.chosen[i].Payload))
	}
}

// emitRows is how many ordered rows are emitted at once.
const emitRows = 4096

func (o *output) finish() error {
	if o.q.Order == record.OrderNone {
		return nil
	}
	o.cut()
	var b record.Batch
	for i, r := range o.chosen {
		if r.Tomb {
			b.AppendStampedTomb(r.Key)
		} else {
			b.AppendStamped(r.Key, r.Payload)
		}
		if b.Len() == emitRows || len(b.Data) > record.MaxPayloadBytes/2 || i == len(o.chosen)-1 {
			o.rows += uint64(b.Len())
			if err := o.emit(&b); err != nil {
				return err
			}
			b.Reset()
		}
	}
	return nil
}
