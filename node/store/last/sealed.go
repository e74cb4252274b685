package last

import (
	"cmp"
	"slices"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/internal/durable"
	"github.com/pentad-db/pentad/node/store/blocks"
	"github.com/pentad-db/pentad/node/store/bounds"
	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// medianOf is how many series decide how far back a segment is looked at first.
	medianOf = 64
)

// segmentState is what is left to read of a segment: blocks, from window to window of caps, each
// window older and wider than the one before.
type segmentState struct {
	blocks.PlannedSegment
	source uint32
	shown  record.RangeSet // ranks of the rows that the query asked for
	caps   index.Bound     // that rows of the box can have here
	needs  []need          // series that may need more of it, ascending
	from   int64           // where the present window starts: what is not listed lies below
	width  uint64          // of the window
	seen   []uint64        // bitmap of the blocks that were listed
	runs   []run           // ascending by cap: the last one comes next
}

// run is a sub-run of a block that comes next in it, and the greatest cap that it can have.
type run struct {
	block uint32
	sub   int
	capNs int64
	needs []need // of the series that can be in the block; nil before it is looked at
}

// newSegment returns an empty one, with memory of one before.
func (l *search) newSegment() *segmentState {
	last := len(l.spare) - 1
	if last < 0 {
		return new(segmentState)
	}
	s := l.spare[last]
	l.spare = l.spare[:last]
	return s
}

// forgetSegments ends the use of all segments.
func (l *search) forgetSegments() {
	for i, s := range l.segments {
		l.spare = append(l.spare, s.emptied())
		l.segments[i] = nil
	}
	l.segments = l.segments[:0]
}

// emptied forgets everything but memory.
func (s *segmentState) emptied() *segmentState {
	clear(s.runs[:cap(s.runs)])
	*s = segmentState{shown: s.shown[:0], seen: s.seen[:0], runs: s.runs[:0],
		PlannedSegment: blocks.PlannedSegment{Ranks: s.Ranks[:0]}}
	return s
}

// next returns the greatest cap that any row can have which is not read yet.
func (s *segmentState) next() (capNs int64, ok bool) {
	if len(s.runs) == 0 {
		return 0, false
	}
	return s.runs[len(s.runs)-1].capNs, true
}

// findSealed takes in what of the segments can be among the newest.
func (l *search) findSealed() error {
	l.listSegments()
	for begun := 0; ; {
		var best *segmentState
		var highest int64
		for _, s := range l.segments[:begun] {
			if capNs, ok := s.next(); ok && (best == nil || capNs > highest) {
				best, highest = s, capNs
			}
		}
		if begun < len(l.segments) && (best == nil || l.segments[begun].caps.Max >= highest) {
			if err := l.begin(l.segments[begun]); err != nil {
				return err
			}
			begun++
			continue
		}
		if best == nil {
			return nil
		}
		if err := l.nextRun(best); err != nil {
			return err
		}
	}
}

// listSegments lists those that the box can meet, by descending greatest cap.
func (l *search) listSegments() {
	for i, sealed := range l.readState.Sealed {
		s := l.newSegment()
		s.source, s.Segment = uint32(len(l.heads)+i), sealed
		whole := sealed.Index.Bounds()
		meets := true
		for d := range record.NumDims {
			meets = meets && l.box[d].Intersects(whole[d].Min, whole[d].Max)
		}
		s.Ranks = sealed.Index.AppendRankRanges(s.Ranks[:0], &l.box)
		if len(l.resolver.NewestAcqs) > 0 {
			s.shown = sealed.Index.AppendRankRanges(s.shown[:0],
				&record.Box{record.Acq: l.resolver.NewestAcqs})
			if len(s.shown) == 0 {
				s.shown = append(s.shown, record.At(-1))
			}
		}
		if !meets || len(s.Ranks) == 0 {
			l.spare = append(l.spare, s.emptied())
			continue
		}
		asked := bounds.Extent(l.box[record.Cap], record.Cap)
		s.caps = index.Bound{Min: max(whole[record.Cap].Min, asked.Min),
			Max: min(whole[record.Cap].Max, asked.Max)}
		l.segments = append(l.segments, s)
	}
	slices.SortFunc(l.segments, func(a, b *segmentState) int {
		return cmp.Or(cmp.Compare(b.caps.Max, a.caps.Max), cmp.Compare(b.source, a.source))
	})
}

