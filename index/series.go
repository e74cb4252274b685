package index

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sort"

	"github.com/pentad-db/pentad/sdk/crc32c"
	"github.com/pentad-db/pentad/sdk/record"
)

// Layout of a series table, node/segment/FORMAT.md section 7.
const (
	seriesVersion     = 1             // 1: first
	seriesHeaderBytes = 4 + 4         // version, series
	seriesEntryBytes  = 4 + 4 + 8 + 4 // of the directory: cid, moid, mid, offset
	seriesPadding     = 8             // zeros at the end, so that loads stay inside
	seriesColumns     = 4             // cid, moid, mid, greatest cap
	groupSeries       = 128           // enough to share headers, few enough to decode for one
	gcdFollows        = 0x80          // in the width of a column header
	maxPackedWidth    = 56            // the widest value that one load holds at any bit
	minColumnBytes    = 9             // width u8, base u64
	minGroupBytes     = seriesColumns * minColumnBytes
)

// Series names a series: what readings of one quantity by one device have in common. Series are
// ordered by tenant, quantity and device, as rows are inside blocks.
type Series struct {
	CID, MOID int32
	MID       int64
}

// Compare orders series by cid, moid, mid.
func (s Series) Compare(o Series) int {
	switch {
	case s.CID != o.CID:
		return cmp.Compare(s.CID, o.CID)
	case s.MOID != o.MOID:
		return cmp.Compare(s.MOID, o.MOID)
	default:
		return cmp.Compare(s.MID, o.MID)
	}
}

// In reports whether the box, whose times do not matter, holds the series.
func (s Series) In(box *record.Box) bool {
	return box[record.MID].Contains(s.MID) && box[record.MOID].Contains(int64(s.MOID)) &&
		box[record.CID].Contains(int64(s.CID))
}

// SeriesCap is a series and the greatest cap of its rows.
type SeriesCap struct {
	Series
	MaxCapNs int64
}

// SeriesTable lists the series of a segment with their greatest caps. It reads the groups where
// they were parsed, which is a mapped file whose bytes may be damaged later, and so each with a
// checksum; it keeps the directory, 24 bytes for 128 series, and nothing else.
type SeriesTable struct {
	src       []byte
	directory []byte
	sums      []uint32 // checksums of the groups
	count     int
	groups    int
}

// ErrSeriesDamaged means that a group of a series table is not what was parsed.
var ErrSeriesDamaged = errors.New("series table was damaged since the segment was opened")

// ParseSeries opens what AppendSeries wrote, whose checksum the caller has just verified. src must
// stay as long as the table is used. What a group says of its series is bounded but not looked at;
// [SeriesTable.Check] does that.
//
// Cost: a pass over src; one allocation for each of directory and checksums.
func ParseSeries(src []byte) (*SeriesTable, error) {
	if len(src) < seriesHeaderBytes+seriesPadding {
		return nil, fmt.Errorf("parse series: %d bytes are no table", len(src))
	}
	if v := binary.LittleEndian.Uint32(src); v != seriesVersion {
		return nil, fmt.Errorf("parse series: %w", &VersionError{v, seriesVersion})
	}
	count := uint64(binary.LittleEndian.Uint32(src[4:]))
	groups := (count + groupSeries - 1) / groupSeries
	body := uint64(len(src) - seriesHeaderBytes - seriesPadding)
	if count == 0 || body/(seriesEntryBytes+minGroupBytes) < groups ||
		uint64(len(src)) > math.MaxUint32 {
		return nil, fmt.Errorf("parse series: %d series in %d bytes", count, len(src))
	}
	at := uint64(seriesHeaderBytes + groups*seriesEntryBytes)
	t := &SeriesTable{src: src, count: int(count), groups: int(groups),
		directory: bytes.Clone(src[seriesHeaderBytes:at]), sums: make([]uint32, groups)}
	for g := range t.groups {
		end, err := t.checkGroup(g, at)
		if err != nil {
			return nil, fmt.Errorf("parse series: group %d of %d: %w", g, t.groups, err)
		}
		t.sums[g] = crc32c.Sum(src[at:end])
		at = end
	}
	for _, b := range src[len(src)-seriesPadding:] {
		if b != 0 {
			return nil, errors.New("parse series: the padding is not zero")
		}
	}
	if at != uint64(len(src)-seriesPadding) {
		return nil, fmt.Errorf("parse series: groups end at %d of %d", at, len(src)-seriesPadding)
	}
	return t, nil
}

