// Package versions tells which of the versions of a reading is the newest, for all that shows no
// more than that: scans of the latest state and of earlier ones, last readings and diffs.
//
// It owns the partitions of a box, each of which has few enough readings with several versions for
// memory, the table of these, and the flags by which most rows are known to hide no other. It reads
// what an [Access] pins, and knows neither the store nor who gets the rows. Its main types are
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

// Access is how a store is read: the same for all that reads it.
type Access struct {
	Readahead   *blocks.Readahead
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
	resolverBuffers
}

// resolverState is what is asked, and what came of it.
type resolverState struct {
	Access Access
	Ctx    context.Context

	Box            record.Box      // what rows must satisfy to be looked at
	NewestAcqs     record.RangeSet // acqs of the newest versions that are shown; empty: any
	View           record.View
	DropTombstones bool // in the view of all versions, too: plugins never see tombstones
	BySeries       bool // nothing is planned: each partition is read series by series
	// UseSuperseded: what segments keep of superseded rows, see [shards.SupersededRows], is used
	// and added to. Then a partition has only the newest versions that came since, and
	// DropSuperseded removes no others.
	UseSuperseded bool
	CountOnly     bool  // no rows are asked for, only how many are shown
	Horizon       int64 // rows with this acq or a greater one are not there
	UpperAcqNs    int64 // rows and erases with this acq or a greater one are not looked at

	// HistoryChangedAcqNs is the acq of the newest purge, step of a retention or put below the
	// horizon that meets the box, 0 for none.
	HistoryChangedAcqNs int64
}

type resolverBuffers struct {
	Tombstones    []*tombstone.Range // what hides rows of the box, oldest first
	States        []*shards.State
	Waiting       []*Partition    // not scanned yet; the last one comes next
	Pass          []*Partition    // being scanned
	VersionLookup blocks.Gatherer // opens blocks to find newer versions
	OpenBlocks    blocks.OpenBlocks
	flagged       []index.Candidate // in which to look for newer versions
}

// resolvers are kept with the memory that they have gathered.
var resolvers = sync.Pool{New: func() any { return new(Resolver) }}

// New returns a resolver of a store; GiveBack ends its use.
func New(ctx context.Context, from *Access) *Resolver {
	r := resolvers.Get().(*Resolver)
	r.Reuse(ctx, from)
	return r
}

// GiveBack ends the use of a resolver that New returned.
func (r *Resolver) GiveBack() {
	r.Reset()
	resolvers.Put(r)
}

// Reuse begins a use of the resolver, which is new or was reset.
func (r *Resolver) Reuse(ctx context.Context, from *Access) {
	r.Ctx, r.Access, r.VersionLookup.Ctx = ctx, *from, ctx
	r.Access.Readahead.Clock.Refresh()
}

// Files yields the files that are read, also those that a merge has replaced meanwhile.
func (r *Resolver) Files(yield func(*segment.File) bool) {
	for _, state := range r.States {
		for file := range state.Files {
			if !yield(file) {
				return
			}
		}
	}
}

// Reset forgets everything but memory.
func (r *Resolver) Reset() {
	r.VersionLookup.Reset()
	clear(r.States)
	clear(r.Tombstones)
	r.States, r.Tombstones = r.States[:0], r.Tombstones[:0]
	r.Waiting, r.Pass = r.Waiting[:0], r.Pass[:0]
	r.OpenBlocks.Reset()
	r.resolverState = resolverState{}
}

// PinStates pins the read states of the box, and picks the tombstones that cover rows of it.
func (r *Resolver) PinStates() {
	var all *tombstone.Set
	r.States, all = r.Access.Pin(&r.Box, r.States)
	r.pickTombstones(all)
	r.trackBackdatedPuts()
}

