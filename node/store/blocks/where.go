package blocks

import (
	"slices"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/where"
)

// gatherWhere is GatherBlock for an open block of which only rows are taken whose payloads meet a
// condition.
func (g *Gatherer) gatherWhere(
	seg *PlannedSegment, info *index.BlockInfo, c index.Candidate,
) error {
	if g.beginWhere(seg, info, c.Block, c.Residual) {
		return nil
	}
	g.Chosen = g.Choose(seg, info, c.Residual)
	return g.filterChosen(seg, c.Block, c.Residual == 0)
}

// takeWhere is TakeChosen for those of the chosen rows whose payloads meet the condition.
func (g *Gatherer) takeWhere(
	seg *PlannedSegment, info *index.BlockInfo, number uint32, residual uint8,
) error {
	if g.beginWhere(seg, info, number, residual) {
		return nil
	}
	return g.filterChosen(seg, number, residual == 0)
}

// beginWhere prepares the condition for the open block, and reports whether no row can meet it.
func (g *Gatherer) beginWhere(
	seg *PlannedSegment, info *index.BlockInfo, number uint32, residual uint8,
) (none bool) {
	g.payloads.Program = g.Where
	least, greatest := info.Min[record.MOID], info.Max[record.MOID]
	if asked := g.Box[record.MOID]; len(asked) > 0 { // only such rows are chosen
		least, greatest = max(least, asked[0].From), min(greatest, asked[len(asked)-1].To-1)
	}
	named := residual>>record.MID&1 == 1 // there are rows of other devices
	none = g.payloads.Begin(g.Block, least, greatest, named)
	if rule := g.payloads.Rule(); !none && rule != nil && len(rule.Fields) > 0 {
		known := false
		g.payloadBounds, known = seg.PayloadBounds.AppendOf(g.payloadBounds[:0], number, rule)
		if known {
			none = rule.Excludes(g.payloadBounds)
		} else if g.hasAllOf(rule, residual) {
			g.payloads.Learn()
		}
	}
	if none {
		g.Counts.SkippedBlocks++
	}
	return none
}

// hasAllOf reports whether the rows that are chosen of a block are all of which a rule speaks.
func (g *Gatherer) hasAllOf(rule *where.Rule, residual uint8) bool {
	if residual != 1<<record.MOID || rule.MOIDs == nil {
		return residual == 0
	}
	for _, m := range rule.MOIDs {
		if !g.Box[record.MOID].Covers(m[0], m[1]-1) {
			return false
		}
	}
	return true
}

// filterChosen takes those of the chosen rows whose payloads meet the condition.
func (g *Gatherer) filterChosen(seg *PlannedSegment, number uint32, whole bool) (err error) {
	b := g.Block
	defer g.payloads.End()
	if g.Chosen, err = g.payloads.Rows(g.Chosen); err != nil {
		return err
	}
	if bounds, ok := g.payloads.Learned(); ok {
		if err := seg.VerifyBlock(number); err != nil {
			return err
		}
		seg.PayloadBounds.Keep(number, seg.Index.Blocks(), g.payloads.Rule(), bounds)
	}
	if len(g.Chosen) == 0 {
		return nil
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
