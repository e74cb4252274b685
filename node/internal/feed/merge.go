// Package feed merges the changes of several sources into one feed in the order of acq, and lets
// those who wait for a feed hurry it. It knows nothing of where changes come from, or who reads
// them.
//
// Its main function is [Merge], which runs one goroutine for each source. A [Demand] may be used by
// many goroutines.
package feed

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

const (
	// SourceBeat is how often a source reports its position: rows are emitted when all sources have
	// passed their acq. While others wait for it, see Demand, it reports at once.
	SourceBeat = 200 * time.Millisecond
	// mergedBytes is the size from which a merged slice ends after an acq, like maximal rows.
	mergedBytes = 16 << 20
)

// Source reads the changes of one source from the position of the request on, and emits slices up
// to its horizon; they are valid during the call. When others wait for it, it passes what the
// demand asks for. It returns errors of emit.
type Source func(
	ctx context.Context, d *Demand, emit func(*store.Slice) error,
) error

// Request says what is merged.
type Request struct {
	FromNs int64         // position from which the sources read
	Follow bool          // sources do not end at their horizons
	Beat   time.Duration // how often a position without changes is emitted
}

// Merge emits the changes of all sources in the order of acq, and returns up to where. Rows of a
// source are buffered until all others have passed their acq, so that nothing follows below what
// was emitted. Acqs of two sources may be equal: all rows of one acq are emitted in one slice,
// because a feed that resumes from an acq would otherwise miss rows or receive them twice. When
// others wait for the merged feed, see the demand, its sources hurry.
//
// It starts a goroutine for each source, and waits for them.
func Merge(
	ctx context.Context, sources []Source, ask Request, d *Demand,
	emit func(*store.Slice) error,
) (closedNs int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	all := make([]*buffer, len(sources))
	for i, s := range sources {
		all[i] = newBuffer(s, ask.FromNs)
	}
	for _, a := range all {
		wg.Go(func() { a.read(ctx, ask.Follow, all) })
	}
	d.Begin(func(acqNs int64) { advanceAll(all, acqNs) })
	quiet := ask.Beat - SourceBeat/2 // heartbeats of sources are not exact to the ms
	if !ask.Follow {
		quiet = 0
	}
	return mergeChanges(ctx, all, ask.FromNs, quiet, d, emit)
}

// buffer holds what a source of a feed has sent and other sources have not passed yet.
type buffer struct {
	source Source
	demand Demand
	readNs atomic.Int64      // up to where it was read
	slices chan *store.Slice // with rows or events; closed when the source ends
	empty  chan *store.Slice // holds the last slice if that is empty
	err    error             // of the source; read after slices is closed

	rows      record.Batch // from here on used by the merging goroutine only
	delivered int          // rows before it were emitted
	events    []event.Event
	closedNs  int64
}

func newBuffer(s Source, fromNs int64) *buffer {
	a := &buffer{source: s, slices: make(chan *store.Slice), empty: make(chan *store.Slice, 1),
		closedNs: fromNs}
	a.readNs.Store(fromNs)
	return a
}

// read reads the changes of a source, one slice with rows or events ahead of the merge. Before they
// are emitted, all others must pass them.
func (a *buffer) read(ctx context.Context, follow bool, all []*buffer) {
	defer close(a.slices)
	a.err = a.source(ctx, &a.demand, func(s *store.Slice) error {
		own := &store.Slice{ClosedNs: s.ClosedNs, Events: slices.Clone(s.Events)}
		own.Rows.AppendRows(&s.Rows, 0, s.Rows.Len())
		a.readNs.Store(s.ClosedNs)
		if last := lastOf(own); last > 0 && follow {
			advanceAll(all, last)
		}
		return a.offer(ctx, own)
	})
}

// offer offers a slice to the merge, in place of an empty one that was not received: so a source
// that is ahead of others is read on, and these are asked to pass its new rows.
func (a *buffer) offer(ctx context.Context, s *store.Slice) error {
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
func advanceAll(all []*buffer, acqNs int64) {
	for _, a := range all {
		if a.readNs.Load() <= acqNs {
			a.demand.Pass(acqNs)
		}
	}
}

// mergeChanges emits what all sources have passed, repeatedly, until one of those that are behind
// ends. Without follow, sources end at their horizons; a feed that resumes from the least of them
// gets the rest.
func mergeChanges(
	ctx context.Context, all []*buffer, fromNs int64, quiet time.Duration, d *Demand,
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
		low := slices.MinFunc(all, func(x, y *buffer) int {
			return cmp.Compare(x.closedNs, y.closedNs)
		}).closedNs
		tell := func(s *store.Slice) error {
			if s.Rows.Len() == 0 && len(s.Events) == 0 && time.Since(told) < quiet &&
				!d.Asks(toldNs, s.ClosedNs) {
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
func (a *buffer) receive(ctx context.Context) (more bool, err error) {
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
func emitMerged(all []*buffer, below int64, emit func(*store.Slice) error) error {
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
func (a *buffer) emitOpen(acq int64, emit func(*store.Slice) error) error {
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
func (a *buffer) rowsOf(acq int64) (rows int) {
	for i := a.delivered; i < a.rows.Len() && a.rows.AcqNs[i] == acq; i++ {
		rows++
	}
	return rows
}

// moveTo moves rows and events of an acq to a slice.
func (a *buffer) moveTo(acq int64, out *store.Slice) {
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