// checkGroup checks that a group lies at an offset and returns where it ends.
func (t *SeriesTable) checkGroup(g int, at uint64) (end uint64, err error) {
	if uint64(t.offset(g)) != at {
		return 0, fmt.Errorf("it lies at %d, not behind the one before at %d", t.offset(g), at)
	}
	limit := uint64(len(t.src) - seriesPadding)
	end = at
	n := uint64(t.groupLen(g))
	for range seriesColumns {
		head := uint64(minColumnBytes)
		if limit-at < head {
			return 0, errors.New("it ends inside a header")
		}
		width := uint64(t.src[at])
		if width&gcdFollows != 0 {
			width, head = width&^gcdFollows, head+8
		}
		if width > maxPackedWidth && width != 64 {
			return 0, fmt.Errorf("a column is %d bits wide", width)
		}
		if limit-at < head {
			return 0, errors.New("it ends inside a header")
		}
		at += head
		end += head + (n*width+7)/8
	}
	if end > limit {
		return 0, errors.New("its columns reach beyond the table")
	}
	return end, nil
}

// Len returns the number of series.
func (t *SeriesTable) Len() int { return t.count }

func (t *SeriesTable) entry(g int) []byte { return t.directory[g*seriesEntryBytes:] }

func (t *SeriesTable) offset(g int) uint32 { return binary.LittleEndian.Uint32(t.entry(g)[16:]) }

func (t *SeriesTable) groupLen(g int) int { return min(groupSeries, t.count-g*groupSeries) }

// first returns the first series of a group.
func (t *SeriesTable) first(g int) Series {
	e := t.entry(g)
	return Series{CID: int32(binary.LittleEndian.Uint32(e)),
		MOID: int32(binary.LittleEndian.Uint32(e[4:])),
		MID:  int64(binary.LittleEndian.Uint64(e[8:]))}
}

// groupOf returns the group that a series can be in, from a group on.
func (t *SeriesTable) groupOf(s Series, from int) int {
	n := sort.Search(t.groups-from, func(i int) bool { return t.first(from+i).Compare(s) > 0 })
	return from + max(0, n-1)
}

// seriesGroup is a group while it is being read.
type seriesGroup struct {
	copied  []byte // that was verified
	n       int
	columns [seriesColumns]seriesColumn
}

type seriesColumn struct {
	width     uint8
	base, gcd uint64
	body      []byte
}

func (c *seriesColumn) value(i int) int64 {
	if c.width == 0 {
		return int64(c.base)
	}
	at := uint(i) * uint(c.width)
	packed := binary.LittleEndian.Uint64(c.body[at>>3:]) >> (at & 7)
	return int64(c.base + c.gcd*(packed&(1<<c.width-1)))
}

// end returns where a group ends.
func (t *SeriesTable) end(g int) uint32 {
	if g+1 < t.groups {
		return t.offset(g + 1)
	}
	return uint32(len(t.src) - seriesPadding)
}

// open verifies a group and reads its headers, which ParseSeries has checked.
//
// Errors: ErrSeriesDamaged.
func (t *SeriesTable) open(g int, to *seriesGroup) error {
	from, end := t.offset(g), t.end(g)
	to.copied = append(append(to.copied[:0], t.src[from:end]...), make([]byte, seriesPadding)...)
	if crc32c.Sum(to.copied[:end-from]) != t.sums[g] {
		return ErrSeriesDamaged
	}
	to.n = t.groupLen(g)
	src := to.copied
	for i := range to.columns {
		c := &to.columns[i]
		c.width, c.base, c.gcd = src[0], binary.LittleEndian.Uint64(src[1:]), 1
		src = src[minColumnBytes:]
		if c.width&gcdFollows != 0 {
			c.width &^= gcdFollows
			c.gcd, src = binary.LittleEndian.Uint64(src), src[8:]
		}
	}
	for i := range to.columns {
		c := &to.columns[i]
		c.body = src
		src = src[(to.n*int(c.width)+7)/8:]
	}
	return nil
}