// begin finds which series may need rows of a segment and lists the blocks of its first window.
func (l *search) begin(s *segmentState) error {
	l.Counts.Planned++
	found := len(l.arena)
	each := func(c index.SeriesCap) {
		if c.MaxCapNs < s.caps.Min {
			return
		}
		n := need{l.state.announce(c.Series), min(c.MaxCapNs, s.caps.Max)}
		if l.needs(&n, s.caps) {
			l.arena = append(l.arena, n)
		}
	}
	if s.Series != nil {
		if err := s.Series.Each(&l.box, each); err != nil {
			return &durable.CorruptError{File: s.File.Path(), Reason: "section of series", Err: err}
		}
	} else {
		set, err := l.collect(s)
		if err != nil {
			return err
		}
		for _, c := range set.Sorted() {
			each(c)
		}
	}
	s.needs = l.arena[found:len(l.arena):len(l.arena)]
	l.state.settle()
	s.from = record.Cap.Max()
	words := (s.Index.Blocks() + 63) / 64
	s.seen = slices.Grow(s.seen[:0], words)[:words]
	clear(s.seen)
	l.nextWindow(s)
	return nil
}

// collect finds the series of a segment without a table by reading its rows.
func (l *search) collect(s *segmentState) (*index.SeriesSet, error) {
	set := new(index.SeriesSet)
	s.Plan = blocks.Plans.Get().(*index.Plan)
	s.Index.Plan(&l.box, s.Plan)
	defer func() { blocks.Plans.Put(s.Plan); s.Plan = nil }()
	for _, c := range s.Plan.Candidates {
		if err := l.resolver.Ctx.Err(); err != nil {
			return nil, err
		}
		info, err := l.Open(&s.PlannedSegment, c)
		if err != nil {
			return nil, err
		}
		l.Chosen = l.Choose(&s.PlannedSegment, info, c.Residual)
		l.found.Reset()
		if err := l.Block.Gather(l.Chosen, true, &l.found); err != nil {
			return nil, err
		}
		for i := range l.found.Len() {
			set.Add(seriesAt(&l.found, i), l.found.CapNs[i])
		}
	}
	return set, nil
}

func seriesAt(b *record.Batch, i int) index.Series {
	return index.Series{CID: b.CID[i], MOID: b.MOID[i], MID: b.MID[i]}
}

// nextWindow lists the blocks of the next windows, as long as they may have greater caps than what
// is listed and a series needs them.
func (l *search) nextWindow(s *segmentState) {
	for {
		if capNs, ok := s.next(); ok && capNs >= s.from || s.from <= s.caps.Min {
			return
		}
		s.needs = slices.DeleteFunc(s.needs, func(n need) bool {
			return l.state.series[n.number].floorNs >= s.from
		})
		if len(s.needs) == 0 {
			s.runs = nil
			return
		}
		to := s.from
		s.from = s.windowFrom(to)
		l.listBlocks(s, to)
	}
}

// windowFrom chooses where the window that ends at a cap starts: early enough for the newest rows
// of half of the series, and earlier each time.
func (s *segmentState) windowFrom(to int64) int64 {
	sample := make([]int64, 0, medianOf)
	for i := 0; i < len(s.needs); i += (len(s.needs) + medianOf - 1) / medianOf {
		sample = append(sample, min(s.needs[i].newestNs, to-1))
	}
	slices.Sort(sample)
	from := sample[len(sample)/2]
	if s.width > 0 {
		s.width = max(2*s.width, (uint64(s.caps.Max)-uint64(s.caps.Min))/medianOf)
		if uint64(to)-uint64(s.caps.Min) <= s.width {
			return s.caps.Min
		}
		from = min(from, to-int64(s.width))
	}
	from = max(from, s.caps.Min)
	s.width = max(s.width, uint64(min(to, s.caps.Max))-uint64(from), 1)
	return from
}

