package store

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/sdk/record"
)

// piece is what one shard holds of a part of the box. A scan that resolves versions cuts its box
// into pieces whose versions fit its memory, and scans them a round at a time. All versions of a
// reading lie in one piece, for a box is cut by what they share.
type piece struct {
	now      *snapshot
	box      record.Box
	planned  bool
	segments []*segmentScan
	flagged  int       // rows in the box that may hide others, at most
	inHeads  int       // of these, rows in heads, most of which only came late
	newest   *newest   // with views that resolve versions
	below    []reading // those with rows that came below the horizon
}

var (
	pieces       = sync.Pool{New: func() any { return new(piece) }}
	segmentScans = sync.Pool{New: func() any { return &segmentScan{plan: new(index.Plan)} }}
)

func newPiece(now *snapshot) *piece {
	p := pieces.Get().(*piece)
	p.now = now
	return p
}

var plans = sync.Pool{New: func() any { return new(index.Plan) }}

// begin lists the shards that the box can meet; each is one piece as long as it need not be cut.
func (sc *scan) begin() {
	sc.acquire()
	for _, now := range sc.snapshots {
		p := newPiece(now)
		p.box = sc.box
		sc.waiting = append(sc.waiting, p)
	}
	for _, p := range sc.waiting {
		sc.planPiece(p)
		sc.stats.Segments += len(p.segments)
	}
	if sc.explain != nil {
		sc.explain.describe(sc)
	}
}

// endRound gives back what the round took.
func (sc *scan) endRound() {
	for _, p := range sc.round {
		p.release()
	}
	sc.forgetFound(0)
	sc.round, sc.tasks = sc.round[:0], sc.tasks[:0]
}

// release gives back what the scan took.
func (sc *scan) release() {
	sc.endRound()
	for _, p := range sc.waiting {
		p.release()
	}
	for _, now := range sc.snapshots {
		now.release()
	}
}

func (p *piece) release() {
	for _, seg := range p.segments {
		seg.sealedSegment = nil
		clear(seg.found)
		seg.found = seg.found[:0]
		segmentScans.Put(seg)
	}
	if p.newest != nil {
		newests.Put(p.newest)
	}
	*p = piece{segments: p.segments[:0], below: p.below[:0]}
	pieces.Put(p)
}

// nextRound takes as many pieces as fit the memory for versions, cuts one that does not fit it
// alone, and lists their tasks. It reports whether there are any.
func (sc *scan) nextRound() (bool, error) {
	sc.endRound()
	room := sc.store.opt.versionRoom
	for len(sc.waiting) > 0 {
		last := len(sc.waiting) - 1
		p := sc.waiting[last]
		if !p.planned {
			sc.planPiece(p)
		}
		if p.flagged > room && len(sc.round) > 0 {
			break
		}
		sc.waiting = sc.waiting[:last]
		if p.flagged-p.inHeads > room && sc.cutByZones(p) {
			continue
		}
		found := sc.found
		err := sc.findNewest(p, room)
		if err == nil {
			err = sc.findAbove(p)
		}
		switch {
		case errors.Is(err, errFull):
			sc.cutByReadings(p)
			sc.forgetFound(found)
			continue
		case err != nil:
			p.release()
			return false, err
		}
		sc.round = append(sc.round, p)
		if p.newest != nil {
			room -= min(room, p.newest.count)
		}
		sc.addTasks(p)
	}
	return len(sc.round) > 0, nil
}