// pickTombstones chooses the tombstones that cover rows of the scan, oldest first: purges, steps of
// retentions and splits, and in views that resolve versions the erases from before the time of an
// as-of query.
func (r *Resolver) pickTombstones(from *tombstone.Set) {
	if from.Tree == nil && from.HistoryChanges == nil {
		return
	}
	b := bounds.Of(&r.Box)
	from.Tree.Each(&r.Box, &b, func(t *tombstone.Range) {
		if t.Kind != event.Erase || r.View != record.ViewAll && t.AcqNs < r.UpperAcqNs {
			r.Tombstones = append(r.Tombstones, t)
		}
	})
	slices.SortFunc(r.Tombstones, func(a, b *tombstone.Range) int {
		return cmp.Compare(a.AcqNs, b.AcqNs)
	})
	r.HistoryChangedAcqNs = from.HistoryChanges.NewestOf(&r.Box, &b, 0)
}

// trackBackdatedPuts counts a backdated put as a change of the box below the horizon.
func (r *Resolver) trackBackdatedPuts() {
	for _, state := range r.States {
		if state.Backdated != nil {
			r.HistoryChangedAcqNs = state.Backdated.NewestPut(&r.Box, r.HistoryChangedAcqNs)
		}
	}
}

// MakePartitions makes one partition of each read state, as long as it need not be divided, and
// returns how many segments were planned.
func (r *Resolver) MakePartitions() (segments int) {
	for _, state := range r.States {
		if r.View != record.ViewAll && !r.BySeries {
			clearHeads(state)
		}
		p := NewPartition(state)
		p.Box = r.Box
		r.Waiting = append(r.Waiting, p)
	}
	for _, p := range r.Waiting {
		r.PlanPartition(p)
		segments += len(p.Segments)
	}
	return segments
}

// NextPass takes as many partitions as fit the memory for versions, and divides one that does not
// fit it alone. It reports whether there are any.
func (r *Resolver) NextPass() (bool, error) {
	r.endPass()
	limit := r.Access.MaxReadings
	for len(r.Waiting) > 0 {
		last := len(r.Waiting) - 1
		p := r.Waiting[last]
		if !p.Planned {
			r.PlanPartition(p)
		}
		if p.Flagged > limit && len(r.Pass) > 0 {
			break
		}
		r.Waiting = r.Waiting[:last]
		if p.Flagged-p.flaggedInHeads > limit && r.DivideByZones(p) {
			continue
		}
		divided, err := r.resolve(p, limit)
		if err != nil {
			p.GiveBack()
			return false, err
		}
		if divided {
			continue
		}
		r.Pass = append(r.Pass, p)
		if p.Newest != nil {
			limit -= min(limit, p.Newest.count)
		}
	}
	return len(r.Pass) > 0, nil
}

// resolve finds the newest versions of the readings of a partition, or divides it where these are
// more than a limit.
func (r *Resolver) resolve(p *Partition, limit int) (divided bool, err error) {
	mark := r.OpenBlocks.Taken
	err = r.FindNewest(p, limit)
	if err == nil {
		err = r.findNewerThanBackdated(p)
	}
	if errors.Is(err, ErrFull) {
		r.DivideByReadings(p)
		r.OpenBlocks.Truncate(mark)
		return true, nil
	}
	if err == nil && p.Newest.len() > 0 && r.UseSuperseded {
		p.Newest.sortRecent(p.knownBelowNs)
	}
	return false, err
}

// endPass gives back what the pass took.
func (r *Resolver) endPass() {
	for _, p := range r.Pass {
		p.GiveBack()
	}
	r.OpenBlocks.Truncate(0)
	r.Pass = r.Pass[:0]
}

// UnpinStates ends the pass, and what PinStates began.
func (r *Resolver) UnpinStates() {
	r.endPass()
	for _, p := range r.Waiting {
		p.GiveBack()
	}
	for _, state := range r.States {
		state.Unpin()
	}
}

