package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/pentad-db/pentad/node/store/bounds"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/notify"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// sliceRows is how many rows a slice holds at most: as many as a frame, and few enough to be
	// sorted within the processor's caches.
	sliceRows = 1 << 16
	// sliceBytes is how many payload bytes a slice holds, beside the last few rows.
	sliceBytes = 16 << 20
	// maxSpan is how many rows of the store one slice passes over at most. Where few of them lie in
	// the box, many are passed over at once; more would not fit the numbers of rows.
	maxSpan = 1 << 30
	// slowSlice is how long a slice may take to read before the next one passes over fewer rows:
	// whoever waits for it hears nothing meanwhile.
	slowSlice = 2 * time.Second
	// leastRows is how many rows the smallest slice may have: they take as much as its payloads.
	leastRows = 64
	// fullShrink is by how much the span shrinks when its rows do not fit: to find that out costs
	// as much as the largest slice, so it should be found out seldom.
	fullShrink = 8
	// emptyFor is how long one Read goes on where no row lies in the box.
	emptyFor = 20 * time.Millisecond
)

// MaxDivisor is the greatest divisor of a [Slice]: 64 rows, or 4 KiB of payloads and one row.
const MaxDivisor = 4096

// ErrAhead means that changes were asked for from an acq on that the store has not reached: the
// position is of another store, or of this one before it was restored.
var ErrAhead = errors.New("the position is above the horizon, so it is of another store, or of " +
	"this one before a restore; begin again from an acq that this node returned")

// errSliceFull says that there are more rows than a slice holds.
var errSliceFull = errors.New("slice is full")

// Slice is what happened in a box in a range of acq, in the order of acq. It is memory that one
// Read hands to the next; what it holds is valid until then.
type Slice struct {
	FromNs int64 // the slice begins here
	// ClosedNs is where it ends: nothing will be added below. It is FromNs where the rows of that
	// acq are more than a slice holds: those that follow bring the others, in any order.
	ClosedNs int64
	Rows     record.Batch
	Events   []event.Event // erases, purges and steps of retentions that meet the box

	// Divisor makes slices smaller than 65,536 rows and 16 MiB, divided by it: for those who hold
	// many at once. 0 is 1, at most MaxDivisor.
	Divisor int

	raw   record.Batch
	order []uint32
}

// IsOpen reports whether rows with the acq of the last one follow in the next slice.
func (out *Slice) IsOpen() bool {
	n := out.Rows.Len()
	return n > 0 && out.Rows.AcqNs[n-1] >= out.ClosedNs
}

// Feed reads what came to a box in the order of acq, slice after slice, from any acq on to the
// horizon, and then waits for more. It holds no rows: what it has not read yet it finds by acq, in
// segments and heads, however late it comes. One goroutine may use it; Close ends it.
type Feed struct {
	store    *Store
	box      record.Box
	keysOnly bool
	next     int64
	inside   []record.Box // where the rows with the acq next are that are not read yet; else empty
	span     int          // rows of the store that the next slice passes over
	divisor  int          // of the latest slice
	horizon  int64        // when it was read, or the feed was made
	waiter   *notify.Waiter
	selected *feedSelection // nil: the feed shows all devices of the box
}

// Feed returns a feed of a box from an acq on. Its acq is left to the feed: the box must not
// constrain it.
//
// Errors: *record.InvalidError.
func (s *Store) Feed(box record.Box, keysOnly bool, fromNs int64) (*Feed, error) {
	return s.FeedSelected(box, "", keysOnly, fromNs)
}

// FeedSelected is [Store.Feed] of the devices of a tenant that a selector chooses, empty for all. A
// row is shown if its device meets the selector by what was known of it at the acq of the row, the
// row included: as devices enter and leave the selection, the feed follows. Events are shown
// whatever they hide, because rows of it may have been shown.
func (s *Store) FeedSelected(
	box record.Box, selector string, keysOnly bool, fromNs int64,
) (*Feed, error) {
	if err := box.Normalize(); err != nil {
		return nil, err
	}
	if len(box[record.Acq]) > 0 {
		return nil, &record.InvalidError{Part: "acq", Reason: record.Inconsistent, Row: -1,
			Detail: "changes come in the order of acq from one acq on; leave the range out"}
	}
	f := &Feed{store: s, box: box, keysOnly: keysOnly, next: fromNs,
		span: sliceRows, divisor: 1, horizon: s.oracle.CurrentHorizon(),
		waiter: notify.NewWaiter(bounds.Of(&box))}
	if selector != "" {
		var err error
		if f.selected, err = s.newFeedSelection(&box, selector); err != nil {
			return nil, err
		}
	}
	s.feeds.Add(f.waiter)
	return f, nil
}

// Close ends the feed.
func (f *Feed) Close() { f.store.feeds.Remove(f.waiter) }

// NextNs returns the acq that the next slice begins at.
func (f *Feed) NextNs() int64 { return f.next }