// planPiece asks the index of every segment that the box can meet for candidate blocks.
func (sc *scan) planPiece(p *piece) {
	p.planned = true
	if sc.lastN > 0 {
		return // it is read series by series
	}
	for _, sealed := range slices.Backward(p.now.sealed) {
		sc.addSegment(p, sealed)
	}
	if sc.view == record.ViewAll {
		return
	}
	for _, seg := range p.segments {
		for _, c := range seg.plan.Candidates {
			p.flagged += int(seg.idx.Block(c.Block).Flagged)
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
func (p *piece) eachHead(visit func(*index.Head)) {
	visit(p.now.head)
	for _, frozen := range slices.Backward(p.now.frozen) {
		visit(frozen.head)
	}
}

func (p *piece) eachHeadZone(visit func(index.FlaggedZone)) {
	p.eachHead(func(h *index.Head) {
		if h.Flagged() > 0 {
			h.FlaggedZones(&p.box, visit)
		}
	})
}

func (sc *scan) addSegment(p *piece, sealed *sealedSegment) {
	if _, ok := missed(sealed, &p.box); ok {
		return
	}
	seg := segmentScans.Get().(*segmentScan)
	seg.begin(sealed, &p.box, sc.hidden)
	p.segments = append(p.segments, seg)
	if sc.countOnly {
		sc.countInside(seg)
	}
}

// begin plans a box on a segment, without what events hide.
func (seg *segmentScan) begin(sealed *sealedSegment, box *record.Box, hidden []*hider) {
	seg.sealedSegment = sealed
	sealed.idx.Plan(box, seg.plan)
	seg.ranks = appendRanks(seg.ranks[:0], sealed, box)
	clear(seg.hidden)
	seg.hidden = seg.hidden[:0]
	if len(hidden) > 0 {
		seg.hide(hidden)
	}
}

// appendRanks appends the acq of a box as ranks of a segment.
func appendRanks(
	ranks record.RangeSet, sealed *sealedSegment, box *record.Box,
) record.RangeSet {
	for _, r := range box[record.Acq] {
		if lo, hi := sealed.idx.RankRange(r.From, r.To); lo < hi {
			ranks = append(ranks, record.Range{From: int64(lo), To: int64(hi)})
		}
	}
	return ranks
}

// countInside counts the blocks that lie inside the box and leaves the others as candidates.
func (sc *scan) countInside(seg *segmentScan) {
	rest := seg.plan.Candidates[:0]
	for _, c := range seg.plan.Candidates {
		if c.Need == 0 {
			sc.countedInside += uint64(seg.idx.Block(c.Block).Rows)
			sc.stats.BlocksInside++
		} else {
			rest = append(rest, c)
		}
	}
	seg.plan.Candidates = rest
}

// addTasks lists the work. Newest rows come first: most dashboards stop early at a limit.
func (sc *scan) addTasks(p *piece) {
	if sc.lastN > 0 {
		sc.tasks = append(sc.tasks, task{piece: p, last: true})
		return
	}
	p.eachHead(func(h *index.Head) {
		if h.Rows() > 0 {
			sc.tasks = append(sc.tasks, task{piece: p, head: h})
		}
	})
	for _, seg := range p.segments {
		n := len(seg.plan.Candidates)
		for from := 0; from < n; from += chunkBlocks {
			sc.tasks = append(sc.tasks,
				task{piece: p, segment: seg, from: from, to: min(from+chunkBlocks, n)})
		}
	}
}

// cutByZones puts two halves in place of a piece, if there is a cap or a device that parts the
// flagged rows of its blocks and heads.
func (sc *scan) cutByZones(p *piece) bool {
	var zones []index.FlaggedZone
	for _, seg := range p.segments {
		for _, c := range seg.plan.Candidates {
			if b := seg.idx.Block(c.Block); b.Flagged > 0 {
				zones = append(zones, index.FlaggedZone{Flagged: int(b.Flagged),
					MID: index.Bound{Min: b.Min[record.MID], Max: b.Max[record.MID]},
					Cap: index.Bound{Min: b.Min[record.Cap], Max: b.Max[record.Cap]}})
			}
		}
	}
	p.eachHeadZone(func(z index.FlaggedZone) { zones = append(zones, z) })
	byCap, capLeft := bestCut(zones, p.flagged, extent(p.box[record.Cap], record.Cap),
		func(z *index.FlaggedZone) index.Bound { return z.Cap })
	byMID, midLeft := bestCut(zones, p.flagged, extent(p.box[record.MID], record.MID),
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

// extent returns the smallest and the greatest value that a set allows.
func extent(set record.RangeSet, d record.Dim) index.Bound {
	if len(set) == 0 {
		return index.Bound{Min: d.Min(), Max: d.Max() - 1}
	}
	return index.Bound{Min: set[0].From, Max: set[len(set)-1].To - 1}
}

// cutByReadings cuts a piece whose blocks could not be parted in the middle of the readings that
// filled its memory. They differ, so there is a dimension in which they do.
func (sc *scan) cutByReadings(p *piece) {
	for _, d := range []record.Dim{record.Cap, record.MID, record.MOID, record.CID} {
		if at, ok := p.newest.middle(d); ok {
			sc.cut(p, d, at)
			return
		}
	}
	panic("BUG: one reading is more than a scan has room for")
}

// cut replaces a piece by its parts from a value on and below it; the former comes first.
func (sc *scan) cut(p *piece, d record.Dim, at int64) {
	below, from := newPiece(p.now), newPiece(p.now)
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
