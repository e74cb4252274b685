package node

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/internal/feed"
	"github.com/pentad-db/pentad/node/internal/params"
	"github.com/pentad-db/pentad/node/internal/registry"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
	"github.com/pentad-db/pentad/wasmhost"
)

// SinceNow as the start of a feed means the horizon.
const SinceNow = math.MaxInt64

// heartbeat is how often a feed without changes reports its position.
const heartbeat = 15 * time.Second

// sharedSlices is the number of slices in memory above which they are made smaller, so that a
// thousand stalled feeds take a few hundred MiB instead of tens of GiB.
const sharedSlices = 32

var slicePool = sync.Pool{New: func() any { return new(store.Slice) }}

// Changes passes to emit the records and events of q's box from an acq on, in the order of acq, in
// slices up to the horizon. With follow it continues with new ones, and with an empty slice as a
// heartbeat, until ctx or the node ends. Tombstones pass the filters of q; its view, order and
// limit must be zero. A slice is valid during the call of emit, which delays only this feed.
//
// Returns: the acq to resume from, also with an error.
func (n *Node) Changes(
	ctx context.Context, q *record.Query, fromNs int64, follow bool,
	emit func(*store.Slice) error,
) (closedNs int64, err error) {
	return n.changesWith(ctx, q, fromNs, follow, heartbeat, emit)
}

func (n *Node) changesWith(
	ctx context.Context, q *record.Query, fromNs int64, follow bool, beat time.Duration,
	emit func(*store.Slice) error,
) (closedNs int64, err error) {
	if err := checkChanges(q); err != nil {
		return fromNs, err
	}
	ctx, done := n.owned(ctx, q)
	defer done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(n.open, cancel)()
	if only := n.routes.Load().single; only != nil {
		closedNs, err = only.changesEvery(ctx, q, fromNs, follow, beat, new(feed.Demand), emit)
	} else {
		closedNs, err = n.changesOfAll(ctx, q, fromNs, follow, beat, emit)
	}
	if err != nil && n.closing.Load() {
		return closedNs, errClosing
	}
	return closedNs, err
}

