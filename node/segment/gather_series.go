package segment

import "github.com/pentad-db/pentad/sdk/record"

// seriesRows is how many rows runs of series have at least on average that are gathered in the
// place of columns.
const seriesRows = 8

// gatherSeries appends the series of positions to a batch with start rows. It reports false, and
// has done nothing, where columns are to be gathered in its place.
func (b *Block) gatherSeries(p *positions, dst *record.Batch, start int) bool {
	if start == 0 {
		dst.Series = dst.Series[:0]
	}
	if b.runs.count == 0 || p.sel != nil || start > 0 && len(dst.Series) == 0 ||
		b.runs.count > b.rows/seriesRows || len(p.spans) > p.n/seriesRows {
		return false
	}
	starts, run, end := b.runStarts(), 0, uint64(start)
	cids, moids := &b.keys[record.CID], &b.keys[record.MOID]
	for _, s := range p.spans {
		for at := s.Lo; at < s.Hi; {
			run = runOf(starts, at, run)
			until := min(starts[run+1], s.Hi)
			end += uint64(until - at)
			dst.Series = append(dst.Series, record.SeriesRun{MID: b.runMID(run),
				CID: int32(cids.value(run)), MOID: int32(moids.value(run)), End: end})
			at = until
		}
	}
	return true
}
