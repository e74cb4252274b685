package store

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sort"
	"sync"

	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/tombstone"
	"github.com/pentad-db/pentad/node/store/versions"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/registry"
)

const (
	// maxSliceDescriptions bounds the devices that are described in one slice of a feed that
	// selects devices, divided as its rows are. Those of a larger import are passed in several
	// slices.
	maxSliceDescriptions = 1 << 16
	// maxSliceVersionBytes bounds the older descriptions of these devices that are in memory while
	// the slice is read.
	maxSliceVersionBytes = 32 << 20
	// maxNarrowed is up to how many devices a feed narrows its box to them. Of more it reads all
	// rows and leaves those of other devices out.
	maxNarrowed = 4096
)

// feedSelection says which rows a feed of selected devices shows: those whose device meets the
// selector by the descriptions with an acq up to that of the row, its own included, less what
// erases up to there hide. This depends on acqs alone, so a feed that resumes anywhere shows the
// same.
//
// It keeps the devices that meet the selector where the feed is, 8 bytes each, and for each slice
// looks at the descriptions that came in it only.
type feedSelection struct {
	store  *Store
	choice choice
	box    record.Box // of the descriptions of all devices that the feed may show

	known   bool
	atNs    int64
	mids    []int64 // of the devices that meet the selector by what is below atNs, ascending
	hiding  *tombstone.Set
	history []eventMark // that mids were found with
	puts    uint64      // backdated ones, as history

	// Of the slice [atNs, endNs):
	endNs int64
	next  []int64                // mids at its end
	steps map[int64][]selectStep // of devices that are described in it
}

// selectStep says that a device meets the selector, or does not, from an acq on.
type selectStep struct {
	fromNs int64
	meets  bool
}