// changesEvery is [Node.Changes] of one store, with a heartbeat of beat, or at once while other
// sources wait for this one.
func (n *localSource) changesEvery(
	ctx context.Context, q *record.Query, fromNs int64, follow bool, beat time.Duration,
	d *feed.Demand, emit func(*store.Slice) error,
) (closedNs int64, err error) {
	if fromNs == SinceNow {
		if fromNs, err = n.store.Horizon(ctx); err != nil {
			return fromNs, err
		}
	}
	modules, err := n.useFilters(ctx, q)
	defer n.releaseFilters(modules)
	if err != nil {
		return fromNs, err
	}
	feed, err := n.store.Feed(q.Box, q.KeysOnly && len(modules) == 0, fromNs)
	if err != nil {
		return fromNs, err
	}
	defer feed.Close()
	d.Begin(func(acqNs int64) {
		feed.Await(acqNs)
		n.closeSoon(acqNs)
	})
	var told time.Time
	toldNs := fromNs
	for {
		more, err := n.nextSlice(ctx, q, modules, feed, func(slice *store.Slice, more bool) error {
			if acq := d.Wanted(); acq >= slice.ClosedNs {
				feed.Await(acq)
			}
			if !more && follow && slice.Rows.Len() == 0 && len(slice.Events) == 0 &&
				time.Since(told) < beat && !d.Asks(toldNs, slice.ClosedNs) {
				return nil
			}
			told, toldNs = time.Now(), slice.ClosedNs
			return emit(slice)
		})
		if err != nil {
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

// checkChanges rejects options of a query that a feed does not have.
func checkChanges(q *record.Query) error {
	if err := q.Normalize(); err != nil {
		return err
	}
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
	default:
		return nil
	}
	return &record.InvalidError{Part: part, Reason: record.Inconsistent, Row: -1,
		Detail: "changes have none: they are all versions in the order of acq; leave it out"}
}

// nextSlice reads a slice, filters it and emits it. It holds a permit only while it reads, and
// memory only until emit returns.
func (n *Node) nextSlice(
	ctx context.Context, q *record.Query, modules []*registry.Version, feed *store.Feed,
	emit func(slice *store.Slice, more bool) error,
) (more bool, err error) {
	slice := slicePool.Get().(*store.Slice)
	defer slicePool.Put(slice)
	slice.Share = int(n.slices.Add(1) / sharedSlices)
	defer n.slices.Add(-1)
	from := feed.NextNs()
	more, err = n.readSlice(ctx, q, modules, feed, slice)
	if err == nil {
		err = emit(slice, more)
	}
	if err != nil {
		feed.Rewind(from)
	}
	return more, err
}

// readSlice reads and filters a slice, under a permit of queries. Many feeds wake up at once and
// wait for permits without a limit; they use at most half of them.
func (n *Node) readSlice(
	ctx context.Context, q *record.Query, modules []*registry.Version, feed *store.Feed,
	slice *store.Slice,
) (more bool, err error) {
	select {
	case n.readers <- struct{}{}:
		defer func() { <-n.readers }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	place, err := n.admissionOf(ctx).AcquireUnbounded(ctx, askChanges)
	if err != nil {
		return false, err
	}
	defer place.Release()
	turn := n.processors.BeginLong(askChanges)
	defer turn.End()
	stint := turn.Start()
	defer stint.Stop()
	if err := stint.Yield(ctx); err != nil {
		return false, err
	}
	more, err = feed.Read(ctx, slice)
	if err == nil && len(modules) > 0 && slice.Rows.Len() > 0 {
		if err = n.filterSlice(ctx, q, modules, slice); err != nil {
			n.failed(q, err)
		}
	}
	return more, err
}

// filterSlice removes the rows of a slice that are neither tombstones nor kept by the filters.
func (n *Node) filterSlice(
	ctx context.Context, q *record.Query, modules []*registry.Version, slice *store.Slice,
) error {
	rows := &slice.Rows
	var stay, tombs []uint32
	for i := range rows.Len() {
		if rows.Tomb(i) {
			tombs = append(tombs, uint32(i))
		} else {
			stay = append(stay, uint32(i))
		}
	}
	for i, m := range modules {
		f, err := m.Module.NewFilter(ctx, q.Filters[i].Params)
		if err != nil {
			return err
		}
		stay, err = keepOf(ctx, f, rows, stay)
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

// keepOf returns those of the picked rows that a filter keeps.
func keepOf(
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

// precheckChanges returns errors that a feed would begin with, so that the answer can have an HTTP
// status. Until done, which is never nil, modules that the request brought stay compiled.
func (n *Node) precheckChanges(
	ctx context.Context, q *record.Query, fromNs int64,
) (done func(), err error) {
	if n.closing.Load() {
		return func() {}, errClosing
	}
	if err := checkChanges(q); err != nil {
		return func() {}, err
	}
	modules, err := n.useFilters(ctx, q)
	if err == nil {
		err = n.checkStart(ctx, q, fromNs)
	}
	if err != nil {
		n.releaseFilters(modules)
		return func() {}, err
	}
	return func() { n.releaseFilters(modules) }, nil
}

// checkStart rejects an acq that a feed of a box cannot start from.
func (n *Node) checkStart(ctx context.Context, q *record.Query, fromNs int64) error {
	feed, err := n.store.Feed(q.Box, q.KeysOnly, 0)
	if err != nil {
		return err
	}
	feed.Close()
	horizon, err := n.horizonOf(ctx, &q.Box)
	if n.member.Load() != nil { // the horizon of the node that reported the position may be ahead
		horizon = max(horizon, n.now().Add(maxAhead).UnixNano())
	}
	switch {
	case err != nil && n.closing.Load():
		return errClosing // it has canceled requests
	case err == nil && fromNs > horizon && fromNs != SinceNow:
		return n.ahead(fromNs)
	}
	return err
}

// maxClockDifference is the clock difference between nodes up to which a position ahead of the
// horizon is not taken for one of another history.
const maxClockDifference = time.Minute

// ahead is the error of a position above the horizon. In a cluster, another node whose replicas are
// ahead may have reported it.
func (n *Node) ahead(fromNs int64) error {
	if n.member.Load() == nil || fromNs > n.now().Add(maxClockDifference).UnixNano() {
		return params.Bad("since", store.ErrAhead)
	}
	return &wire.Error{Kind: wire.KindUnavailable, RetryAfterMs: retryAfterMs,
		Message: "the replicas of this node are not as far as the position; ask again, or " +
			"another node"}
}

// changesOnce merges the changes of all sources in the order of acq, until one of them fails.
func (n *Node) changesOnce(
	ctx context.Context, q *record.Query, fromNs int64, follow bool, beat time.Duration,
	emit func(*store.Slice) error,
) (closedNs int64, err error) {
	if fromNs == SinceNow {
		now, err := n.horizonOf(ctx, &q.Box)
		if err != nil {
			return fromNs, err
		}
		fromNs = now
	}
	filters, err := n.useFilters(ctx, q)
	n.releaseFilters(filters)
	if err != nil {
		return fromNs, err
	}
	q = (&prepared{q, filters}).pinned(nil).Query
	sources, err := n.sources(ctx, &q.Box)
	if err != nil {
		return fromNs, err
	}
	all := make([]feed.Source, len(sources))
	for i, s := range sources {
		all[i] = changesOf(s, q, fromNs, follow)
	}
	d := new(feed.Demand)
	if number := optionsOf(ctx).feedID; number != 0 {
		defer n.merged.Add(number, d)()
	}
	return feed.Merge(ctx, all, feed.Request{FromNs: fromNs, Follow: follow, Beat: beat}, d, emit)
}

// changesOf reads the changes of a source. Its error names the source, and a node that cannot be
// reached is avoided for a while.
func changesOf(s source, q *record.Query, fromNs int64, follow bool) feed.Source {
	return func(ctx context.Context, d *feed.Demand, emit func(*store.Slice) error) error {
		err := s.changes(ctx, q, fromNs, follow, d, emit)
		if err == nil {
			return nil
		}
		if far, ok := s.(*remoteSource); ok && ctx.Err() == nil && sourceUnavailable(err) &&
			!isSplit(err) {
			far.peer.failedNs.Store(time.Now().UnixNano())
		}
		return &SourceError{Source: fmt.Sprint(s), Err: err}
	}
}
