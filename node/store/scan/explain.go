package scan

import (
	"slices"
	"time"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store/blocks"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/sdk/api"
	"github.com/pentad-db/pentad/sdk/record"
)

// Explain runs a scan for nothing but to say how rows were found; newPartialSink may be nil. began
// is when the query did. It is called in place of Run, and leaves the number of shards to the
// caller.
func (sc *Scan) Explain(
	began time.Time, newPartialSink func() blocks.PartialSink,
) (api.Explanation, error) {
	return sc.explainInto(began, func(to *blocks.Consumer) {
		if newPartialSink != nil {
			to.Partials = newPartialSink()
		}
	})
}

// ExplainRows is Explain that passes the rows to a sink, from several goroutines.
func (sc *Scan) ExplainRows(began time.Time, rows blocks.Sink) (api.Explanation, error) {
	return sc.explainInto(began, func(to *blocks.Consumer) { to.Rows = rows })
}

func (sc *Scan) explainInto(
	began time.Time, change func(to *blocks.Consumer),
) (api.Explanation, error) {
	x := explaining{out: api.Explanation{HorizonNs: sc.Horizon, Segments: []api.SegmentPlan{}}}
	var err error
	if !sc.Empty {
		sc.explain = &x
		x.running = time.Now()
		err = sc.Run(func(worker int) (blocks.Consumer, error) {
			to, err := discard(worker)
			to.Columns = segment.AllColumns
			change(&to)
			return to, err
		})
	}
	out, st := &x.out, &sc.Stats
	out.HeadFound, out.Found, out.Examined = st.HeadRows, st.Rows, st.RowsExamined
	out.Opened, out.OpenedBytes, out.Hidden = st.BlocksScanned, st.BytesRead, st.VersionsHidden
	out.SkippedByWhere = st.BlocksSkipped
	out.Partials, out.PartialsKnown = st.Partials, st.PartialsWithState
	out.Devices, out.SelectNs = st.Devices, st.SelectNs
	out.Located, out.LocatedBlocks, out.LocatedSkipped = st.Located, st.LocatedBlocks,
		st.LocatedSkipped
	out.Workers, out.TookNs = st.Workers, int64(time.Since(began)-x.describing)
	return *out, err
}

// explaining is an explanation in the making.
type explaining struct {
	out        api.Explanation
	running    time.Time
	describing time.Duration // not the query's
}

// describe tells of the partitions of a scan that was planned and not divided yet.
func (x *explaining) describe(sc *Scan) {
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
		x.out.DroppedByBounds += seg.Blocks
		return
	}
	x.out.DroppedByLists += seg.Blocks - seg.Listed
	x.out.DroppedByZones.Add(seg.DroppedByZones)
	x.out.Candidates += seg.Candidates
	x.out.Inside += seg.Inside
}

func explainSegment(sealed *shards.Segment, box *record.Box) api.SegmentPlan {
	out := api.SegmentPlan{Shard: sealed.Meta.Shard, ID: sealed.Meta.ID, Rows: sealed.Index.Rows(),
		Backdated: sealed.Meta.IsBackdated(), Blocks: sealed.Index.Blocks(),
		Bytes: sealed.File.Size()}
	if d, ok := shards.PrunedBy(sealed, box); ok {
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
	out.DroppedByZones = dimCounts(plan.Stats.DroppedByZones)
	out.Candidates, out.Inside = len(plan.Candidates), plan.Stats.Inside
	return out
}

func dimCounts(n [record.NumDims]int) api.DimCounts {
	return api.DimCounts{CID: n[record.CID], MID: n[record.MID], MOID: n[record.MOID],
		Cap: n[record.Cap], Acq: n[record.Acq]}
}
