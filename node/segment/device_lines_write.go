package segment

import (
	"encoding/binary"
	"slices"
)

// lineSaving is how many bits a row lines save at least.
const lineSaving = 1

// lineEncoder is the lines of the devices of the block that is encoded.
type lineEncoder struct {
	ascents [maxBlockRows / lineRows]uint64
	spreads [maxBlockRows / lineRows]uint64 // greatest rests
	table   []byte
}

// appendLines writes packed devices with lines, where that is smaller.
func (e *encoder) appendLines(f *forCoding) bool {
	n, l := len(e.values), &e.lines
	if !e.subRuns.ascending || f.width <= 1+lineSaving || f.width > lineBits {
		return false
	}
	rests := *f
	rests.width = l.fit(e.values)
	if lineBytes*linesOf(n)+rests.bytes(n)+lineSaving*n/8 > f.bytes(n) {
		return false
	}
	e.best, l.table = slices.Grow(e.best[:0], n)[:n], l.table[:0]
	for i := range linesOf(n) {
		rows, ascent := lineOf(e.values, i), l.ascents[i]
		first := rows[0] + uint64(spreadOver(rows, ascent).least)
		for k, v := range rows {
			e.best[i*lineRows+k] = v - first - ascent*uint64(k)>>lineShift
		}
		l.table = binary.LittleEndian.AppendUint16(l.table, uint16(first))
		l.table = binary.LittleEndian.AppendUint16(l.table, uint16(ascent))
	}
	e.columnHeaders = appendFOR(e.columnHeaders, &rests)
	e.columnData = appendPacked(append(e.columnData, l.table...), e.best, rests.width)
	return true
}

// lineOf returns the values of line i.
func lineOf(values []uint64, i int) []uint64 {
	return values[i*lineRows : min((i+1)*lineRows, len(values))]
}

// fit finds the ascents of lines, and returns the width of what is left, 1 at least. All rests have
// one width: as long as all lines can be made a bit better, they are.
func (l *lineEncoder) fit(values []uint64) (width uint8) {
	lines, most := linesOf(len(values)), uint64(1)
	for i := range lines {
		rows := lineOf(values, i)
		l.ascents[i] = ascentOf(rows)
		l.spreads[i] = spreadOver(rows, l.ascents[i]).width()
		most = max(most, l.spreads[i])
	}
	for width = widthOf(most); width > 1; width-- {
		for i := range lines {
			if !l.improve(lineOf(values, i), i, 1<<(width-1)-1) {
				return width
			}
		}
	}
	return width
}

// improve looks by halves for an ascent with which the rests of a line are at most that.
func (l *lineEncoder) improve(rows []uint64, i int, most uint64) bool {
	if l.spreads[i] <= most {
		return true
	}
	ascent := l.ascents[i]
	s := spreadOver(rows, ascent)
	for step := ascent / 4; s.width() > most; step /= 2 {
		switch {
		case step == 0:
			return false
		case s.leastAt < s.mostAt:
			ascent = min(ascent+step, greatestOnLine)
		default:
			ascent -= step
		}
		s = spreadOver(rows, ascent)
	}
	l.ascents[i], l.spreads[i] = ascent, s.width()
	return true
}

// ascentOf returns how much values ascend over lineRows, from the first to the last.
func ascentOf(values []uint64) uint64 {
	n := uint64(len(values))
	first, last := values[0], values[n-1]
	if last <= first {
		return 0
	}
	return min(greatestOnLine, (last-first)<<lineShift/(n-1))
}

// spread is how far values are below and above a line through the first one.
type spread struct {
	least, most     int64
	leastAt, mostAt int
}

func (s spread) width() uint64 { return uint64(s.most - s.least) }

func spreadOver(values []uint64, ascent uint64) (s spread) {
	for k, v := range values {
		above := int64(v - ascent*uint64(k)>>lineShift - values[0])
		if above < s.least {
			s.least, s.leastAt = above, k
		}
		if above > s.most {
			s.most, s.mostAt = above, k
		}
	}
	return s
}
