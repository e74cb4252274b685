package blocks

import (
	"slices"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/sdk/record"
)

// gatherWhere is GatherBlock for an open block of which only rows are taken whose payloads meet a
// condition.
func (g *Gatherer) gatherWhere(
	seg *PlannedSegment, info *index.BlockInfo, c index.Candidate,
) error {
	if g.beginWhere(info) {
		return nil
	}
	g.Chosen = g.Choose(seg, info, c.Residual)
	return g.filterChosen(seg, c.Block, c.Residual == 0)
}

// takeWhere is TakeChosen for those of the chosen rows whose payloads meet the condition. whole:
// they are all rows of the block.
func (g *Gatherer) takeWhere(
	seg *PlannedSegment, info *index.BlockInfo, number uint32, whole bool,
) error {
	if g.beginWhere(info) {
		return nil
	}
	return g.filterChosen(seg, number, whole)
}

// beginWhere prepares the condition for the open block, and reports whether no row can meet it.
func (g *Gatherer) beginWhere(info *index.BlockInfo) (none bool) {
	g.payloads.Program = g.Where
	least, greatest := info.Min[record.MOID], info.Max[record.MOID]
	if asked := g.Box[record.MOID]; len(asked) > 0 { // only such rows are chosen
		least, greatest = max(least, asked[0].From), min(greatest, asked[len(asked)-1].To-1)
	}
	none = g.payloads.Begin(g.Block, least, greatest)
	if none {
		g.Counts.SkippedBlocks++
	}
	return none
}

// filterChosen takes those of the chosen rows whose payloads meet the condition.
func (g *Gatherer) filterChosen(seg *PlannedSegment, number uint32, whole bool) (err error) {
	b := g.Block
	defer g.payloads.End()
	if g.Chosen, err = g.payloads.Rows(g.Chosen); err != nil || len(g.Chosen) == 0 {
		return err
	}
	g.shownOnly = false
	if whole && g.RowHider != nil {
		superseded, known, err := g.RowHider.FindSuperseded(seg, number, b)
		if err != nil {
			return err
		}
		if known {
			g.dropPositions(superseded)
			g.shownOnly = true
		}
	}
	if !g.shownOnly {
		g.dropSuperseded(seg, number)
	}
	if g.CountMet && (g.shownOnly || g.AllVersions && !b.HasTombs()) {
		g.Counts.Rows += uint64(len(g.Chosen))
		g.shownOnly = false
		return nil
	}
	g.Block = b
	err = g.TakeChosen(seg)
	g.shownOnly = false
	return err
}

// dropPositions removes superseded rows from the chosen ones.
func (g *Gatherer) dropPositions(superseded []uint16) {
	k := 0
	for _, at := range g.Chosen {
		from, found := slices.BinarySearch(superseded, uint16(at))
		superseded = superseded[from:]
		if found {
			g.Counts.SupersededRows++
			continue
		}
		g.Chosen[k] = at
		k++
	}
	g.Chosen = g.Chosen[:k]
}
