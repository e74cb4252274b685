// Package versions tells which of the versions of a reading is the newest, for all that shows no
// more than that: scans of the latest state and of earlier ones, last readings and diffs.
//
// It owns the partitions of a box, each of which has few enough readings with several versions for
// memory, the table of these, and the flags by which most rows are known to hide no other. It reads
// what a [Source] pins, and knows neither the store nor who gets the rows. Its main types are
// [Resolver], [Partition] and [Table]. It starts no goroutines: a resolver belongs to one, and
// while a pass is scanned many may ask its partitions.
package versions

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/blocks"
	"github.com/pentad-db/pentad/node/store/bounds"
	"github.com/pentad-db/pentad/node/store/event"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/node/store/tombstone"
	"github.com/pentad-db/pentad/sdk/record"
)

// Source is what is read: the same for all that reads a store.
type Source struct {
	Ahead       *blocks.Readahead
	MaxReadings int // readings that are kept at once to resolve versions
	// Pin appends the read states of the shards that can hold rows of a box, to be unpinned by the
	// caller, and returns the tombstones that belong to them.
	Pin func(box *record.Box, states []*shards.State) ([]*shards.State, *tombstone.Set)
}

// Resolver divides the box of a scan into partitions and knows of each which rows have a newer
// version. Its user begins a use, says what is asked, acquires the read states, and takes pass
// after pass, or partition after partition.
type Resolver struct {
	resolverState
	resolverMemory
}

// resolverState is what is asked, and what came of it.
type resolverState struct {
	Source
	Ctx context.Context

	Box      record.Box      // what rows must satisfy to be looked at
	Winners  record.RangeSet // what acqs the newest version must have to be shown; empty: any
	View     record.View
	NoTombs  bool  // also in the view of all versions: plugins never see tombstones
	BySeries bool  // nothing is planned: each partition is read series by series
	Horizon  int64 // rows with this acq or a greater one are not there
	End      int64 // rows and erases with this acq or a greater one are not looked at

	// HistoryChangedAcqNs is the acq of the newest purge, step of a retention or put below the
	// horizon that meets the box, 0 for none.
	HistoryChangedAcqNs int64
}

type resolverMemory struct {
	Tombstones []*tombstone.Range // what hides rows of the box, oldest first
	States     []*shards.State
	Waiting    []*Partition    // not scanned yet; the last one comes next
	Pass       []*Partition    // being scanned
	Finder     blocks.Gatherer // opens blocks to find newer versions
	Cache      blocks.Cache
	flagged    []index.Candidate // in which to look for newer versions
}

// resolvers are kept with the memory that they have gathered.
var resolvers = sync.Pool{New: func() any { return new(Resolver) }}

// New returns a resolver of a source; GiveBack ends its use.
func New(ctx context.Context, from *Source) *Resolver {
	sc := resolvers.Get().(*Resolver)
	sc.Begin(ctx, from)
	return sc
}

// GiveBack ends the use of a resolver that New returned.
func (sc *Resolver) GiveBack() {
	sc.Reset()
	resolvers.Put(sc)
}

// Begin begins a use of the resolver, which is new or was reset.
func (sc *Resolver) Begin(ctx context.Context, from *Source) {
	sc.Ctx, sc.Source, sc.Finder.Ctx = ctx, *from, ctx
	sc.Ahead.Clock.Refresh()
}

// Mappings yields the files that are read, also those that a merge has replaced meanwhile.
func (sc *Resolver) Mappings(yield func(*segment.Sealed) bool) {
	for _, now := range sc.States {
		for file := range now.Mappings {
			if !yield(file) {
				return
			}
		}
	}
}

// Reset forgets everything but memory.
func (sc *Resolver) Reset() {
	sc.Finder.Reset()
	clear(sc.States)
	clear(sc.Tombstones)
	sc.States, sc.Tombstones = sc.States[:0], sc.Tombstones[:0]
	sc.Waiting, sc.Pass = sc.Waiting[:0], sc.Pass[:0]
	sc.Cache.Reset()
	sc.resolverState = resolverState{}
}

