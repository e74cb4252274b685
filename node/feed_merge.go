package node

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/sdk/client"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	// sourceBeat is how often a source reports its position: rows are emitted when all sources have
	// passed their acq. While others wait for it, see demand, it reports at once.
	sourceBeat = 200 * time.Millisecond
	// mergedBytes is the size from which a merged slice ends after an acq, like maximal rows.
	mergedBytes = 16 << 20
)

// changes implements source.
func (r *remoteSource) changes(
	ctx context.Context, q *record.Query, fromNs int64, follow bool, d *demand,
	emit func(*store.Slice) error,
) error {
	var slice store.Slice
	var stopped error
	err := r.client().OfFeed(r.hastened(d)).ChangesOnce(ctx, q, fromNs, follow, sourceBeat,
		func(b client.ChangeBatch) error {
			slice.Rows, slice.Events, slice.ClosedNs = record.Batch{}, slice.Events[:0], b.ClosedNs
			if b.Rows != nil {
				slice.Rows = *b.Rows
			}
			if e := b.Event; e != nil {
				slice.Events = append(slice.Events, event.Event{AcqNs: e.AcqNs, Box: e.Box,
					Kind: event.Kind(e.Kind), FromSlot: e.FromSlot, ToSlot: e.ToSlot})
			}
			stopped = emit(&slice)
			return stopped
		})
	if stopped != nil {
		return stopped
	}
	return r.wireError(ctx, err)
}

// feedBuffer holds what a source of a feed has sent and other sources have not passed yet.
type feedBuffer struct {
	source source
	demand demand
	readNs atomic.Int64      // up to where it was read
	slices chan *store.Slice // with rows or events; closed when the source ends
	empty  chan *store.Slice // holds the last slice if that is empty
	err    error             // of the source; read after slices is closed

	rows      record.Batch // from here on used by the merging goroutine only
	delivered int          // rows before it were emitted
	events    []event.Event
	closedNs  int64
}

func newFeedBuffer(s source, fromNs int64) *feedBuffer {
	a := &feedBuffer{source: s, slices: make(chan *store.Slice), empty: make(chan *store.Slice, 1),
		closedNs: fromNs}
	a.readNs.Store(fromNs)
	return a
}

// changesOnce merges the changes of all sources in the order of acq. Rows of a source are buffered
// until all others have passed their acq, so that nothing follows below what was emitted. Acqs of
// two groups may be equal: all rows of one acq are emitted in one slice, because a feed that
// resumes from an acq would otherwise miss rows or receive them twice.
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
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	all := make([]*feedBuffer, len(sources))
	for i, s := range sources {
		all[i] = newFeedBuffer(s, fromNs)
	}
	for _, a := range all {
		wg.Go(func() { a.read(ctx, q, fromNs, follow, all) })
	}
	d := new(demand)
	d.begin(func(acqNs int64) { advanceAll(all, acqNs) })
	if number := optionsOf(ctx).feedID; number != 0 {
		defer n.merged.add(number, d)()
	}
	quiet := beat - sourceBeat/2 // heartbeats of sources are not exact to the ms
	if !follow {
		quiet = 0
	}
	return mergeChanges(ctx, all, fromNs, quiet, d, emit)
}

// read reads the changes of a source, one slice with rows or events ahead of the merge. Before they
// are emitted, all others must pass them.
func (a *feedBuffer) read(
	ctx context.Context, q *record.Query, fromNs int64, follow bool, all []*feedBuffer,
) {
	defer close(a.slices)
	err := a.source.changes(ctx, q, fromNs, follow, &a.demand, func(s *store.Slice) error {
		own := &store.Slice{ClosedNs: s.ClosedNs, Events: slices.Clone(s.Events)}
		own.Rows.AppendRows(&s.Rows, 0, s.Rows.Len())
		a.readNs.Store(s.ClosedNs)
		if last := lastOf(own); last > 0 && follow {
			advanceAll(all, last)
		}
		return a.offer(ctx, own)
	})
	if err != nil {
		a.err = &SourceError{Source: fmt.Sprint(a.source), Err: err}
		if d, far := a.source.(*remoteSource); far && ctx.Err() == nil &&
			sourceUnavailable(err) && !isSplit(err) {
			d.peer.failedNs.Store(time.Now().UnixNano())
		}
	}
}

