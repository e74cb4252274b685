package last

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/pentad-db/pentad/index"
	"github.com/pentad-db/pentad/node/store/bounds"
	"github.com/pentad-db/pentad/node/store/versions"
	"github.com/pentad-db/pentad/sdk/record"
)

// state are the newest readings found so far of every series of a box.
type state struct {
	n       int // readings wanted of each series
	maxRows int // rows that may be kept
	kept    int
	series  []seriesState // in the order in which they were met
	order   []uint32      // numbers of series, ascending
	fresh   []uint32      // those that are not in order yet, ascending
	spare   []uint32
	lost    []uint32   // series that lost a shown reading when others had been passed over
	at      int        // in order: where the series that is announced next can be
	rows    []rowState // space for the few rows that most series keep
	emitted [][]shownRow

	overtaken uint64 // versions that were taken in with a newer one
}

// seriesState is a series and the newest readings known of it.
type seriesState struct {
	index.Series
	floorNs int64      // cap of the n-th newest that is shown: no reading below it matters
	shown   int        // of newest
	newest  []rowState // descending by cap, one per reading
}

// rowState is the newest known version of a reading, and where it lies.
type rowState struct {
	capNs, acqNs int64
	at           rowAt
	notShown     bool // not shown, but it hides its older versions
}

// rowAt is a position in a source: a head, with cell and row, or a segment, with block and
// position.
type rowAt struct {
	source, part, row uint32
}

// reset empties the state and keeps its memory, but not the lists of rows that grew long.
func (l *state) reset(n, limit int) {
	clear(l.series)
	*l = state{n: n, maxRows: limit, series: l.series[:0], order: l.order[:0], fresh: l.fresh[:0],
		spare: l.spare[:0], lost: l.lost[:0], rows: l.rows[:0], emitted: l.emitted[:0]}
}

// announce returns the number of a series. Series are announced in ascending order, one source
// after another, with settle between them.
func (l *state) announce(s index.Series) uint32 {
	for l.at < len(l.order) {
		number := l.order[l.at]
		switch c := l.series[number].Compare(s); {
		case c == 0:
			return number
		case c > 0:
			return l.meet(s)
		}
		l.at++
	}
	return l.meet(s)
}

func (l *state) meet(s index.Series) uint32 {
	number := uint32(len(l.series))
	l.series = append(l.series, seriesState{Series: s, floorNs: math.MinInt64})
	l.fresh = append(l.fresh, number)
	return number
}

// settle brings the series that were met into order.
func (l *state) settle() {
	l.at = 0
	if len(l.fresh) == 0 {
		return
	}
	merged := slices.Grow(l.spare[:0], len(l.order)+len(l.fresh))
	known, fresh := l.order, l.fresh
	for len(known) > 0 && len(fresh) > 0 {
		if l.series[known[0]].Compare(l.series[fresh[0]].Series) < 0 {
			merged, known = append(merged, known[0]), known[1:]
		} else {
			merged, fresh = append(merged, fresh[0]), fresh[1:]
		}
	}
	merged = append(append(merged, known...), fresh...)
	l.order, l.spare, l.fresh = merged, l.order, l.fresh[:0]
}

// add takes a version in. A hidden one is kept only if it may hide others.
//
// Errors: versions.ErrFull when more rows are kept than there is space for.
func (l *state) add(number uint32, r rowState, flagged bool) error {
	s := &l.series[number]
	if r.capNs < s.floorNs {
		return nil
	}
	i := len(s.newest)
	if i > 0 && s.newest[i-1].capNs <= r.capNs {
		i = sort.Search(i, func(i int) bool { return s.newest[i].capNs <= r.capNs })
	}
	if i < len(s.newest) && s.newest[i].capNs == r.capNs {
		if s.newest[i].acqNs != r.acqNs {
			l.overtaken++
		}
		if s.newest[i].acqNs < r.acqNs {
			if r.notShown && !s.newest[i].notShown && s.shown == l.n {
				l.lost = append(l.lost, number)
			}
			s.shown += shownBy(&r) - shownBy(&s.newest[i])
			s.newest[i] = r
			l.trim(s)
		}
		return nil
	}
	if r.notShown && !flagged {
		return nil
	}
	if s.newest == nil {
		s.newest = l.few()
	}
	s.newest = slices.Insert(s.newest, i, r)
	s.shown += shownBy(&r)
	l.kept++
	l.trim(s)
	if l.kept > l.maxRows && len(l.series) > 1 {
		return versions.ErrFull
	}
	return nil
}

