package segment

import "github.com/pentad-db/pentad/sdk/record"

// seriesRows is how many rows pieces of runs have at least on average that are gathered as series
// in the place of columns.
const seriesRows = 8

// gatherSeries appends the series of positions to a batch with start rows. It reports false, and
// has done nothing, where columns are to be gathered in its place.
func (b *Block) gatherSeries(p *positions, dst *record.Batch, start int) bool {
	if start == 0 {
		dst.Series = dst.Series[:0]
	}
	if b.runs.count == 0 || start > 0 && len(dst.Series) == 0 {
		return false
	}
	if p.pieces == nil {
		b.divide(p)
	}
	if len(p.pieces) > p.n/seriesRows {
		return false
	}
	end := uint64(start)
	cids, moids := &b.keys[record.CID], &b.keys[record.MOID]
	for _, s := range p.pieces {
		end += uint64(s.rows)
		run := int(s.run)
		dst.Series = append(dst.Series, record.SeriesRun{MID: b.runMID(run),
			CID: int32(cids.value(run)), MOID: int32(moids.value(run)), End: end})
	}
	return true
}
