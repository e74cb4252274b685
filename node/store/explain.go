package store

import (
	"context"
	"slices"
	"time"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/sdk/record"
)

// Explanation says how a query was planned and what it then cost. Of the blocks of all segments,
// each is dropped once, by bounds, lists or zones, or it is a candidate.
type Explanation struct {
	HorizonNs   int64         `json:"horizon_ns"` // rows with acq below this were seen
	Shards      int           `json:"shards"`
	ShardsAsked int           `json:"shards_asked"`
	Heads       int           `json:"heads"`           // of the shards asked, those that hold rows
	HeadRows    int64         `json:"head_rows"`       // in them
	HeadFound   uint64        `json:"head_rows_found"` // of the rows found
	Segments    []SegmentPlan `json:"segments"`        // by shard, the newest first

	Blocks      int       `json:"blocks"` // of all these segments
	ByBounds    int       `json:"blocks_dropped_by_bounds"`
	ByLists     int       `json:"blocks_dropped_by_lists"`
	ByZones     DimCounts `json:"blocks_dropped_by_zones"`
	Candidates  int       `json:"candidates"`
	Inside      int       `json:"candidates_inside"`
	Opened      uint64    `json:"blocks_opened"` // more than once where versions are looked for
	OpenedBytes uint64    `json:"bytes_opened"`
	Examined    uint64    `json:"rows_examined"` // rows of the opened blocks
	Found       uint64    `json:"rows_found"`

	// Partials are what a sink would get of blocks apart, and of these those that it knows: their
	// blocks would not be opened. See [PartialSink].
	Partials      uint64 `json:"parts,omitempty"`
	PartialsKnown uint64 `json:"parts_known,omitempty"`
	// Hidden are the versions that were met and left out for a newer one. With last n most are
	// not met.
	Hidden  uint64 `json:"versions_hidden"`
	Workers int    `json:"workers"`
	// PlanNs is a part of TookNs. With last n, segments are planned as they are read, and that
	// time is not in it.
	PlanNs int64 `json:"plan_ns"`
	TookNs int64 `json:"took_ns"`
}

// SegmentPlan is what a plan made of one sealed segment. With last n the candidates are those of
// the box; few of them are opened.
type SegmentPlan struct {
	Shard uint32 `json:"shard"`
	ID    uint64 `json:"segment"`
	Rows  int    `json:"rows"`
	Below bool   `json:"below_horizon,omitempty"` // its rows are backdated
	// Blocks are dropped all together if SkippedBy names a dimension; what follows is 0 then.
	Blocks     int       `json:"blocks"`
	Bytes      int64     `json:"bytes"` // of the file
	SkippedBy  string    `json:"skipped_by,omitempty"`
	Lists      int       `json:"lists"` // posting lists, and unions of them, that were looked at
	Listed     int       `json:"blocks_left_by_lists"`
	ByZones    DimCounts `json:"blocks_dropped_by_zones"`
	Candidates int       `json:"candidates"`
	Inside     int       `json:"candidates_inside"` // of these, blocks wholly inside the box
}

// DimCounts is a count for each dimension.
type DimCounts struct {
	CID  int `json:"cid"`
	MID  int `json:"mid"`
	MOID int `json:"moid"`
	Cap  int `json:"cap"`
	Acq  int `json:"acq"`
}

func dimCounts(n [record.NumDims]int) DimCounts {
	return DimCounts{n[record.CID], n[record.MID], n[record.MOID], n[record.Cap], n[record.Acq]}
}

// Add adds other counts.
func (c *DimCounts) Add(o DimCounts) {
	c.CID += o.CID
	c.MID += o.MID
	c.MOID += o.MOID
	c.Cap += o.Cap
	c.Acq += o.Acq
}

// Explain runs a query as Scan does, counts the rows and says how they were found. Order, limit
// and plugins of q are the caller's, as with Scan.
//
// Cost: that of the scan, and of planning it once more, which TookNs leaves out.
func (s *Store) Explain(ctx context.Context, q *record.Query) (Explanation, error) {
	return s.ExplainPartials(ctx, q, nil)
}

