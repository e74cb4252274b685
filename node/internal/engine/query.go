package engine

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"github.com/pentad-db/pentad/node/internal/aggregate"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/pentad-db/pentad/wasmhost"
)

// ErrLimitReached ends a scan that has reached its limit.
var ErrLimitReached = errors.New("limit reached")

// Query runs a query for records and passes them to emit, one batch at a time, each valid during
// the call. An error of emit ends the query and is returned.
func (e *Engine) Query(
	ctx context.Context, options request.Options, q *record.Query,
	emit func(b *record.Batch) error,
) (wire.End, error) {
	p, err := e.prepareCall(ctx, options, q)
	if err != nil {
		return wire.End{}, err
	}
	defer p.Done()
	return p.Rows(ctx, emit)
}

// Rows is [Engine.Query] for a query that was admitted.
func (a *Admitted) Rows(
	ctx context.Context, emit func(b *record.Batch) error,
) (wire.End, error) {
	a.output.emit = emit
	return a.engine.queryInto(ctx, a)
}

// Frames is Rows with rows encoded as frames, which are valid during the call.
func (a *Admitted) Frames(
	ctx context.Context, write func(frames []byte) error,
) (wire.End, error) {
	a.output.write = write
	a.output.emit = func(b *record.Batch) error {
		frames, err := rowFrames(b)
		if err != nil {
			return err
		}
		defer freeFrames(frames)
		return write(*frames)
	}
	return a.engine.queryInto(ctx, a)
}

// queryInto runs a query for its output.
func (e *Engine) queryInto(ctx context.Context, a *Admitted) (wire.End, error) {
	out := &a.output
	out.q = a.Query
	ctx, q, share, err := e.begin(ctx, &a.prepared)
	if err != nil {
		return wire.End{}, err
	}
	defer share.End()
	if len(q.Filters) == 0 {
		e.nativeWork.Begin()
		defer e.nativeWork.End()
	} else {
		var done func()
		q, done = e.withGuestOwner(q)
		defer done()
	}
	if out.sorter = e.sorterOf(q.Query); out.sorter != nil {
		defer out.sorter.Close()
	}
	add := func(b *record.Batch) error { return out.add(ctx, b) }
	var end wire.End
	if only := e.routes.Load().single; only != nil {
		end, err = only.rows(ctx, q, add, out.sorter)
	} else {
		end, err = e.rowsOfAll(ctx, q, add, out.sorter)
	}
	if err != nil && !errors.Is(err, ErrLimitReached) {
		e.notePluginFailure(q.Query, err)
		return wire.End{}, err
	}
	if err := out.finish(ctx); err != nil {
		return wire.End{}, err
	}
	end.Rows = out.rows
	return end, nil
}

// Count returns the number of records that a query finds, without limit and order.
func (e *Engine) Count(
	ctx context.Context, options request.Options, q *record.Query,
) (uint64, wire.End, error) {
	p, err := e.prepareCall(ctx, options, q)
	if err != nil {
		return 0, wire.End{}, err
	}
	defer p.Done()
	return e.count(ctx, &p.prepared)
}

func (e *Engine) count(ctx context.Context, q *prepared) (uint64, wire.End, error) {
	ctx, q, share, err := e.begin(ctx, q)
	if err != nil {
		return 0, wire.End{}, err
	}
	defer share.End()
	if len(q.Filters) == 0 {
		e.nativeWork.Begin()
		defer e.nativeWork.End()
	} else {
		var done func()
		q, done = e.withGuestOwner(q)
		defer done()
	}
	var end wire.End
	if only := e.routes.Load().single; only != nil {
		end, err = only.count(ctx, q)
	} else {
		end, err = e.countOfAll(ctx, q)
	}
	if err != nil {
		e.notePluginFailure(q.Query, err)
		return 0, wire.End{}, err
	}
	return end.Rows, end, nil
}

func endOf(s store.ScanStats, rows uint64) wire.End {
	return wire.End{Complete: true, HorizonNs: s.HorizonNs, Rows: rows,
		BlocksScanned: s.BlocksScanned, RowsExamined: s.RowsExamined, TookNs: s.TookNs,
		HistoryChangedAcqNs: s.HistoryChangedAcqNs}
}

// withGuestOwner returns the query with the owner of its guest calls, among whom permits for these
// are shared fairly: the tenant, or the query itself if it is over several tenants. The zero owner
// is for loading modules. done is called at the end, when no instance is left.
func (e *Engine) withGuestOwner(q *prepared) (owned *prepared, done func()) {
	p := *q
	if cids := q.Box[record.CID]; len(cids) == 1 && cids[0].To == cids[0].From+1 {
		p.guestOwner = wasmhost.OwnerOf(1 + uint64(uint32(cids[0].From)))
		return &p, func() {}
	}
	p.guestOwner = wasmhost.Owner{Key: 1<<32 + e.wideQueries.Add(1),
		Pool: tenantsKey(q.Box[record.CID])}
	return &p, func() {
		if e.host != nil {
			e.host.Forget(p.guestOwner.Key)
		}
	}
}