func (g *seriesGroup) series(i int) Series {
	return Series{CID: int32(g.columns[0].value(i)), MOID: int32(g.columns[1].value(i)),
		MID: g.columns[2].value(i)}
}

func (g *seriesGroup) maxCapNs(i int) int64 { return g.columns[3].value(i) }

// MaxCap returns the greatest cap of a series in the segment, false when it has no row there.
//
// Errors: ErrSeriesDamaged.
// Cost: two binary searches, about 0.4 us.
func (t *SeriesTable) MaxCap(s Series) (capNs int64, ok bool, err error) {
	var g seriesGroup
	if err := t.open(t.groupOf(s, 0), &g); err != nil {
		return 0, false, err
	}
	i := sort.Search(g.n, func(i int) bool { return g.series(i).Compare(s) >= 0 })
	if i == g.n || g.series(i) != s {
		return 0, false, nil
	}
	return g.maxCapNs(i), true, nil
}

// Each calls visit with the series that a normalized box holds, in ascending order. Times of the
// box do not matter.
//
// Errors: ErrSeriesDamaged.
// Cost: about 5 ns a series, and of those between that the box leaves out; groups without a series
// of the box are jumped over.
func (t *SeriesTable) Each(box *record.Box, visit func(SeriesCap)) error {
	want, ok := firstIn(box, Series{CID: math.MinInt32, MOID: math.MinInt32, MID: math.MinInt64})
	if !ok {
		return nil
	}
	var group seriesGroup
	for g := t.groupOf(want, 0); g < t.groups; {
		if err := t.open(g, &group); err != nil {
			return err
		}
		for i := range group.n {
			if s := group.series(i); s.In(box) {
				visit(SeriesCap{s, group.maxCapNs(i)})
			}
		}
		if g++; g == t.groups {
			return nil
		}
		if want, ok = firstIn(box, t.first(g)); !ok {
			return nil
		}
		g = t.groupOf(want, g)
	}
	return nil
}

// firstIn returns the first series from s on that lies in the box.
func firstIn(box *record.Box, s Series) (Series, bool) {
	cid, ok := firstOf(box[record.CID], record.CID, int64(s.CID))
	if !ok {
		return s, false
	}
	if cid > int64(s.CID) {
		s = Series{CID: int32(cid), MOID: math.MinInt32, MID: math.MinInt64}
	}
	moid, ok := firstOf(box[record.MOID], record.MOID, int64(s.MOID))
	if !ok { // this tenant has no more; no cid is the greatest
		return firstIn(box, Series{CID: s.CID + 1, MOID: math.MinInt32, MID: math.MinInt64})
	}
	if moid > int64(s.MOID) {
		s.MOID, s.MID = int32(moid), math.MinInt64
	}
	mid, ok := firstOf(box[record.MID], record.MID, s.MID)
	if !ok {
		return firstIn(box, Series{CID: s.CID, MOID: s.MOID + 1, MID: math.MinInt64})
	}
	s.MID = mid
	return s, true
}

// firstOf returns the first value from v on that lies in a normalized set.
func firstOf(set record.RangeSet, d record.Dim, v int64) (int64, bool) {
	if len(set) == 0 {
		return max(v, d.Min()), v < d.Max()
	}
	i := sort.Search(len(set), func(i int) bool { return set[i].To > v })
	if i == len(set) {
		return 0, false
	}
	return max(v, set[i].From), true
}

// Check looks at every series: they ascend, and the directory names the first of each group.
func (t *SeriesTable) Check() error {
	var group seriesGroup
	var before Series
	for g := range t.groups {
		if err := t.open(g, &group); err != nil {
			return fmt.Errorf("check series: %w", err)
		}
		if first := t.first(g); first != group.series(0) {
			return fmt.Errorf("check series: group %d does not start with the series that the "+
				"directory names", g)
		}
		for i := range group.n {
			s := group.series(i)
			if (g > 0 || i > 0) && before.Compare(s) >= 0 {
				return fmt.Errorf("check series: number %d does not come after the one before",
					g*groupSeries+i)
			}
			before = s
		}
	}
	return nil
}