// ExplainPartials is Explain for a sink that takes parts of blocks apart, if newApart is not nil.
// It is asked which it knows, and opens all.
func (s *Store) ExplainPartials(
	ctx context.Context, q *record.Query, newApart func() PartialSink,
) (Explanation, error) {
	s.scanning.RLock()
	defer s.scanning.RUnlock()
	x := explaining{began: time.Now()}
	sc, err := s.newScan(ctx, q)
	if err != nil {
		return Explanation{}, err
	}
	defer sc.giveBack()
	x.out = Explanation{HorizonNs: sc.horizon, Shards: len(s.shards), Segments: []SegmentPlan{}}
	if !sc.empty {
		sc.explain = &x
		x.running = time.Now()
		err = sc.run(func(worker int) (Consumer, error) {
			to, err := discard(worker)
			to.Columns = segment.AllColumns
			if newApart != nil {
				to.Partials = newApart()
			}
			return to, err
		})
	}
	s.counters.scans.Add(1)
	s.counters.blocksScanned.Add(int64(sc.stats.BlocksScanned))
	out, st := &x.out, &sc.stats
	out.HeadFound, out.Found, out.Examined = st.HeadRows, st.Rows, st.RowsExamined
	out.Opened, out.OpenedBytes, out.Hidden = st.BlocksScanned, st.BytesRead, st.VersionsHidden
	out.Partials, out.PartialsKnown = st.Partials, st.PartialsKnown
	out.Workers, out.TookNs = st.Workers, int64(time.Since(x.began)-x.describing)
	return *out, err
}

// explaining is an explanation in the making.
type explaining struct {
	out            Explanation
	began, running time.Time
	describing     time.Duration // not the query's
}

// describe tells of the partitions of a scan that was planned and not cut yet.
func (x *explaining) describe(sc *scan) {
	planned := time.Now()
	x.out.PlanNs = int64(planned.Sub(x.running))
	x.out.ShardsAsked = len(sc.waiting)
	for _, p := range slices.Backward(sc.waiting) {
		p.eachHead(func(h *index.Head) {
			if rows := h.Rows(); rows > 0 {
				x.out.Heads++
				x.out.HeadRows += int64(rows)
			}
		})
		for _, sealed := range slices.Backward(p.state.sealed) {
			x.add(explainSegment(sealed, &p.box))
		}
	}
	x.describing = time.Since(planned)
}

func (x *explaining) add(seg SegmentPlan) {
	x.out.Segments = append(x.out.Segments, seg)
	x.out.Blocks += seg.Blocks
	if seg.SkippedBy != "" {
		x.out.ByBounds += seg.Blocks
		return
	}
	x.out.ByLists += seg.Blocks - seg.Listed
	x.out.ByZones.Add(seg.ByZones)
	x.out.Candidates += seg.Candidates
	x.out.Inside += seg.Inside
}

func explainSegment(sealed *sealedSegment, box *record.Box) SegmentPlan {
	out := SegmentPlan{Shard: sealed.meta.Shard, ID: sealed.meta.ID, Rows: sealed.idx.Rows(),
		Below: sealed.meta.isBackdated(), Blocks: sealed.idx.Blocks(), Bytes: sealed.file.Size()}
	if d, ok := missed(sealed, box); ok {
		out.SkippedBy = d.String()
		return out
	}
	plan := plans.Get().(*index.Plan)
	defer plans.Put(plan)
	sealed.idx.Plan(box, plan)
	if plan.Stats.Lists == 0 && plan.Stats.Listed == 0 {
		out.SkippedBy = record.Acq.String() // between two rows: no list was needed to tell
		return out
	}
	out.Lists, out.Listed = plan.Stats.Lists, plan.Stats.Listed
	out.ByZones = dimCounts(plan.Stats.ByZones)
	out.Candidates, out.Inside = len(plan.Candidates), plan.Stats.Inside
	return out
}

// missed returns the first dimension in which a box misses the bounds of a segment.
func missed(sealed *sealedSegment, box *record.Box) (record.Dim, bool) {
	bounds := sealed.idx.Bounds()
	for d := range record.NumDims {
		if !box[d].Meets(bounds[d].Min, bounds[d].Max) {
			return record.Dim(d), true
		}
	}
	return 0, false
}