// tenantsKey is the same for all queries over the same set of tenants, and no tenant's.
func tenantsKey(cids record.RangeSet) uint64 {
	var b []byte
	for _, r := range cids {
		b = binary.LittleEndian.AppendUint64(b, uint64(r.From))
		b = binary.LittleEndian.AppendUint64(b, uint64(r.To))
	}
	sum := sha256.Sum256(b)
	return 1<<63 | binary.LittleEndian.Uint64(sum[:])
}

// newSink makes the sink of a worker, and returns how many leading bytes of payloads it reads,
// 0 for all.
type newSink func(worker int) (sink store.Sink, payloadPrefix uint32, err error)

// sinks are the consumers of a worker's rows: the sink that [newSink] makes, and the one of
// partials, nil for none.
type sinks struct {
	rows          store.Sink
	payloadPrefix uint32
	partials      store.PartialSink
	payloadBuffer func(inUse bool) []byte // buffer for payloads in guest memory, nil for none
	done          func()                  // see [store.Consumer]
}

// scan runs the store's scan with the filters of the query, in their order, before each sink. Sinks
// read only those columns of rows.
func (l *localSource) scan(
	ctx context.Context, q *prepared, columns segment.Columns, newSink newSink,
) (store.ScanStats, error) {
	return l.scanPartials(ctx, q, columns, nil, func(worker int) (s sinks, err error) {
		s.rows, s.payloadPrefix, err = newSink(worker)
		return s, err
	})
}

// scanPartials is scan for sinks of partials.
func (l *localSource) scanPartials(
	ctx context.Context, q *prepared, columns segment.Columns, partialCache *aggregate.PartialCache,
	newSinks func(worker int) (sinks, error),
) (store.ScanStats, error) {
	modules := q.filters
	if partialCache != nil {
		partialCache.SetKey(q.Query, modules)
	}
	whole := q.Query
	if whole.KeysOnly { // plugins may read payloads, see columns
		copied := *whole
		whole, copied.KeysOnly = &copied, false
	}
	read := columns
	for _, m := range modules {
		read |= m.Columns
	}
	stats, err := l.scanChain(ctx, q, whole, columns, newSinks)
	if err == nil {
		return stats, nil
	}
	var guest *wasmhost.Error
	if errors.As(err, &guest) && guest.Rows > 0 && read&segment.Keys != segment.Keys {
		// The error names a record whose key was not read. A second scan reads all keys, so that
		// the error has it; its rows are discarded.
		guest.Rows, guest.Exact, guest.First, guest.Last = 0, false, record.Key{}, record.Key{}
		_, again := l.scanChain(ctx, q, whole, columns|segment.Keys, newSinks)
		if errors.As(again, &guest) {
			err = again
		}
	}
	return stats, err
}

// scanChain scans with the filters of the query before sinks that read those columns. Instances are
// started, and check their parameters, even if there is nothing to scan.
func (l *localSource) scanChain(
	ctx context.Context, p *prepared, q *record.Query, columns segment.Columns,
	newSinks func(worker int) (sinks, error),
) (store.ScanStats, error) {
	modules := p.filters
	var filters []*wasmhost.Filter
	defer func() {
		for _, f := range filters {
			_ = f.Close() // Keep has returned its failures
		}
	}()
	chain := func(worker int) (sinks, segment.Columns, error) {
		to, err := newSinks(worker)
		if err != nil {
			return sinks{}, 0, err
		}
		// What the next filter and all after it read.
		read := columns.PayloadPrefix(to.payloadPrefix)
		for i := len(modules) - 1; i >= 0; i-- {
			f, err := modules[i].Module.NewFilterFor(ctx, p.guestOwner, q.Filters[i].Params)
			if err != nil {
				return sinks{}, 0, err
			}
			filters = append(filters, f)
			to.rows = filterSink(ctx, f, read, to.rows)
			read = read.Union(modules[i].Columns.PayloadPrefix(f.PayloadPrefix()))
		}
		return to, read, nil
	}
	made := false
	newConsumer := func(worker int) (store.Consumer, error) {
		made = true
		to, read, err := chain(worker)
		out := store.Consumer{Rows: to.rows, Columns: read, Partials: to.partials, Done: to.done}
		// With filters it would contain payloads of rows that the aggregate must not see.
		if len(modules) == 0 && q.View == record.ViewAll {
			out.PayloadBuffer = to.payloadBuffer
		}
		return out, err
	}
	stats, err := l.scanInto(ctx, p, q, newConsumer)
	if !made && err == nil {
		_, _, err = chain(0)
	}
	return stats, err
}

// scanInto runs the store's scan, and first finds the values of the key of groups if those are
// wanted.
func (l *localSource) scanInto(
	ctx context.Context, p *prepared, q *record.Query,
	newConsumer func(worker int) (store.Consumer, error),
) (store.ScanStats, error) {
	if p.foundValues == nil {
		return l.store.ScanInto(ctx, q, l.concurrentScans, newConsumer)
	}
	return l.store.ScanByKey(ctx, q, l.concurrentScans, p.foundValues, newConsumer)
}
