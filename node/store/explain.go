package store

import (
	"context"
	"slices"
	"time"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/blocks"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
)

func dimCounts(n [record.NumDims]int) api.DimCounts {
	return api.DimCounts{CID: n[record.CID], MID: n[record.MID], MOID: n[record.MOID],
		Cap: n[record.Cap], Acq: n[record.Acq]}
}

// Explain runs a query as Scan does, counts the rows and says how they were found. Order, limit
// and plugins of q are the caller's, as with Scan.
//
// Cost: that of the scan, and of planning it once more, which TookNs leaves out.
func (s *Store) Explain(ctx context.Context, q *record.Query) (api.Explanation, error) {
	return s.ExplainPartials(ctx, q, nil)
}

// ExplainPartials is Explain for a sink that takes parts of blocks apart, if newApart is not nil.
// It is asked which it knows, and opens all.
func (s *Store) ExplainPartials(
	ctx context.Context, q *record.Query, newApart func() PartialSink,
) (api.Explanation, error) {
	s.scanning.RLock()
	defer s.scanning.RUnlock()
	x := explaining{began: time.Now()}
	sc, err := s.newScan(ctx, q)
	if err != nil {
		return api.Explanation{}, err
	}
	defer sc.giveBack()
	x.out = api.Explanation{HorizonNs: sc.Horizon, Shards: len(s.shards),
		Segments: []api.SegmentPlan{}}
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
	out            api.Explanation
	began, running time.Time
	describing     time.Duration // not the query's
}

// describe tells of the partitions of a scan that was planned and not cut yet.
func (x *explaining) describe(sc *scan) {
	planned := time.Now()
	x.out.PlanNs = int64(planned.Sub(x.running))
	x.out.ShardsAsked = len(sc.Waiting)
	for _, p := range slices.Backward(sc.Waiting) {
		p.EachHead(func(h *index.Head) {
			if rows := h.Rows(); rows > 0 {
				x.out.Heads++
				x.out.HeadRows += int64(rows)
			}
		})
		for _, sealed := range slices.Backward(p.State.Sealed) {
			x.add(explainSegment(sealed, &p.Box))
		}
	}
	x.describing = time.Since(planned)
}

func (x *explaining) add(seg api.SegmentPlan) {
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

func explainSegment(sealed *shards.Segment, box *record.Box) api.SegmentPlan {
	out := api.SegmentPlan{Shard: sealed.Meta.Shard, ID: sealed.Meta.ID, Rows: sealed.Index.Rows(),
		Backdated: sealed.Meta.IsBackdated(), Blocks: sealed.Index.Blocks(),
		Bytes: sealed.File.Size()}
	if d, ok := shards.Missed(sealed, box); ok {
		out.SkippedBy = d.String()
		return out
	}
	plan := blocks.Plans.Get().(*index.Plan)
	defer blocks.Plans.Put(plan)
	sealed.Index.Plan(box, plan)
	if plan.Stats.Lists == 0 && plan.Stats.Listed == 0 {
		out.SkippedBy = record.Acq.String() // between two rows: no list was needed to tell
		return out
	}
	out.Lists, out.Listed = plan.Stats.Lists, plan.Stats.Listed
	out.ByZones = dimCounts(plan.Stats.ByZones)
	out.Candidates, out.Inside = len(plan.Candidates), plan.Stats.Inside
	return out
}