func (s *Store) newFeedSelection(box *record.Box, selector string) (*feedSelection, error) {
	if err := record.NormalizeSelect(&selector, box); err != nil {
		return nil, err
	}
	c, err := newChoice(box, selector, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	f := &feedSelection{store: s, choice: *c}
	f.box[record.CID], f.box[record.MID] = box[record.CID], box[record.MID]
	f.box[record.MOID] = record.RangeSet{record.At(record.DescriptionMOID)}
	return f, nil
}

// prepare finds which devices a slice shows from which acq on. It returns where the slice ends,
// which may be earlier than asked for; passed is how many rows of the store the slice passes over.
//
// Errors: errSliceFull if too many descriptions came in it; ErrClosed, *durable.CorruptError,
// ctx.Err().
func (f *feedSelection) prepare(
	ctx context.Context, fromNs, endNs int64, passed, divisor int,
) (int64, error) {
	end, err := f.plan(ctx, fromNs, endNs, passed, divisor)
	if err != nil {
		f.known = false
	}
	return end, err
}

func (f *feedSelection) plan(
	ctx context.Context, fromNs, endNs int64, passed, divisor int,
) (int64, error) {
	s := f.store
	s.scanning.RLock()
	defer s.scanning.RUnlock()
	if s.closed.Load() {
		return 0, ErrClosed
	}
	if err := f.moveTo(ctx, fromNs); err != nil {
		return 0, err
	}
	erasedNs, erased := f.firstErase(fromNs, endNs)
	switch {
	case erased && erasedNs == fromNs:
		f.endNs = fromNs + 1
		return f.endNs, f.findAt(ctx, &f.next, f.endNs)
	case erased:
		endNs = erasedNs
	}
	f.endNs, f.next = endNs, f.mids
	if passed == 0 {
		return endNs, nil
	}
	changed, firstNs, err := f.changedIn(ctx, fromNs, endNs)
	if err != nil || len(changed) == 0 {
		return endNs, err
	}
	described, err := f.versionsOf(ctx, changed, endNs, divisor)
	switch {
	case err == nil && described != nil:
		f.step(described, fromNs)
		return endNs, nil
	case err != nil:
		return 0, err
	case fromNs+1 < endNs && passed > 1:
		return 0, errSliceFull
	case firstNs > fromNs:
		f.endNs = firstNs // nothing changes before
		return firstNs, nil
	}
	f.endNs = fromNs + 1
	now, err := s.selectScanned(ctx, &f.choice, rangesOf(changed), f.endNs)
	f.next = replaced(f.mids, changed, now)
	return f.endNs, err
}

// moveTo makes the selection that at an acq, where the feed is.
func (f *feedSelection) moveTo(ctx context.Context, atNs int64) error {
	if set := f.store.tombstones.Load(); set != f.hiding {
		f.hiding = set
		if now := f.marks(); !slices.Equal(now, f.history) {
			f.history, f.known = now, false
		}
	}
	if puts := f.store.backdatedSeq.Load(); puts != f.puts {
		f.puts, f.known = puts, false
	}
	f.steps = nil
	switch {
	case f.known && f.atNs == atNs:
		return nil
	case f.known && f.endNs == atNs:
		f.mids, f.atNs = f.next, atNs
		return nil
	}
	f.known = false
	if err := f.findAt(ctx, &f.mids, atNs); err != nil {
		return err
	}
	f.known, f.atNs, f.endNs = true, atNs, atNs
	f.next = f.mids
	return nil
}

// findAt finds the devices that meet the selector by all descriptions below an acq.
func (f *feedSelection) findAt(ctx context.Context, mids *[]int64, atNs int64) error {
	c := f.choice
	c.asOfNs = atNs
	found, _, err := f.store.selectDevices(ctx, &c)
	*mids = slices.DeleteFunc(found, func(mid int64) bool {
		return !f.box[record.MID].Contains(mid)
	})
	return err
}

// marks are those of the events that hide descriptions from every view, also those of the past.
func (f *feedSelection) marks() (out []eventMark) {
	for i := range f.hiding.Events {
		if e := &f.hiding.Events[i]; e.Kind != event.Erase && e.Box.Overlaps(&f.box) {
			out = append(out, eventMark{acqNs: e.AcqNs, kind: e.Kind})
		}
	}
	return out
}

// firstErase returns the acq of the first erase in a range of acq that may hide descriptions.
func (f *feedSelection) firstErase(fromNs, endNs int64) (acqNs int64, any bool) {
	all := f.hiding.Events
	first := sort.Search(len(all), func(i int) bool { return all[i].AcqNs >= fromNs })
	for i := first; i < len(all) && all[i].AcqNs < endNs; i++ {
		if all[i].Kind == event.Erase && all[i].Box.Overlaps(&f.box) {
			return all[i].AcqNs, true
		}
	}
	return 0, false
}

// scan reads descriptions of some devices, nil for all of the box, in a range of acq.
func (f *feedSelection) scan(
	ctx context.Context, mids record.RangeSet, acqs record.Range, keysOnly bool, take Sink,
) error {
	q := record.Query{Box: f.box, KeysOnly: keysOnly}
	if mids != nil {
		q.Box[record.MID] = mids
	}
	q.Box[record.Acq] = record.RangeSet{acqs}
	sc := f.store.scans.Begin(ctx, &q, acqs.To)
	defer sc.Close()
	if sc.Empty {
		return nil
	}
	var mu sync.Mutex
	return f.store.recordDamage(sc.Run(func(int) (Consumer, error) {
		return Consumer{Columns: segment.AllColumns, Rows: func(b *record.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			return take(b)
		}}, nil
	}))
}

// changedIn returns the devices that are described in a slice, ascending, and the acq of the first
// such description.
func (f *feedSelection) changedIn(
	ctx context.Context, fromNs, endNs int64,
) (mids []int64, firstNs int64, err error) {
	firstNs = endNs
	acqs := record.Range{From: fromNs, To: endNs}
	err = f.scan(ctx, nil, acqs, true, func(b *record.Batch) error {
		mids = append(mids, b.MID...)
		firstNs = min(firstNs, slices.Min(b.AcqNs))
		return nil
	})
	slices.Sort(mids)
	return slices.Compact(mids), firstNs, err
}

// versionsOf returns every version of the descriptions of devices up to the end of a slice, by
// device and acq, without those that are hidden there; nil if they are more than the slice may
// hold.
func (f *feedSelection) versionsOf(
	ctx context.Context, mids []int64, endNs int64, divisor int,
) ([]record.Version, error) {
	if len(mids) > maxSliceDescriptions/divisor {
		return nil, nil
	}
	all, bytes := []record.Version{}, 0
	acqs := record.Range{From: math.MinInt64, To: endNs}
	err := f.scan(ctx, rangesOf(mids), acqs, false, func(b *record.Batch) error {
		if bytes += len(b.Data) + versionBytes*b.Len(); bytes > maxSliceVersionBytes/divisor {
			return errSliceFull
		}
		for i := range b.Len() {
			r := b.Record(i)
			r.Payload = slices.Clone(r.Payload)
			all = append(all, record.Version{Record: r})
		}
		return nil
	})
	if errors.Is(err, errSliceFull) {
		return nil, nil
	}
	slices.SortFunc(all, func(a, b record.Version) int { return a.Key.Compare(b.Key) })
	versions.Judge(all, f.hiding.Tree, &f.box, endNs)
	all = slices.DeleteFunc(all, func(v record.Version) bool { return v.HiddenAcqNs != 0 })
	slices.SortFunc(all, func(a, b record.Version) int {
		return cmp.Or(cmp.Compare(a.MID, b.MID), cmp.Compare(a.AcqNs, b.AcqNs))
	})
	return all, err
}

// step follows the devices that are described in a slice from its beginning, through all versions
// of their descriptions.
func (f *feedSelection) step(described []record.Version, fromNs int64) {
	f.steps = map[int64][]selectStep{}
	var changed, now []int64
	for len(described) > 0 {
		mid := described[0].MID
		n := 1
		for n < len(described) && described[n].MID == mid {
			n++
		}
		steps := f.stepsOf(described[:n], fromNs)
		f.steps[mid] = steps
		changed = append(changed, mid)
		if steps[len(steps)-1].meets {
			now = append(now, mid)
		}
		described = described[n:]
	}
	f.next = replaced(f.mids, changed, now)
}

// stepsOf returns when a device meets the selector, by its versions in the order of acq.
func (f *feedSelection) stepsOf(of []record.Version, fromNs int64) []selectStep {
	_, meets := slices.BinarySearch(f.mids, of[0].MID)
	steps := []selectStep{{math.MinInt64, meets}}
	newest := map[int64]*registry.Description{} // by cap, without what is none
	var caps []int64                            // of newest, ascending
	for i := range of {
		v := &of[i]
		d, err := registry.Parse(v.Payload)
		is := err == nil && !v.Tomb
		at, there := slices.BinarySearch(caps, v.CapNs)
		switch {
		case !is && there:
			caps = slices.Delete(caps, at, at+1)
		case is && !there:
			caps = slices.Insert(caps, at, v.CapNs)
		}
		newest[v.CapNs] = d
		if v.AcqNs < fromNs || i+1 < len(of) && of[i+1].AcqNs == v.AcqNs {
			continue
		}
		n := len(caps)
		meets := n > 0 && f.choice.selector.Match(newest[caps[n-1]])
		steps = append(steps, selectStep{v.AcqNs, meets})
	}
	return steps
}

// replaced returns ascending values with those of changed that are in now, and no others of
// changed; it leaves what it is given as it is. All are ascending.
func replaced(values, changed, now []int64) []int64 {
	out := make([]int64, 0, len(values)+len(now))
	for _, v := range values {
		for len(now) > 0 && now[0] < v {
			out, now = append(out, now[0]), now[1:]
		}
		if _, again := slices.BinarySearch(changed, v); !again {
			out = append(out, v)
		}
	}
	return append(out, now...)
}

// shows reports whether the slice shows a row.
func (f *feedSelection) shows(mid, acqNs int64) bool {
	if steps, some := f.steps[mid]; some {
		after := sort.Search(len(steps), func(i int) bool { return steps[i].fromNs > acqNs })
		return steps[after-1].meets
	}
	_, meets := slices.BinarySearch(f.next, mid)
	return meets
}

// shown returns of how many devices the slice may show rows.
func (f *feedSelection) shown() int {
	n := len(f.next)
	for mid, steps := range f.steps {
		_, stays := slices.BinarySearch(f.next, mid)
		if !stays && slices.ContainsFunc(steps, func(s selectStep) bool { return s.meets }) {
			n++
		}
	}
	return n
}

// narrow narrows the box of a slice, and reports whether it may show any row.
func (f *feedSelection) narrow(box *record.Box) bool {
	if len(f.next) == 0 && len(f.steps) == 0 {
		return false
	}
	if len(f.next)+len(f.steps) > maxNarrowed {
		return true
	}
	mids := slices.Clone(f.next)
	for mid := range f.steps {
		mids = append(mids, mid)
	}
	slices.Sort(mids)
	return narrow(box, slices.Compact(mids))
}

// only is a sink of the rows that the slice shows.
func (f *feedSelection) only(take Sink) Sink {
	return func(b *record.Batch) error {
		var picked []uint32
		for i, mid := range b.MID {
			if f.shows(mid, b.AcqNs[i]) {
				picked = append(picked, uint32(i))
			}
		}
		if len(picked) == b.Len() {
			return take(b)
		}
		if len(picked) == 0 {
			return nil
		}
		var kept record.Batch
		kept.AppendPicked(b, picked)
		return take(&kept)
	}
}