// PlanPartition asks the index of every segment that the box can meet for candidate blocks.
func (r *Resolver) PlanPartition(p *Partition) {
	p.Planned = true
	if r.BySeries {
		return // it is read series by series
	}
	for _, sealed := range slices.Backward(p.State.Sealed) {
		r.addSegment(p, sealed)
	}
	if r.View == record.ViewAll {
		return
	}
	if p.findFlagged(); !p.someFlagged {
		return
	}
	p.newestFromNs = r.newerFrom(p)
	for _, seg := range p.Segments {
		p.eachFlagged(seg, func(_ index.Candidate, info *index.BlockInfo) {
			p.Flagged += int(info.Flagged)
		})
	}
	p.flaggedInHeads = 0
	p.EachHead(func(h *index.Head) { p.flaggedInHeads += h.Flagged() })
	if p.Flagged+p.flaggedInHeads > r.Access.MaxReadings {
		p.flaggedInHeads = 0
		p.eachHeadZone(func(z index.FlaggedZone) { p.flaggedInHeads += z.Flagged })
	}
	p.Flagged += p.flaggedInHeads
}

func (r *Resolver) addSegment(p *Partition, sealed *shards.Segment) {
	if _, ok := shards.PrunedBy(sealed, &p.Box); ok {
		return
	}
	seg := blocks.Plan(sealed, &p.Box, r.Tombstones)
	p.Segments = append(p.Segments, seg)
}

// CoveredBy returns the oldest tombstone that covers a row, nil for none.
func (r *Resolver) CoveredBy(k record.Key) *tombstone.Range {
	return tombstone.FirstOver(r.Tombstones, k)
}

// DropCovered removes the rows of a batch that a tombstone covers.
func (r *Resolver) DropCovered(b *record.Batch) {
	if len(r.Tombstones) > 0 {
		keepRows(b, 0, func(i int) bool { return r.CoveredBy(b.Key(i)) == nil })
	}
}

// Shows reports whether a row, the newest version of its reading, is one that the query asked for.
func (r *Resolver) Shows(k record.Key) bool { return r.NewestAcqs.Contains(k.AcqNs) }

// LooksAtKeys reports whether DropSuperseded looks at the keys of rows of a partition.
func (r *Resolver) LooksAtKeys(p *Partition) bool {
	return p.Newest.len() > 0 || len(r.NewestAcqs) > 0
}

// DropSuperseded removes from a batch the rows at or after start that a newer version in the
// partition hides, or that the query did not ask for, such as tombstones. It returns how many a
// newer version hides.
func (r *Resolver) DropSuperseded(p *Partition, b *record.Batch, start int) (superseded uint64) {
	if r.View == record.ViewAll {
		if r.DropTombstones && len(b.Tombs) > 0 {
			keepRows(b, start, func(i int) bool { return !b.Tomb(i) })
		}
		return 0
	}
	out := blocks.NewRowRemover(b, start)
	for i := p.Newest.nextCandidate(b, start); i < b.Len(); i = p.Newest.nextCandidate(b, i+1) {
		if p.Newest.Supersedes(b.Key(i)) {
			out.Remove(i)
			superseded++
		}
	}
	out.End()
	if len(b.Tombs) > 0 || len(r.NewestAcqs) > 0 {
		keepRows(b, start, func(i int) bool { return !b.Tomb(i) && r.Shows(b.Key(i)) })
	}
	return superseded
}

// Shown returns how many rows of a block that lies inside the box are shown, if that is known
// without a look at them. known is what [blocks.PlannedSegment.SupersededOf] returns.
func (r *Resolver) Shown(
	p *Partition, seg *blocks.PlannedSegment, number uint32, known *shards.SupersededRows,
) (rows int, ok bool) {
	info := seg.Index.Block(number)
	rows = int(info.Rows)
	if r.View == record.ViewAll {
		return rows, !r.DropTombstones
	}
	switch {
	case len(r.NewestAcqs) > 0:
		return 0, false
	case !p.someFlagged:
		return rows, true
	case !p.HasNoNewer(info, known):
		return 0, false
	}
	if known == nil && info.Flagged > 0 { // tombstones are
		return 0, false
	}
	r.keepHasNoNewer(p, seg, number, known)
	if known != nil { // then no row is a tombstone
		rows -= len(known.Positions)
	}
	return rows, true
}

// keepRows removes the rows at or after start that are not to stay.
func keepRows(b *record.Batch, start int, stays func(i int) bool) {
	out := blocks.NewRowRemover(b, start)
	for i := start; i < b.Len(); i++ {
		if !stays(i) {
			out.Remove(i)
		}
	}
	out.End()
}
