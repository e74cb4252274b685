package scan

import (
	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/blocks"
	"github.com/pentad-db/pentad/node/store/shards"
	"github.com/pentad-db/pentad/node/store/versions"
)

// task is a part of the work on a partition: a head, blocks [from, to) of a segment's candidates,
// or the whole partition, read series by series for its last readings.
type task struct {
	partition *versions.Partition
	head      *index.Head
	segment   *blocks.PlannedSegment
	from, to  int
	bySeries  bool
}

// addTasks lists the work. Newest rows come first: most dashboards stop early at a limit.
func (sc *Scan) addTasks(p *versions.Partition) {
	if sc.lastN > 0 {
		sc.tasks = append(sc.tasks, task{partition: p, bySeries: true})
		return
	}
	p.EachHead(func(h *index.Head) {
		if h.Rows() > 0 {
			sc.tasks = append(sc.tasks, task{partition: p, head: h})
		}
	})
	for _, seg := range p.Segments {
		if sc.CountOnly {
			sc.countInside(p, seg)
		}
		n := len(seg.Plan.Candidates)
		for from := 0; from < n; from += blocks.TaskBlocks {
			sc.tasks = append(sc.tasks,
				task{partition: p, segment: seg, from: from, to: min(from+blocks.TaskBlocks, n)})
		}
	}
}

// countInside counts the rows of blocks that lie inside the box and of which it is known how many
// are shown, and leaves the others as candidates.
func (sc *Scan) countInside(p *versions.Partition, seg *blocks.PlannedSegment) {
	rest, superseded := seg.Plan.Candidates[:0], seg.Known
	if seg.Sum != nil {
		sc.countedInside += uint64(seg.Index.Rows() - seg.Sum.Rows)
		sc.Stats.VersionsHidden += uint64(seg.Sum.Rows)
		sc.Stats.BlocksInside += uint64(seg.Index.Blocks())
		seg.Plan.Candidates = rest
		return
	}
	for _, c := range seg.Plan.Candidates {
		var known *shards.SupersededRows
		if len(superseded) > 0 && superseded[0].Block == c.Block { // those of some candidates
			known, superseded = superseded[0].SupersededRows, superseded[1:]
		}
		rows, ok := 0, false
		if c.Residual == 0 {
			rows, ok = sc.Shown(p, seg, c.Block, known)
		}
		if !ok {
			rest = append(rest, c)
			continue
		}
		sc.countedInside += uint64(rows)
		sc.Stats.VersionsHidden += uint64(int(seg.Index.Block(c.Block).Rows) - rows)
		sc.Stats.BlocksInside++
	}
	if seg.Plan.Candidates = rest; len(rest) == 0 {
		sc.KeepSum(p, seg)
	}
}