// forgetLost makes the series that lost a reading as if nothing of them was found, and returns
// their devices.
func (l *state) forgetLost() record.RangeSet {
	var mids []int64
	for _, number := range l.lost {
		s := &l.series[number]
		l.kept -= len(s.newest)
		*s = seriesState{Series: s.Series, floorNs: math.MinInt64}
		mids = append(mids, s.MID)
	}
	l.lost = l.lost[:0]
	slices.Sort(mids)
	mids = slices.Compact(mids)
	if len(mids) > record.MaxRangesPerDim {
		return record.RangeSet{{From: mids[0], To: mids[len(mids)-1] + 1}}
	}
	var set record.RangeSet
	for _, mid := range mids {
		if n := len(set); n > 0 && set[n-1].To == mid {
			set[n-1].To = mid + 1
		} else {
			set = append(set, record.At(mid))
		}
	}
	return set
}

func shownBy(r *rowState) int {
	if r.notShown {
		return 0
	}
	return 1
}

// few returns space for the rows of a series, if they are few.
func (l *state) few() []rowState {
	const most = 8
	if l.n >= most {
		return nil
	}
	if cap(l.rows)-len(l.rows) < l.n+1 {
		l.rows = make([]rowState, 0, max(256, 2*cap(l.rows)))
	}
	at := len(l.rows)
	l.rows = l.rows[:at+l.n+1]
	return l.rows[at : at : at+l.n+1]
}

// trim drops what lies behind the n newest readings that are shown.
func (l *state) trim(s *seriesState) {
	last := len(s.newest) - 1
	for s.shown > l.n || s.shown == l.n && s.newest[last].notShown {
		s.shown -= shownBy(&s.newest[last])
		last--
	}
	l.kept -= len(s.newest) - 1 - last
	s.newest = s.newest[:last+1]
	s.floorNs = math.MinInt64
	if s.shown == l.n {
		s.floorNs = s.newest[last].capNs
	}
}

// middle returns a value of a dimension that has some of the series below it and others not.
func (l *state) middle() (int64, record.Dim) {
	values := make([]int64, len(l.series))
	for _, d := range []record.Dim{record.MID, record.MOID, record.CID} {
		for i := range l.series {
			s := &l.series[i]
			values[i] = record.Key{CID: s.CID, MID: s.MID, MOID: s.MOID}.Part(d)
		}
		if at, ok := bounds.Middle(values); ok {
			return at, d
		}
	}
	panic("BUG: one series is more than a scan has space for")
}

// position orders the rows of a source.
func (r rowAt) position() uint64 { return uint64(r.part)<<32 | uint64(r.row) }

// shownRow is a row of a source that is shown: its position, and which of the newest of a series it
// is.
type shownRow struct {
	position    uint64
	number, nth uint32
}

// key returns the key of a shown row.
func (l *state) key(r shownRow) record.Key {
	s := &l.series[r.number]
	row := &s.newest[r.nth]
	return record.Key{CID: s.CID, MID: s.MID, MOID: s.MOID, CapNs: row.capNs, AcqNs: row.acqNs}
}

// shownRows returns the rows of each source that are shown, ascending by position.
func (l *state) shownRows(sources int) [][]shownRow {
	l.emitted = slices.Grow(l.emitted[:0], sources)[:sources]
	for i := range l.emitted {
		l.emitted[i] = l.emitted[i][:0]
	}
	for i := range l.series {
		for k := range l.series[i].newest {
			if r := &l.series[i].newest[k]; !r.notShown {
				l.emitted[r.at.source] = append(l.emitted[r.at.source],
					shownRow{r.at.position(), uint32(i), uint32(k)})
			}
		}
	}
	for _, rows := range l.emitted {
		slices.SortFunc(rows, func(a, b shownRow) int {
			return cmp.Compare(a.position, b.position)
		})
	}
	return l.emitted
}
