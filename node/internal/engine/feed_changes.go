package engine

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/internal/budget"
	"github.com/pentad-db/pentad/node/internal/feed"
	"github.com/pentad-db/pentad/node/internal/nodeerror"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/request"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/where"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/pentad-db/pentad/wasmhost"
)

// SinceNow as the start of a feed means the horizon.
const SinceNow = math.MaxInt64

// Heartbeat is how often a feed without changes reports its position.
const Heartbeat = 15 * time.Second

// LeastHeartbeat keeps a reader from being told all the time how far it is.
const LeastHeartbeat = 50 * time.Millisecond

var slicePool = sync.Pool{New: func() any { return new(store.Slice) }}

// Changes passes to emit the records and events of q's box from an acq on, in the order of acq, in
// slices up to the horizon. With follow it continues with new ones, and with an empty slice as a
// Heartbeat, until ctx or the node ends. Tombstones pass the filters of q; its view, order and
// limit must be zero. A selector shows a record if its device met it when the record came, see
// [store.Store.FeedSelected]. A slice is valid during the call of emit, which delays only this
// feed.
//
// Returns: the acq to resume from, also with an error.
func (e *Engine) Changes(
	ctx context.Context, options request.Options, q *record.Query, fromNs int64, follow bool,
	beat time.Duration, emit func(*store.Slice) error,
) (closedNs int64, err error) {
	if err := checkChanges(q); err != nil {
		return fromNs, err
	}
	if q, err = e.bindWhere(q); err != nil {
		return fromNs, err
	}
	p, done := e.withGuestOwner(&prepared{Query: q, options: options})
	defer done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.open, cancel)()
	if only := e.routes.Load().single; only != nil {
		closedNs, err = only.changesEvery(ctx, p, fromNs, follow, beat, new(feed.Demand), emit)
	} else {
		closedNs, err = e.changesOfAll(ctx, p, fromNs, follow, beat, emit)
	}
	if err != nil && e.closing() {
		return closedNs, nodeerror.ErrClosing
	}
	return closedNs, err
}

// changesEvery is [Engine.Changes] of one store, with a heartbeat of beat, or at once while other
// sources wait for this one.
func (l *localSource) changesEvery(
	ctx context.Context, ask *prepared, fromNs int64, follow bool, beat time.Duration,
	d *feed.Demand, emit func(*store.Slice) error,
) (closedNs int64, err error) {
	if fromNs == SinceNow {
		if fromNs, err = l.store.ExtendHorizon(ctx); err != nil {
			return fromNs, err
		}
	}
	filters, err := l.engine.pinFilters(ctx, ask.Query)
	defer l.engine.unpinFilters(filters)
	if err != nil {
		return fromNs, err
	}
	q := *ask
	q.filters = filters
	if q.Where != "" {
		if q.where, err = where.Compile(q.Where); err != nil {
			return fromNs, err
		}
	}
	keysOnly := q.KeysOnly && len(filters) == 0 && q.where == nil
	feed, err := l.store.FeedSelected(q.Box, q.Select, keysOnly, fromNs)
	if err != nil {
		return fromNs, err
	}
	defer feed.Close()
	d.Begin(func(acqNs int64) {
		feed.Await(acqNs)
		l.closeSoon(acqNs)
	})
	var told time.Time
	toldNs, more, reachedEnd := fromNs, true, false
	for {
		emitSlice := func(slice *store.Slice, more bool) error {
			if acq := d.Wanted(); acq >= slice.ClosedNs {
				feed.Await(acq)
			}
			if !more && follow && slice.Rows.Len() == 0 && len(slice.Events) == 0 &&
				reachedEnd && time.Since(told) < beat && !d.Asks(toldNs, slice.ClosedNs) {
				return nil
			}
			told, toldNs, reachedEnd = time.Now(), slice.ClosedNs, !more
			return emit(slice)
		}
		behind := more && feed.LagNs() > int64(followLag)
		if more, err = l.engine.nextSlice(ctx, &q, feed, behind, emitSlice); err != nil {
			return feed.NextNs(), err
		}
		if more {
			continue
		}
		if !follow {
			return feed.NextNs(), nil
		}
		if err := feed.Wait(ctx, max(beat-time.Since(told), time.Millisecond)); err != nil {
			return feed.NextNs(), err
		}
	}
}