// LagNs returns how far behind the horizon the feed was after the latest Read, or when it was made.
func (f *Feed) LagNs() int64 { return f.horizon - max(f.next, 0) }

// Rewind makes the next slice begin at an acq that the feed was at before: what came since is read
// again.
func (f *Feed) Rewind(toNs int64) {
	if toNs <= f.next {
		f.next, f.inside = toNs, nil
	}
}

// Await makes Wait return also when the horizon of a replica has passed an acq, once, which may be
// now; of several acqs, the least. Any goroutine may call it.
func (f *Feed) Await(acqNs int64) {
	f.store.feeds.Await(f.waiter, acqNs)
	f.store.feeds.Passed(f.store.oracle.CurrentHorizon())
}

// Wait waits until rows or events may have come to the box since the last Read, or for a time.
//
// Errors: ctx.Err(), ErrClosed.
func (f *Feed) Wait(ctx context.Context, atMost time.Duration) error {
	timeout := time.NewTimer(atMost)
	defer timeout.Stop()
	select {
	case <-f.waiter.Woken:
		return nil
	case <-timeout.C:
		return nil
	case <-f.store.stop:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Read reads the next slice. more says that there is another one below the horizon; without, the
// slice ends at the horizon, and may be empty.
//
// Errors: ErrAhead, ErrClosed, *durable.CorruptError, ctx.Err().
// Cost: some microseconds a sealed segment in the slice, and about 100 ns a row.
func (f *Feed) Read(ctx context.Context, out *Slice) (more bool, err error) {
	horizon, err := f.store.ExtendHorizon(ctx)
	if err != nil {
		return false, err
	}
	if f.next > horizon {
		return false, fmt.Errorf("acq %d, horizon %d: %w", f.next, horizon, ErrAhead)
	}
	f.horizon = horizon
	divisor := min(max(out.Divisor, 1), MaxDivisor)
	if divisor > f.divisor {
		f.span = max(1, f.span/(divisor/f.divisor))
	}
	f.divisor = divisor
	fromNs, until := f.next, time.Now().Add(emptyFor)
	for {
		if len(f.inside) > 0 {
			return f.readInside(ctx, out, horizon, divisor)
		}
		began := time.Now()
		end, passed, err := f.sliceEnd(horizon)
		if err == nil && f.selected != nil && end > f.next {
			end, err = f.selected.prepare(ctx, f.next, end, passed, divisor)
		}
		if errors.Is(err, errSliceFull) {
			f.span = max(1, min(f.span, passed)/fullShrink)
			continue
		}
		if err != nil {
			return false, err
		}
		out.reset(f.next, end)
		if passed > 0 {
			err = f.gather(ctx, out, &f.box, divisor)
		}
		if errors.Is(err, errSliceFull) && f.next+1 == end {
			f.inside = []record.Box{f.box}
			continue
		}
		if errors.Is(err, errSliceFull) {
			f.span = max(1, min(f.span, passed)/fullShrink)
			continue
		}
		if err != nil {
			return false, err
		}
		out.sort()
		out.Events = f.events(out.Events, end)
		f.adaptSpan(out, passed, divisor, time.Since(began))
		f.next = end
		if end < horizon && out.Rows.Len()+len(out.Events) == 0 && time.Now().Before(until) {
			continue
		}
		out.FromNs = fromNs
		return end < horizon, nil
	}
}

// roomOf returns how many rows and bytes of payloads a slice may have.
func roomOf(divisor int) (rows, bytes int) {
	return max(leastRows, sliceRows/divisor), sliceBytes / divisor
}

// adaptSpan lets the next slice pass over more rows where few of them lie in the box, so that
// slices are about full wherever the box is, and over fewer where that takes long.
func (f *Feed) adaptSpan(out *Slice, passed, divisor int, took time.Duration) {
	if took > slowSlice {
		f.span = max(1, f.span/2)
		return
	}
	if passed < f.span/2 { // the horizon ended it
		return
	}
	rows, bytes := roomOf(divisor)
	if 2*out.Rows.Len() <= rows && 2*len(out.Rows.Data) <= bytes {
		f.span = min(f.span, maxSpan/2) * 2 // not above what 32 bits hold
	}
}

// MemoryBytes returns about how much memory the rows of a slice take.
func (out *Slice) MemoryBytes() int64 {
	bytes := 4 * cap(out.order)
	for _, b := range []*record.Batch{&out.Rows, &out.raw} {
		keys := 4*(cap(b.CID)+cap(b.MOID)) + 8*(cap(b.MID)+cap(b.CapNs)+cap(b.AcqNs))
		bytes += keys + 8*cap(b.Tombs) + 4*cap(b.Offsets) + cap(b.Data)
	}
	return int64(bytes)
}

// reset empties a slice and keeps its memory, unless a slice of large payloads left it.
func (out *Slice) reset(fromNs, endNs int64) {
	for _, b := range []*record.Batch{&out.Rows, &out.raw} {
		b.Reset()
		if cap(b.Data) > 2*sliceBytes {
			*b = record.Batch{}
		}
	}
	clear(out.Events)
	out.Events, out.order = out.Events[:0], out.order[:0]
	out.FromNs, out.ClosedNs = fromNs, endNs
}

// sliceEnd returns an acq up to the horizon before which about as many rows as the span lie, and
// how many they are at most.
func (f *Feed) sliceEnd(horizon int64) (endNs int64, passed int, err error) {
	s := f.store
	s.scanning.RLock()
	defer s.scanning.RUnlock()
	if s.closed.Load() {
		return 0, 0, ErrClosed
	}
	var parts []func(acqNs int64) int
	for _, sh := range s.shards {
		state := sh.PinWithBackdated()
		defer state.Unpin()
		parts = state.AppendBelow(parts, f.next)
	}
	below := func(acqNs int64) (rows int) {
		for _, part := range parts {
			rows += part(acqNs)
		}
		return rows
	}
	before := below(f.next)
	if passed = below(horizon) - before; passed <= f.span {
		return horizon, passed, nil
	}
	low, high := f.next+1, horizon // one acq at least
	for low < high {
		middle := low + int64(uint64(high-low+1)/2)
		passed = below(middle) - before
		switch {
		case passed > f.span:
			high = middle - 1
		case passed > f.span/2:
			return middle, passed, nil
		default:
			low = middle
		}
	}
	return low, below(low) - before, nil
}

// gather reads the rows of the slice in a box, in no order.
//
// Errors: errSliceFull when they are more than a slice holds, which then has some of them.
func (f *Feed) gather(ctx context.Context, out *Slice, box *record.Box, divisor int) error {
	q := record.Query{Box: *box, KeysOnly: f.keysOnly, Verify: true} // readers keep copies
	q.Box[record.Acq] = record.RangeSet{{From: out.FromNs, To: out.ClosedNs}}
	var mu sync.Mutex
	take := func(b *record.Batch) error {
		mu.Lock()
		defer mu.Unlock()
		if !out.appendFitting(b, divisor) {
			return errSliceFull
		}
		return nil
	}
	sink := Sink(take)
	if f.selected != nil {
		if !f.selected.narrow(&q.Box) {
			return nil
		}
		sink = f.selected.only(take)
	}
	_, err := f.store.Scan(ctx, &q, func(int) (Sink, error) { return sink, nil })
	return err
}

// appendFitting appends the rows of b, or of these one more than the slice has room for; one row
// always fits.
func (out *Slice) appendFitting(b *record.Batch, divisor int) (fit bool) {
	maxRows, maxBytes := roomOf(divisor)
	rows, bytes := out.raw.Len(), len(out.raw.Data)
	if rows+b.Len() <= maxRows && bytes+len(b.Data) <= maxBytes || rows == 0 && b.Len() == 1 {
		out.raw.AppendRows(b, 0, b.Len())
		return true
	}
	n := 0
	for n < b.Len() && (rows+n < 2 || rows+n <= maxRows && bytes <= maxBytes) {
		bytes += len(b.RawPayload(n))
		n++
	}
	out.raw.AppendRows(b, 0, n)
	return false
}

// sort puts the rows that were gathered into the order of acq.
func (out *Slice) sort() {
	acqs := out.raw.AcqNs
	if slices.IsSorted(acqs) {
		out.Rows, out.raw = out.raw, out.Rows
		return
	}
	for i := range acqs {
		out.order = append(out.order, uint32(i))
	}
	slices.SortFunc(out.order, func(a, b uint32) int {
		if acqs[a] != acqs[b] {
			return cmp.Compare(acqs[a], acqs[b])
		}
		return out.raw.Key(int(a)).Compare(out.raw.Key(int(b)))
	})
	out.Rows.AppendPicked(&out.raw, out.order)
}

// events appends the events of the slice.
func (f *Feed) events(dst []event.Event, endNs int64) []event.Event {
	all := f.store.tombstones.Load().Events
	from := sort.Search(len(all), func(i int) bool { return all[i].AcqNs >= f.next })
	for _, e := range all[from:] {
		if e.AcqNs >= endNs {
			break
		}
		if e.Box.Overlaps(&f.box) {
			dst = append(dst, e)
		}
	}
	return dst
}

// notifyFeeds tells those that wait of rows that are visible.
func notifyFeeds(feeds *notify.Notifier, writeGroup []*putRequest) {
	if !feeds.HasWaiters() {
		return
	}
	var b bounds.Box
	first := true
	for _, r := range writeGroup {
		for i := range r.byShard {
			r.byShard[i].eachRows(func(rows *record.Batch) {
				one := bounds.OfRows(rows)
				if first {
					b, first = one, false
				}
				b.Include(&one)
			})
		}
	}
	if !first {
		feeds.NotifyRows(&b)
	}
}
