package store

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/blocks"
	"github.com/pentad-db/pentad/node/store/bounds"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/sdk/record"
)

// partition is a part of the scan's box on one shard. A scan that resolves versions divides its box
// into partitions whose versions fit its memory, and scans as many of them in a pass as fit
// together. All versions of a reading are in one partition, since a box is cut by what they share.
type partition struct {
	state     *shards.State
	box       record.Box
	planned   bool
	segments  []*blocks.Planned
	flagged   int          // rows in the box that may hide others, at most
	inHeads   int          // of these, rows in heads, most of which only came late
	newest    *newestTable // with views that resolve versions
	backdated []reading    // those with backdated rows
}

var (
	partitionPool = sync.Pool{New: func() any { return new(partition) }}
)

func newPartition(now *shards.State) *partition {
	p := partitionPool.Get().(*partition)
	p.state = now
	return p
}

// begin lists the shards that the box can meet; each is one partition as long as it need not be
// cut.
func (sc *scan) begin() {
	sc.acquire()
	for _, now := range sc.states {
		p := newPartition(now)
		p.box = sc.box
		sc.waiting = append(sc.waiting, p)
	}
	for _, p := range sc.waiting {
		sc.planPartition(p)
		sc.stats.Segments += len(p.segments)
	}
	if sc.explain != nil {
		sc.explain.describe(sc)
	}
}

// endPass gives back what the pass took.
func (sc *scan) endPass() {
	for _, p := range sc.pass {
		p.release()
	}
	sc.cache.Truncate(0)
	sc.pass, sc.tasks = sc.pass[:0], sc.tasks[:0]
}

// release gives back what the scan took.
func (sc *scan) release() {
	sc.endPass()
	for _, p := range sc.waiting {
		p.release()
	}
	for _, now := range sc.states {
		now.Release()
	}
}

func (p *partition) release() {
	for _, seg := range p.segments {
		seg.Free()
	}
	if p.newest != nil {
		newestTables.Put(p.newest)
	}
	*p = partition{segments: p.segments[:0], backdated: p.backdated[:0]}
	partitionPool.Put(p)
}

// nextPass takes as many partitions as fit the memory for versions, cuts one that does not fit it
// alone, and lists their tasks. It reports whether there are any.
func (sc *scan) nextPass() (bool, error) {
	sc.endPass()
	room := sc.store.opt.versionRoom
	for len(sc.waiting) > 0 {
		last := len(sc.waiting) - 1
		p := sc.waiting[last]
		if !p.planned {
			sc.planPartition(p)
		}
		if p.flagged > room && len(sc.pass) > 0 {
			break
		}
		sc.waiting = sc.waiting[:last]
		if p.flagged-p.inHeads > room && sc.cutByZones(p) {
			continue
		}
		found := sc.cache.Taken
		err := sc.findNewest(p, room)
		if err == nil {
			err = sc.findNewer(p)
		}
		switch {
		case errors.Is(err, errFull):
			sc.cutByReadings(p)
			sc.cache.Truncate(found)
			continue
		case err != nil:
			p.release()
			return false, err
		}
		sc.pass = append(sc.pass, p)
		if p.newest != nil {
			room -= min(room, p.newest.count)
		}
		sc.addTasks(p)
	}
	return len(sc.pass) > 0, nil
}

// planPartition asks the index of every segment that the box can meet for candidate blocks.
func (sc *scan) planPartition(p *partition) {
	p.planned = true
	if sc.lastN > 0 {
		return // it is read series by series
	}
	for _, sealed := range slices.Backward(p.state.Sealed) {
		sc.addSegment(p, sealed)
	}
	if sc.view == record.ViewAll {
		return
	}
	for _, seg := range p.segments {
		for _, c := range seg.Plan.Candidates {
			p.flagged += int(seg.Index.Block(c.Block).Flagged)
		}
	}
	p.inHeads = 0
	p.eachHead(func(h *index.Head) { p.inHeads += h.Flagged() })
	if p.flagged+p.inHeads > sc.store.opt.versionRoom {
		p.inHeads = 0
		p.eachHeadZone(func(z index.FlaggedZone) { p.inHeads += z.Flagged })
	}
	p.flagged += p.inHeads
}

// eachHead calls visit with the heads, newest first.
func (p *partition) eachHead(visit func(*index.Head)) {
	visit(p.state.Head)
	for _, immutable := range slices.Backward(p.state.Immutable) {
		visit(immutable.Head)
	}
}

func (p *partition) eachHeadZone(visit func(index.FlaggedZone)) {
	p.eachHead(func(h *index.Head) {
		if h.Flagged() > 0 {
			h.FlaggedZones(&p.box, visit)
		}
	})
}

func (sc *scan) addSegment(p *partition, sealed *shards.Segment) {
	if _, ok := shards.Missed(sealed, &p.box); ok {
		return
	}
	seg := blocks.Plan(sealed, &p.box, sc.tombstones)
	p.segments = append(p.segments, seg)
	if sc.countOnly {
		sc.countInside(seg)
	}
}

