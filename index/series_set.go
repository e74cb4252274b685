package index

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/pentad-db/pentad/sdk/record"
)

// SeriesSet gathers series and their greatest caps in any order. The zero value is empty.
type SeriesSet struct {
	list    []SeriesCap
	slots   []uint32 // hash -> number in list plus 1; at most half of them are taken
	tooMany bool     // for a table
	lately  []uint32 // low bits of a device -> number in list of one that came lately
}

// recentSlots is how many series that came lately are found without a hash, more than blocks that
// lie side by side have devices.
const recentSlots = 1 << 13

// maxTableSeries bounds the memory that making a table takes to 200 MiB.
const maxTableSeries = 1 << 22

// Len returns the number of series.
func (s *SeriesSet) Len() int { return len(s.list) }

// List returns the series in the order in which they came. It belongs to the set; caps may be
// changed until more is added.
func (s *SeriesSet) List() []SeriesCap { return s.list }

// Add takes a series in, or lifts its greatest cap, and returns its number in the list.
//
// Cost: about 15 ns while the set fits the caches.
func (s *SeriesSet) Add(series Series, capNs int64) (number uint32) {
	if 2*len(s.list) >= len(s.slots) {
		s.grow()
	}
	mask := uint64(len(s.slots) - 1)
	for at := hashSeries(series) & mask; ; at = (at + 1) & mask {
		if s.slots[at] == 0 {
			s.list = append(s.list, SeriesCap{series, capNs})
			s.slots[at] = uint32(len(s.list))
			return s.slots[at] - 1
		}
		if known := &s.list[s.slots[at]-1]; known.Series == series {
			known.MaxCapNs = max(known.MaxCapNs, capNs)
			return s.slots[at] - 1
		}
	}
}

func (s *SeriesSet) grow() {
	s.slots = make([]uint32, max(64, 2*len(s.slots)))
	mask := uint64(len(s.slots) - 1)
	for i := range s.list {
		at := hashSeries(s.list[i].Series) & mask
		for s.slots[at] != 0 {
			at = (at + 1) & mask
		}
		s.slots[at] = uint32(i + 1)
	}
}

func hashSeries(s Series) uint64 {
	pair := uint64(uint32(s.CID))<<32 | uint64(uint32(s.MOID))
	h := (uint64(s.MID) ^ bits.RotateLeft64(pair*0xc2b2ae3d27d4eb4f, 31)) * 0x9e3779b97f4a7c15
	return h ^ h>>32
}

// AddRows takes in the series of rows for a table, and lets go of all when they become too many.
// Neighbours of one series count once, so rows that are clustered are taken in several times as
// fast as those in order of arrival.
func (s *SeriesSet) AddRows(rows *record.Batch) {
	if s.tooMany {
		return
	}
	for i := 0; i < rows.Len(); {
		series, maxCapNs := Series{rows.CID[i], rows.MOID[i], rows.MID[i]}, rows.CapNs[i]
		for i++; i < rows.Len() && series == (Series{rows.CID[i], rows.MOID[i], rows.MID[i]}); i++ {
			maxCapNs = max(maxCapNs, rows.CapNs[i])
		}
		s.raise(series, maxCapNs)
	}
	s.limit()
}

// limit lets go of all when there are too many series for a table.
func (s *SeriesSet) limit() {
	if len(s.list) > maxTableSeries {
		*s = SeriesSet{tooMany: true}
	}
}

// raise is Add for rows that are clustered, where the same few thousand devices come again and
// again.
func (s *SeriesSet) raise(series Series, capNs int64) {
	if s.lately == nil {
		s.lately = make([]uint32, recentSlots)
	}
	number := &s.lately[uint64(series.MID)%recentSlots]
	if int(*number) < len(s.list) && s.list[*number].Series == series {
		known := &s.list[*number]
		known.MaxCapNs = max(known.MaxCapNs, capNs)
		return
	}
	*number = s.Add(series, capNs)
}

// AddAll takes in series for a table, and lets go of all when they become too many.
func (s *SeriesSet) AddAll(series []SeriesCap) {
	if s.tooMany {
		return
	}
	for i := range series {
		s.Add(series[i].Series, series[i].MaxCapNs)
	}
	s.limit()
}

// Sorted returns the series in ascending order; the list belongs to the set, which takes no more.
func (s *SeriesSet) Sorted() []SeriesCap {
	slices.SortFunc(s.list, func(a, b SeriesCap) int { return a.Compare(b.Series) })
	s.slots, s.lately = nil, nil
	return s.list
}

