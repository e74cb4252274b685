package guest

// Series is a run of rows of one series: the rows from the end of the run before it to End.
type Series struct {
	MID  int64
	CID  int32
	MOID int32
	End  uint64
}

// SeriesRows is the rows [From, To) of one group and one series. The zero value is before the
// first.
type SeriesRows struct {
	GID         uint32
	MID         int64
	CID, MOID   int32
	From, To    int
	run, series int
}

// NextSeries makes r the next rows of one group and one series, or a row by itself where these are
// short, and reports whether there are any. A module that uses it asks for [plugin.NeedSeries] and
// for what it reads of CID, MOID and MID, and if it has groups for GID and runs. What it did not
// ask for is 0, or what it is.
func (b *Batch) NextSeries(r *SeriesRows) bool {
	i := r.To
	if i >= b.Rows {
		return false
	}
	r.From, r.To, r.GID = i, i+1, 0
	if b.GID != nil {
		r.GID = b.GID[i]
	} else if b.Series != nil {
		r.To = b.Rows
	}
	if b.Runs != nil {
		if int(b.Runs[r.run].End) <= i {
			r.run++
		}
		r.GID, r.To = b.Runs[r.run].GID, min(r.To, int(b.Runs[r.run].End))
	}
	if b.Series == nil {
		b.setSeries(r, i)
		return true
	}
	if int(b.Series[r.series].End) <= i {
		r.series++
	}
	s := &b.Series[r.series]
	r.MID, r.CID, r.MOID, r.To = s.MID, s.CID, s.MOID, min(r.To, int(s.End))
	return true
}

// setSeries sets the series of a row by columns.
func (b *Batch) setSeries(r *SeriesRows, i int) {
	if b.MID != nil {
		r.MID = b.MID[i]
	}
	if b.CID != nil {
		r.CID = b.CID[i]
	}
	if b.MOID != nil {
		r.MOID = b.MOID[i]
	}
}