// countInside counts the blocks that lie inside the box and leaves the others as candidates.
func (sc *scan) countInside(seg *blocks.Planned) {
	rest := seg.Plan.Candidates[:0]
	for _, c := range seg.Plan.Candidates {
		if c.Need == 0 {
			sc.countedInside += uint64(seg.Index.Block(c.Block).Rows)
			sc.stats.BlocksInside++
		} else {
			rest = append(rest, c)
		}
	}
	seg.Plan.Candidates = rest
}

// addTasks lists the work. Newest rows come first: most dashboards stop early at a limit.
func (sc *scan) addTasks(p *partition) {
	if sc.lastN > 0 {
		sc.tasks = append(sc.tasks, task{partition: p, last: true})
		return
	}
	p.eachHead(func(h *index.Head) {
		if h.Rows() > 0 {
			sc.tasks = append(sc.tasks, task{partition: p, head: h})
		}
	})
	for _, seg := range p.segments {
		n := len(seg.Plan.Candidates)
		for from := 0; from < n; from += blocks.TaskBlocks {
			sc.tasks = append(sc.tasks,
				task{partition: p, segment: seg, from: from, to: min(from+blocks.TaskBlocks, n)})
		}
	}
}

// cutByZones puts two halves in place of a partition, if there is a cap or a device that parts the
// flagged rows of its blocks and heads.
func (sc *scan) cutByZones(p *partition) bool {
	var zones []index.FlaggedZone
	for _, seg := range p.segments {
		for _, c := range seg.Plan.Candidates {
			if b := seg.Index.Block(c.Block); b.Flagged > 0 {
				zones = append(zones, index.FlaggedZone{Flagged: int(b.Flagged),
					MID: index.Bound{Min: b.Min[record.MID], Max: b.Max[record.MID]},
					Cap: index.Bound{Min: b.Min[record.Cap], Max: b.Max[record.Cap]}})
			}
		}
	}
	p.eachHeadZone(func(z index.FlaggedZone) { zones = append(zones, z) })
	byCap, capLeft := bestCut(zones, p.flagged, bounds.Extent(p.box[record.Cap], record.Cap),
		func(z *index.FlaggedZone) index.Bound { return z.Cap })
	byMID, midLeft := bestCut(zones, p.flagged, bounds.Extent(p.box[record.MID], record.MID),
		func(z *index.FlaggedZone) index.Bound { return z.MID })
	switch {
	case min(capLeft, midLeft) >= p.flagged:
		return false
	case capLeft <= midLeft:
		sc.cut(p, record.Cap, byCap)
	default:
		sc.cut(p, record.MID, byMID)
	}
	return true
}

// bestCut returns the value of a dimension at which zones are cut best, at about half of their
// flagged rows, and how many of these the larger part still has.
func bestCut(
	zones []index.FlaggedZone, total int, within index.Bound,
	of func(*index.FlaggedZone) index.Bound,
) (at int64, left int) {
	slices.SortFunc(zones, func(a, b index.FlaggedZone) int {
		return cmp.Compare(of(&a).Min, of(&b).Min)
	})
	before, found := 0, false
	for i := range zones {
		if v := of(&zones[i]).Min; v > within.Min && (!found || v == at || before < total/2) {
			at, found = v, true
		}
		before += zones[i].Flagged
	}
	if !found || at > within.Max {
		return 0, math.MaxInt
	}
	below, above := 0, 0
	for i := range zones {
		z := of(&zones[i])
		if z.Min < at {
			below += zones[i].Flagged
		}
		if z.Max >= at {
			above += zones[i].Flagged
		}
	}
	return at, max(below, above)
}

// cutByReadings cuts a partition whose blocks could not be parted in the middle of the readings
// that filled its memory. They differ, so there is a dimension in which they do.
func (sc *scan) cutByReadings(p *partition) {
	for _, d := range []record.Dim{record.Cap, record.MID, record.MOID, record.CID} {
		if at, ok := p.newest.middle(d); ok {
			sc.cut(p, d, at)
			return
		}
	}
	panic("BUG: one reading is more than a scan has room for")
}

// cut replaces a partition by its parts from a value on and below it; the former comes first.
func (sc *scan) cut(p *partition, d record.Dim, at int64) {
	below, from := newPartition(p.state), newPartition(p.state)
	below.box, from.box = cutBox(&p.box, d, at)
	p.release()
	sc.waiting = append(sc.waiting, below, from)
}

// cutBox returns the parts of a box below a value and from it on.
func cutBox(box *record.Box, d record.Dim, at int64) (below, from record.Box) {
	below, from = *box, *box
	below[d] = within(box[d], record.Range{From: d.Min(), To: at})
	from[d] = within(box[d], record.Range{From: at, To: d.Max()})
	return below, from
}

// within returns what of a normalised set lies in a range.
func within(set record.RangeSet, r record.Range) record.RangeSet {
	if len(set) == 0 {
		return record.RangeSet{r}
	}
	var out record.RangeSet
	for _, s := range set {
		if s = (record.Range{From: max(s.From, r.From), To: min(s.To, r.To)}); s.From < s.To {
			out = append(out, s)
		}
	}
	return out
}