// followLag is how far behind the horizon a feed may be to pass for one that follows what comes.
const followLag = 5 * time.Second

// checkChanges rejects options of a query that a feed does not have.
func checkChanges(q *record.Query) error {
	part := ""
	switch {
	case q.View != record.ViewAll:
		part = "view"
	case q.Order != record.OrderNone:
		part = "order"
	case q.Limit != 0:
		part = "limit"
	case q.Aggregate.Name != "":
		part = "aggregate"
	case q.Moving != "":
		part = "moving"
	default:
		return nil
	}
	return &record.InvalidError{Part: part, Reason: record.Inconsistent, Row: -1,
		Detail: "not allowed: changes are all versions in the order of acq; leave it out"}
}

// nextSlice reads a slice, filters it and emits it. It holds a permit only while it reads, and
// memory only until emit returns.
func (e *Engine) nextSlice(
	ctx context.Context, q *prepared, feed *store.Feed, behind bool,
	emit func(slice *store.Slice, more bool) error,
) (more bool, err error) {
	held := e.sliceMemory.Share()
	defer held.End()
	from := feed.NextNs()
	slice, more, err := e.readSlice(ctx, q, feed, behind, held)
	if slice != nil {
		defer returnSlice(slice)
	}
	if err == nil {
		err = emit(slice, more)
	}
	if err != nil {
		feed.Rewind(from)
	}
	return more, err
}

// readSlice reads and filters a slice, under a permit of queries; feeds use at most half of them.
func (e *Engine) readSlice(
	ctx context.Context, q *prepared, feed *store.Feed, behind bool, held *budget.Share,
) (slice *store.Slice, more bool, err error) {
	permits, begin := e.following, e.processors.Begin
	if behind {
		permits, begin = e.behind, e.processors.BeginLong
	}
	divisor, release, err := e.beginSlice(ctx, permits, held)
	if err != nil {
		return nil, false, err
	}
	defer release()
	permit, err := e.admissionOf(q.options).AcquireUnbounded(ctx, feedsKey)
	if err != nil {
		return nil, false, err
	}
	defer permit.Release()
	task := begin(feedsKey)
	defer task.End()
	worker := task.Start()
	defer worker.Stop()
	if err := worker.Yield(ctx); err != nil {
		return nil, false, err
	}
	slice = takeSlice(divisor)
	more, err = feed.Read(ctx, slice)
	if err == nil && (len(q.filters) > 0 || q.where != nil) && slice.Rows.Len() > 0 {
		if err = filterSlice(ctx, q, slice); err != nil {
			e.notePluginFailure(q.Query, err)
		}
	}
	held.Settle(slice.MemoryBytes())
	return slice, more, err
}

// filterSlice removes the rows of a slice that are neither tombstones nor kept by the condition and
// the filters.
func filterSlice(ctx context.Context, q *prepared, slice *store.Slice) error {
	rows := &slice.Rows
	var stay, tombs []uint32
	for i := range rows.Len() {
		if rows.Tomb(i) {
			tombs = append(tombs, uint32(i))
		} else {
			stay = append(stay, uint32(i))
		}
	}
	if q.where != nil {
		stay = rowsMeeting(q.where, rows, stay)
	}
	for i, m := range q.filters {
		f, err := m.Module.NewFilterFor(ctx, q.guestOwner, q.Filters[i].Params)
		if err != nil {
			return err
		}
		stay, err = rowsKept(ctx, f, rows, stay)
		_ = f.Close() // Keep has returned its failures
		if err != nil {
			return err
		}
	}
	stay = append(stay, tombs...)
	slices.Sort(stay)
	var kept record.Batch
	kept.AppendPicked(rows, stay)
	if q.KeysOnly {
		kept.Data, kept.Offsets, kept.Stride = nil, nil, 0
	}
	*rows = kept
	return nil
}

// rowsKept returns those of the picked rows that a filter keeps.
func rowsKept(
	ctx context.Context, f *wasmhost.Filter, rows *record.Batch, picked []uint32,
) ([]uint32, error) {
	if len(picked) == 0 {
		return nil, nil
	}
	var b record.Batch
	b.AppendPicked(rows, picked)
	keep := make([]uint64, (len(picked)+63)/64)
	if err := f.Keep(ctx, &b, keep); err != nil {
		return nil, err
	}
	kept := appendBits(nil, keep)
	for k, i := range kept {
		kept[k] = picked[i]
	}
	return kept, nil
}