// listBlocks lists the blocks that a window meets and none before it did.
func (l *search) listBlocks(s *segmentState, to int64) {
	box := l.box
	box[record.Cap] = bounds.Intersect(l.box[record.Cap], record.Range{From: s.from, To: to})
	if len(box[record.Cap]) == 0 {
		return // the query leaves these caps out
	}
	plan := blocks.Plans.Get().(*index.Plan)
	defer blocks.Plans.Put(plan)
	s.Index.Plan(&box, plan)
	for _, c := range plan.Candidates {
		word, bit := &s.seen[c.Block>>6], uint64(1)<<(c.Block&63)
		if *word&bit == 0 {
			*word |= bit
			info := s.Index.Block(c.Block)
			s.runs = append(s.runs, run{block: c.Block, sub: len(info.Subs) - 1,
				capNs: min(info.Max[record.Cap], to-1)})
		}
	}
	slices.SortFunc(s.runs, func(a, b run) int { return cmp.Compare(a.capNs, b.capNs) })
}

// nextRun reads the run that comes next, if a series needs it, and lists the one before it in the
// block.
func (l *search) nextRun(s *segmentState) error {
	if err := l.resolver.Ctx.Err(); err != nil {
		return err
	}
	last := len(s.runs) - 1
	r := s.runs[last]
	s.runs = s.runs[:last]
	info := s.Index.Block(r.block)
	if info.Flagged == 0 && l.readState.Backdated == nil &&
		!s.shown.Intersects(info.Min[record.Acq], info.Max[record.Acq]) {
		l.nextWindow(s)
		return nil // its rows are not asked for, and hide none
	}
	if r.needs == nil {
		r.needs = l.needsIn(s, info)
	}
	caps := index.Bound{Min: info.Min[record.Cap], Max: r.capNs}
	r.needs = slices.DeleteFunc(r.needs, func(n need) bool { return !l.needs(&n, caps) })
	if len(r.needs) > 0 {
		if err := l.readRun(s, info, &r); err != nil {
			return err
		}
		for r.sub--; r.sub >= 0; r.sub-- {
			if r.sub == 0 && info.Subs[0].End > 0 || r.sub > 0 &&
				info.Subs[r.sub].End > info.Subs[r.sub-1].End {
				s.insert(run{r.block, r.sub, min(info.Subs[r.sub].CapHi, r.capNs), r.needs})
				break
			}
		}
	}
	l.nextWindow(s)
	return nil
}

func (s *segmentState) insert(r run) {
	at, _ := slices.BinarySearchFunc(s.runs, r.capNs, func(r run, capNs int64) int {
		return cmp.Compare(r.capNs, capNs)
	})
	s.runs = slices.Insert(s.runs, at, r)
}

// needsIn returns which series that need the segment can have rows in a block.
func (l *search) needsIn(s *segmentState, b *index.BlockInfo) []need {
	lowest := index.Series{CID: int32(b.Min[record.CID]), MOID: int32(b.Min[record.MOID]),
		MID: b.Min[record.MID]}
	highest := index.Series{CID: int32(b.Max[record.CID]), MOID: int32(b.Max[record.MOID]),
		MID: b.Max[record.MID]}
	found := len(l.arena)
	for _, n := range s.needs[l.search(s.needs, lowest):] {
		of := l.state.series[n.number].Series
		if of.Compare(highest) > 0 {
			break
		}
		if of.MID >= lowest.MID && of.MID <= highest.MID && of.MOID >= lowest.MOID &&
			of.MOID <= highest.MOID {
			l.arena = append(l.arena, n)
		}
	}
	return l.arena[found:len(l.arena):len(l.arena)]
}