// offer offers a slice to the merge, in place of an empty one that was not received: so a source
// that is ahead of others is read on, and these are asked to pass its new rows.
func (a *feedBuffer) offer(ctx context.Context, s *store.Slice) error {
	select {
	case <-a.empty:
	default:
	}
	if s.Rows.Len() == 0 && len(s.Events) == 0 {
		a.empty <- s // never blocks: this is the only sender
		return nil
	}
	select {
	case a.slices <- s:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lastOf returns the greatest acq in a slice; 0 if it is empty.
func lastOf(s *store.Slice) (acqNs int64) {
	if n := s.Rows.Len(); n > 0 {
		acqNs = s.Rows.AcqNs[n-1]
	}
	if n := len(s.Events); n > 0 {
		acqNs = max(acqNs, s.Events[n-1].AcqNs)
	}
	return acqNs
}

// advanceAll makes the sources that are behind an acq pass it.
func advanceAll(all []*feedBuffer, acqNs int64) {
	for _, a := range all {
		if a.readNs.Load() <= acqNs {
			a.demand.pass(acqNs)
		}
	}
}

// mergeChanges emits what all sources have passed, repeatedly, until one of those that are behind
// ends. Without follow, sources end at their horizons; a feed that resumes from the least of them
// gets the rest.
func mergeChanges(
	ctx context.Context, all []*feedBuffer, fromNs int64, quiet time.Duration, d *demand,
	emit func(*store.Slice) error,
) (closedNs int64, err error) {
	told, toldNs := time.Time{}, fromNs
	for closedNs = fromNs; ; {
		for _, a := range all {
			if a.closedNs == closedNs {
				more, err := a.receive(ctx)
				if err != nil || !more {
					return closedNs, err
				}
			}
		}
		low := slices.MinFunc(all, func(x, y *feedBuffer) int {
			return cmp.Compare(x.closedNs, y.closedNs)
		}).closedNs
		tell := func(s *store.Slice) error {
			if s.Rows.Len() == 0 && len(s.Events) == 0 && time.Since(told) < quiet &&
				!d.asks(toldNs, s.ClosedNs) {
				return nil
			}
			told, toldNs = time.Now(), s.ClosedNs
			err := emit(s)
			if err == nil {
				closedNs = s.ClosedNs
			}
			return err
		}
		err := emitMerged(all, low, tell)
		for _, a := range all {
			if err == nil {
				err = a.emitOpen(low, tell)
			}
		}
		if err != nil {
			return closedNs, err
		}
		closedNs = low
	}
}

// receive receives the next slice of a source and keeps the rows that were not emitted yet.
func (a *feedBuffer) receive(ctx context.Context) (more bool, err error) {
	var s *store.Slice
	select {
	case s = <-a.slices:
	case s = <-a.empty:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if s == nil { // the end; an empty slice may precede it
		select {
		case s = <-a.empty:
		default:
			return false, a.err
		}
	}
	var rows record.Batch
	rows.AppendRows(&a.rows, a.delivered, a.rows.Len())
	rows.AppendRows(&s.Rows, 0, s.Rows.Len())
	a.rows, a.delivered = rows, 0
	a.events = append(a.events, s.Events...)
	a.closedNs = s.ClosedNs
	return true, nil
}

// emitMerged emits what all sources have below an acq, in the order of acq, each acq in one slice.
func emitMerged(all []*feedBuffer, below int64, emit func(*store.Slice) error) error {
	for {
		var out store.Slice
		out.ClosedNs = below
		for {
			acq := int64(math.MaxInt64)
			for _, a := range all {
				if a.delivered < a.rows.Len() {
					acq = min(acq, a.rows.AcqNs[a.delivered])
				}
				if len(a.events) > 0 {
					acq = min(acq, a.events[0].AcqNs)
				}
			}
			if acq >= below {
				return emit(&out)
			}
			rows := out.Rows.Len()
			for _, a := range all {
				rows += a.rowsOf(acq)
			}
			if out.Rows.Len() > 0 && (rows > wire.MaxRows || len(out.Rows.Data) >= mergedBytes) {
				out.ClosedNs = acq // nothing of which is in the slice
				break
			}
			for _, a := range all {
				a.moveTo(acq, &out)
			}
		}
		if err := emit(&out); err != nil {
			return err
		}
	}
}

// emitOpen emits the rows of an acq that do not fit into one slice while the source will send more
// of them: everything below was emitted, and the acq stays open.
func (a *feedBuffer) emitOpen(acq int64, emit func(*store.Slice) error) error {
	if a.delivered == a.rows.Len() || a.rows.AcqNs[a.delivered] != acq || a.closedNs != acq {
		return nil
	}
	var out store.Slice
	out.ClosedNs = acq
	out.Rows.AppendRows(&a.rows, a.delivered, a.rows.Len())
	a.delivered = a.rows.Len()
	return emit(&out)
}

// rowsOf returns how many rows a source has of its least acq: usually one, but rows that were
// stored with given acqs may share one.
func (a *feedBuffer) rowsOf(acq int64) (rows int) {
	for i := a.delivered; i < a.rows.Len() && a.rows.AcqNs[i] == acq; i++ {
		rows++
	}
	return rows
}

// moveTo moves rows and events of an acq to a slice.
func (a *feedBuffer) moveTo(acq int64, out *store.Slice) {
	for len(a.events) > 0 && a.events[0].AcqNs == acq {
		out.Events = append(out.Events, a.events[0])
		a.events = a.events[1:]
	}
	from := a.delivered
	for a.delivered < a.rows.Len() && a.rows.AcqNs[a.delivered] == acq {
		a.delivered++
	}
	out.Rows.AppendRows(&a.rows, from, a.delivered)
}