// CheckChanges returns errors that a feed would begin with, so that the answer can have an HTTP
// status. Until done, which is never nil, modules that the request brought stay compiled.
func (e *Engine) CheckChanges(
	ctx context.Context, options request.Options, q *record.Query, fromNs int64,
) (done func(), err error) {
	if e.closing() {
		return func() {}, nodeerror.ErrClosing
	}
	if err := checkChanges(q); err != nil {
		return func() {}, err
	}
	if _, err := e.bindWhere(q); err != nil {
		return func() {}, err
	}
	modules, err := e.pinFilters(ctx, q)
	if err == nil {
		err = e.checkStart(ctx, options, q, fromNs)
	}
	if err != nil {
		e.unpinFilters(modules)
		return func() {}, err
	}
	return func() { e.unpinFilters(modules) }, nil
}

// checkStart rejects an acq that a feed of a box cannot start from.
func (e *Engine) checkStart(
	ctx context.Context, options request.Options, q *record.Query, fromNs int64,
) error {
	feed, err := e.store.Feed(q.Box, q.KeysOnly, 0)
	if err != nil {
		return err
	}
	feed.Close()
	horizon, err := e.Horizon(ctx, options, &q.Box)
	if e.cluster.Load() != nil { // the horizon of the node that reported the position may be ahead
		horizon = max(horizon, e.clock.Now().Add(maxAhead).UnixNano())
	}
	switch {
	case err != nil && e.closing():
		return nodeerror.ErrClosing // it has canceled requests
	case err == nil && fromNs > horizon && fromNs != SinceNow:
		return e.aheadError(fromNs)
	}
	return err
}

// maxClockDifference is the clock difference between nodes up to which a position ahead of the
// horizon is not taken for one of another history.
const maxClockDifference = time.Minute

// aheadError is the error of a position above the horizon. In a cluster, another node whose
// replicas are ahead may have reported it.
func (e *Engine) aheadError(fromNs int64) error {
	if e.cluster.Load() == nil || fromNs > e.clock.Now().Add(maxClockDifference).UnixNano() {
		return params.Bad("since", store.ErrAhead)
	}
	return &wire.Error{Kind: wire.KindUnavailable, RetryAfterMs: nodeerror.RetryAfterMs,
		Message: "the replicas of this node are not as far as the position; ask again, or " +
			"another node"}
}

// changesOnce merges the changes of all sources in the order of acq, until one of them fails.
func (e *Engine) changesOnce(
	ctx context.Context, q *prepared, fromNs int64, follow bool, beat time.Duration,
	emit func(*store.Slice) error,
) (closedNs int64, err error) {
	if fromNs == SinceNow {
		now, err := e.Horizon(ctx, q.options, &q.Box)
		if err != nil {
			return fromNs, err
		}
		fromNs = now
	}
	filters, err := e.pinFilters(ctx, q.Query)
	e.unpinFilters(filters)
	if err != nil {
		return fromNs, err
	}
	known := *q
	known.filters = filters
	q = known.withPluginVersions(nil)
	sources, err := e.sources(q.options, &q.Box)
	if err != nil {
		return fromNs, err
	}
	all := make([]feed.Source, len(sources))
	for i, s := range sources {
		all[i] = changesOf(s, q, fromNs, follow)
	}
	d := new(feed.Demand)
	if number := q.options.FeedID; number != 0 {
		defer e.Merged.Add(number, d)()
	}
	return feed.Merge(ctx, all, feed.Request{FromNs: fromNs, Follow: follow, Beat: beat}, d, emit)
}

// changesOf reads the changes of a source. Its error names the source, and a node that cannot be
// reached is avoided for a while.
func changesOf(s source, q *prepared, fromNs int64, follow bool) feed.Source {
	return func(ctx context.Context, d *feed.Demand, emit func(*store.Slice) error) error {
		err := s.changes(ctx, q, fromNs, follow, d, emit)
		if err == nil {
			return nil
		}
		if far, ok := s.(*remoteSource); ok && ctx.Err() == nil && sourceUnavailable(err) &&
			!isSplit(err) {
			far.peer.failedNs.Store(time.Now().UnixNano())
		}
		return &nodeerror.SourceError{Source: fmt.Sprint(s), Err: err}
	}
}