// PinStates pins the read states of the box, and picks the tombstones that cover rows of it.
func (sc *Resolver) PinStates() {
	var all *tombstone.Set
	sc.States, all = sc.Pin(&sc.Box, sc.States)
	sc.pickTombstones(all)
	sc.notePuts()
}

// pickTombstones chooses the tombstones that cover rows of the scan, oldest first: purges, and in
// views that resolve versions the erases from before the time of an as-of query.
func (sc *Resolver) pickTombstones(from *tombstone.Set) {
	if from.Tree == nil && from.Reported == nil {
		return
	}
	b := bounds.Of(&sc.Box)
	from.Tree.Each(&sc.Box, &b, func(h *tombstone.Range) {
		if h.Kind != event.Erase || sc.View != record.ViewAll && h.AcqNs < sc.End {
			sc.Tombstones = append(sc.Tombstones, h)
		}
	})
	slices.SortFunc(sc.Tombstones, func(a, b *tombstone.Range) int {
		return cmp.Compare(a.AcqNs, b.AcqNs)
	})
	sc.HistoryChangedAcqNs = from.Reported.NewestOf(&sc.Box, &b, 0)
}

// notePuts counts a backdated put as a change of the box below the horizon.
func (sc *Resolver) notePuts() {
	for _, now := range sc.States {
		if now.Backdated != nil {
			sc.HistoryChangedAcqNs = now.Backdated.NewestPut(&sc.Box, sc.HistoryChangedAcqNs)
		}
	}
}

// Partition makes one partition of each read state, as long as it need not be cut, and returns how
// many segments were planned.
func (sc *Resolver) Partition() (segments int) {
	for _, now := range sc.States {
		if sc.View != record.ViewAll && !sc.BySeries {
			clearHeads(now)
		}
		p := NewPartition(now)
		p.Box = sc.Box
		sc.Waiting = append(sc.Waiting, p)
	}
	for _, p := range sc.Waiting {
		sc.PlanPartition(p)
		segments += len(p.Segments)
	}
	return segments
}

// NextPass takes as many partitions as fit the memory for versions, and cuts one that does not fit
// it alone. It reports whether there are any.
func (sc *Resolver) NextPass() (bool, error) {
	sc.endPass()
	limit := sc.MaxReadings
	for len(sc.Waiting) > 0 {
		last := len(sc.Waiting) - 1
		p := sc.Waiting[last]
		if !p.Planned {
			sc.PlanPartition(p)
		}
		if p.Flagged > limit && len(sc.Pass) > 0 {
			break
		}
		sc.Waiting = sc.Waiting[:last]
		if p.Flagged-p.inHeads > limit && sc.CutByZones(p) {
			continue
		}
		found := sc.Cache.Taken
		err := sc.FindNewest(p, limit)
		if err == nil {
			err = sc.findNewer(p)
		}
		switch {
		case errors.Is(err, ErrFull):
			sc.CutByReadings(p)
			sc.Cache.Truncate(found)
			continue
		case err != nil:
			p.GiveBack()
			return false, err
		}
		sc.Pass = append(sc.Pass, p)
		if p.Newest != nil {
			limit -= min(limit, p.Newest.count)
		}
	}
	return len(sc.Pass) > 0, nil
}

// endPass gives back what the pass took.
func (sc *Resolver) endPass() {
	for _, p := range sc.Pass {
		p.GiveBack()
	}
	sc.Cache.Truncate(0)
	sc.Pass = sc.Pass[:0]
}

// UnpinStates ends the pass, and what PinStates began.
func (sc *Resolver) UnpinStates() {
	sc.endPass()
	for _, p := range sc.Waiting {
		p.GiveBack()
	}
	for _, now := range sc.States {
		now.Unpin()
	}
}