// rowsPerTableByte is how many rows of a segment pay for a byte of its series table.
const rowsPerTableByte = 2

// Table returns the series table of a segment of this many rows, nil where it is not worth its
// bytes. The set takes no more.
func (s *SeriesSet) Table(rows int) []byte { return SeriesTableOf(s.Sorted(), rows) }

// SeriesTableOf returns the table of the series of a segment of this many rows, which ascend, nil
// where it is not worth its bytes: about as many series as rows are found by reading the rows.
func SeriesTableOf(sorted []SeriesCap, rows int) []byte {
	if len(sorted) == 0 || len(sorted) > rows/rowsPerTableByte {
		return nil
	}
	if table := AppendSeries(nil, sorted); len(table) <= rows/rowsPerTableByte {
		return table
	}
	return nil
}

// AppendSeries appends the table of series that ascend, each once: version u32, series u32, per
// group of 128 its first series (cid i32, moid i32, mid i64) and offset u32, the groups, 8 zeros.
func AppendSeries(dst []byte, sorted []SeriesCap) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, seriesVersion)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(sorted)))
	entries := len(dst)
	groups := (len(sorted) + groupSeries - 1) / groupSeries
	dst = append(dst, make([]byte, groups*seriesEntryBytes)...)
	for g := range groups {
		group := sorted[g*groupSeries : min(len(sorted), (g+1)*groupSeries)]
		e := dst[entries+g*seriesEntryBytes:]
		binary.LittleEndian.PutUint32(e, uint32(group[0].CID))
		binary.LittleEndian.PutUint32(e[4:], uint32(group[0].MOID))
		binary.LittleEndian.PutUint64(e[8:], uint64(group[0].MID))
		binary.LittleEndian.PutUint32(e[16:], uint32(len(dst)-start))
		dst = appendGroup(dst, group)
	}
	return append(dst, make([]byte, seriesPadding)...)
}

// appendGroup appends the headers of four columns, and then the columns.
func appendGroup(dst []byte, group []SeriesCap) []byte {
	var values [seriesColumns][groupSeries]uint64
	var widths [seriesColumns]uint8
	for i := range group {
		s := &group[i]
		values[0][i], values[1][i] = uint64(int64(s.CID)), uint64(int64(s.MOID))
		values[2][i], values[3][i] = uint64(s.MID), uint64(s.MaxCapNs)
	}
	for c := range values {
		dst, widths[c] = appendFrame(dst, values[c][:len(group)])
	}
	for c := range values {
		dst = appendPacked(dst, values[c][:len(group)], widths[c])
	}
	return dst
}

// appendFrame appends the header of a column, width u8, base u64 and, with the highest bit of the
// width, gcd u64, and replaces the values by packed ones: value = base + gcd * packed.
func appendFrame(dst []byte, values []uint64) (header []byte, width uint8) {
	lo, hi := int64(values[0]), int64(values[0])
	for _, v := range values {
		lo, hi = min(lo, int64(v)), max(hi, int64(v))
	}
	gcd := uint64(0)
	for i := range values {
		values[i] -= uint64(lo)
		for v := values[i]; v != 0; {
			gcd, v = v, gcd%v
		}
	}
	span := uint64(hi) - uint64(lo)
	width = packedWidth(span)
	if gcd > 1 && int(width-packedWidth(span/gcd))*len(values) > 64 { // more than a gcd takes
		width = packedWidth(span / gcd)
		for i := range values {
			values[i] /= gcd
		}
		dst = binary.LittleEndian.AppendUint64(append(dst, width|gcdFollows), uint64(lo))
		return binary.LittleEndian.AppendUint64(dst, gcd), width
	}
	return binary.LittleEndian.AppendUint64(append(dst, width), uint64(lo)), width
}

// packedWidth returns the width that holds 0 to span.
func packedWidth(span uint64) uint8 {
	if w := uint8(bits.Len64(span)); w <= maxPackedWidth {
		return w
	}
	return 64
}

// appendPacked appends values at a width, low bits first.
func appendPacked(dst []byte, values []uint64, width uint8) []byte {
	at, size := len(dst), (len(values)*int(width)+7)/8
	dst = append(dst, make([]byte, size+8)...)
	out := dst[at:]
	for i, v := range values {
		bit := uint(i) * uint(width)
		word := binary.LittleEndian.Uint64(out[bit>>3:]) | v<<(bit&7)
		binary.LittleEndian.PutUint64(out[bit>>3:], word)
	}
	return dst[:at+size]
}
