package blocks

import (
	"slices"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/sdk/record"
)

// gatherWhere is GatherBlock for an open block of which only rows are taken whose payloads meet a
// condition.
func (w *Gatherer) gatherWhere(
	seg *PlannedSegment, info *index.BlockInfo, c index.Candidate,
) error {
	if w.beginWhere(info) {
		return nil
	}
	w.Chosen = w.Choose(seg, info, c.Residual)
	return w.filterChosen(seg, c.Block, c.Residual == 0)
}

// takeWhere is TakeChosen for those of the chosen rows whose payloads meet the condition. whole:
// they are all rows of the block.
func (w *Gatherer) takeWhere(
	seg *PlannedSegment, info *index.BlockInfo, number uint32, whole bool,
) error {
	if w.beginWhere(info) {
		return nil
	}
	return w.filterChosen(seg, number, whole)
}

// beginWhere prepares the condition for the open block, and reports whether no row can meet it.
func (w *Gatherer) beginWhere(info *index.BlockInfo) (none bool) {
	w.payloads.Program = w.Where
	least, greatest := info.Min[record.MOID], info.Max[record.MOID]
	if asked := w.Box[record.MOID]; len(asked) > 0 { // only such rows are chosen
		least, greatest = max(least, asked[0].From), min(greatest, asked[len(asked)-1].To-1)
	}
	none = w.payloads.Begin(w.Block, least, greatest)
	if none {
		w.Skipped++
	}
	return none
}

// filterChosen takes those of the chosen rows whose payloads meet the condition.
func (w *Gatherer) filterChosen(seg *PlannedSegment, number uint32, whole bool) (err error) {
	b := w.Block
	defer w.payloads.End()
	if w.Chosen, err = w.payloads.Rows(w.Chosen); err != nil || len(w.Chosen) == 0 {
		return err
	}
	w.shownOnly = false
	if whole && w.RowHider != nil {
		superseded, known, err := w.RowHider.FindSuperseded(seg, number, b)
		if err != nil {
			return err
		}
		if known {
			w.dropPositions(superseded)
			w.shownOnly = true
		}
	}
	if !w.shownOnly {
		w.dropSuperseded(seg, number)
	}
	if w.CountMet && (w.shownOnly || w.AllVersions && !b.HasTombs()) {
		w.Rows += uint64(len(w.Chosen))
		w.shownOnly = false
		return nil
	}
	w.Block = b
	err = w.TakeChosen(seg)
	w.shownOnly = false
	return err
}

// dropPositions removes superseded rows from the chosen ones.
func (w *Gatherer) dropPositions(superseded []uint16) {
	k := 0
	for _, at := range w.Chosen {
		from, found := slices.BinarySearch(superseded, uint16(at))
		superseded = superseded[from:]
		if found {
			w.Superseded++
			continue
		}
		w.Chosen[k] = at
		k++
	}
	w.Chosen = w.Chosen[:k]
}