// PlanPartition asks the index of every segment that the box can meet for candidate blocks.
func (sc *Resolver) PlanPartition(p *Partition) {
	p.Planned = true
	if sc.BySeries {
		return // it is read series by series
	}
	for _, sealed := range slices.Backward(p.State.Sealed) {
		sc.addSegment(p, sealed)
	}
	if sc.View == record.ViewAll {
		return
	}
	for _, seg := range p.Segments {
		for _, c := range seg.Plan.Candidates {
			p.Flagged += int(seg.Index.Block(c.Block).Flagged)
		}
	}
	p.inHeads = 0
	p.EachHead(func(h *index.Head) { p.inHeads += h.Flagged() })
	if p.Flagged+p.inHeads > sc.MaxReadings {
		p.inHeads = 0
		p.eachHeadZone(func(z index.FlaggedZone) { p.inHeads += z.Flagged })
	}
	p.Flagged += p.inHeads
}

func (sc *Resolver) addSegment(p *Partition, sealed *shards.Segment) {
	if _, ok := shards.Missed(sealed, &p.Box); ok {
		return
	}
	seg := blocks.Plan(sealed, &p.Box, sc.Tombstones)
	p.Segments = append(p.Segments, seg)
}

// CoveredBy returns the oldest tombstone that covers a row, nil for none.
func (sc *Resolver) CoveredBy(k record.Key) *tombstone.Range {
	return tombstone.FirstOver(sc.Tombstones, k)
}

// DropCovered removes the rows of a batch that a tombstone covers.
func (sc *Resolver) DropCovered(b *record.Batch) {
	if len(sc.Tombstones) > 0 {
		keepRows(b, 0, func(i int) bool { return sc.CoveredBy(b.Key(i)) == nil })
	}
}

// Shows reports whether a row, the newest version of its reading, is one that the query asked for.
func (sc *Resolver) Shows(k record.Key) bool { return sc.Winners.Contains(k.AcqNs) }

// Keep removes from a batch the rows at or after start that a newer version in the partition
// hides, or that the query did not ask for, such as tombstones. It returns how many a newer version
// hides.
func (sc *Resolver) Keep(p *Partition, b *record.Batch, start int) (superseded uint64) {
	if sc.View == record.ViewAll {
		if sc.NoTombs && len(b.Tombs) > 0 {
			keepRows(b, start, func(i int) bool { return !b.Tomb(i) })
		}
		return 0
	}
	out := removal{b: b, keep: start, from: start}
	for i := p.Newest.suspect(b, start); i < b.Len(); i = p.Newest.suspect(b, i+1) {
		if p.Newest.Supersedes(b.Key(i)) {
			out.remove(i)
			superseded++
		}
	}
	out.end()
	if len(b.Tombs) > 0 || len(sc.Winners) > 0 {
		keepRows(b, start, func(i int) bool { return !b.Tomb(i) && sc.Shows(b.Key(i)) })
	}
	return superseded
}

// ShowsAll reports whether Keep is known to remove no row of a block.
func (sc *Resolver) ShowsAll(p *Partition, info *index.BlockInfo) bool {
	if sc.View == record.ViewAll {
		return !sc.NoTombs
	}
	// Tombstones are flagged.
	return len(sc.Winners) == 0 && info.Flagged == 0 && p.Newest.Misses(info)
}

// keepRows removes the rows at or after start that are not to stay.
func keepRows(b *record.Batch, start int, stays func(i int) bool) {
	out := removal{b: b, keep: start, from: start}
	for i := start; i < b.Len(); i++ {
		if !stays(i) {
			out.remove(i)
		}
	}
	out.end()
}

// removal removes rows of a batch, in ascending order: those between are moved together.
type removal struct {
	b          *record.Batch
	keep, from int // the rows from one on go to the other
}

func (r *removal) remove(i int) {
	if n := i - r.from; n > 0 && r.keep < r.from {
		r.b.MoveRange(r.keep, r.from, n)
	}
	r.keep, r.from = r.keep+i-r.from, i+1
}

func (r *removal) end() {
	if r.from > r.keep {
		r.remove(r.b.Len())
	} else {
		r.keep = r.b.Len()
	}
	r.b.Truncate(r.keep)
}
