package segment

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// subRunEncoder is the sub-runs of the block that is encoded.
type subRunEncoder struct {
	ends                               []uint16 // of sub-runs; none: the block is written without
	absentEnds                         []uint16
	leastCaps, leastTicks, leastRanks  [maxSubRuns]uint32
	devices, merged, ofSubRun, absents []uint64
	firsts                             []byte
}

// appendDevices appends the devices of the rows of a block as a table, and reports whether it has:
// whether that saves a bit a row. They are in values.
func (e *encoder) appendDevices(r rowsOf) bool {
	t, rows := &e.subRuns, len(e.values)
	from, to := r.start, r.start+uint32(rows)
	if !isConstant(r.keys.CID[from:to]) || !isConstant(r.keys.MOID[from:to]) ||
		!t.divide(e.values) {
		return false
	}
	t.listAbsents(e.values)
	devices := len(t.devices)
	lo, hi := int64(t.devices[0]), int64(t.devices[devices-1])
	e.spare = append(e.spare[:0], t.devices...)
	f := rebase(e.spare, lo, hi)
	numberWidth := uint8(bits.Len(uint(devices - 1)))
	size := deviceHeaderBytes + subRunBytes*len(t.ends) + f.bytes(devices) + len(t.firsts) +
		(len(t.absents)*int(numberWidth)+7)/8
	plain := f.bytes(rows)
	if f.width > minDictionaryWidth {
		plain = min(plain, 8*devices+rows*int(numberWidth)/8)
	}
	if len(t.absents) > math.MaxUint16 || size+rows/8 > plain {
		t.ends = t.ends[:0]
		return false
	}
	h := binary.LittleEndian.AppendUint16(e.columnHeaders, uint16(devices))
	h = append(h, byte(len(t.ends)))
	h = binary.LittleEndian.AppendUint16(h, uint16(len(t.absents)))
	e.columnHeaders = appendFOR(h, &f)
	e.columnData = appendPacked(e.columnData, e.spare, f.width)
	e.columnData = append(e.columnData, t.firsts...)
	e.columnData = appendPacked(e.columnData, t.absents, numberWidth)
	return true
}

func isConstant(column []int32) bool {
	for _, v := range column {
		if v != column[0] {
			return false
		}
	}
	return true
}

// divide finds the sub-runs in which devices ascend, and the distinct devices. It gives up on rows
// that are not sorted so, and where devices have few rows.
func (t *subRunEncoder) divide(mids []uint64) bool {
	t.ends, t.devices = t.ends[:0], t.devices[:0]
	for from := 0; from < len(mids); {
		if len(t.ends) == maxSubRuns {
			t.ends = t.ends[:0]
			return false
		}
		t.ofSubRun = append(t.ofSubRun[:0], mids[from])
		to := from + 1
		for ; to < len(mids) && int64(mids[to]) >= int64(mids[to-1]); to++ {
			if mids[to] != mids[to-1] {
				t.ofSubRun = append(t.ofSubRun, mids[to])
			}
		}
		t.ends = append(t.ends, uint16(to))
		t.merge()
		if len(t.devices) > len(mids)/2 {
			t.ends = t.ends[:0]
			return false
		}
		from = to
	}
	return true
}

// merge adds the devices of a sub-run to those that were found before.
func (t *subRunEncoder) merge() {
	known, found := t.devices, t.ofSubRun
	t.merged = t.merged[:0]
	for len(known) > 0 && len(found) > 0 {
		a, b := known[0], found[0]
		t.merged = append(t.merged, uint64(min(int64(a), int64(b))))
		if int64(a) <= int64(b) {
			known = known[1:]
		}
		if int64(b) <= int64(a) {
			found = found[1:]
		}
	}
	t.merged = append(append(t.merged, known...), found...)
	t.devices, t.merged = t.merged, t.devices
}

// listAbsents finds which rows are the first of a device in their sub-run, and which devices a
// sub-run has no row of.
func (t *subRunEncoder) listAbsents(mids []uint64) {
	t.firsts = slices.Grow(t.firsts[:0], (len(mids)+7)/8)[:(len(mids)+7)/8]
	clear(t.firsts)
	t.absents, t.absentEnds = t.absents[:0], t.absentEnds[:0]
	row := 0
	for _, end := range t.ends {
		for number, mid := range t.devices {
			if row == int(end) || mids[row] != mid {
				t.absents = append(t.absents, uint64(number))
				continue
			}
			t.firsts[row>>3] |= 1 << (row & 7)
			for row < int(end) && mids[row] == mid {
				row++
			}
		}
		t.absentEnds = append(t.absentEnds, uint16(len(t.absents)))
	}
}

// rebase gives packed values a base for each sub-run, where that makes them narrower: the least
// value without its low bits.
func (t *subRunEncoder) rebase(
	packed []uint64, f *forCoding, low uint8, leasts *[maxSubRuns]uint32,
) {
	*leasts = [maxSubRuns]uint32{}
	if f.width == 0 {
		return
	}
	var found [maxSubRuns]uint32
	from, width := 0, low
	for s, end := range t.ends {
		rows := packed[from:end]
		least := slices.Min(rows) >> low
		if least > math.MaxUint32 {
			return
		}
		found[s] = uint32(least)
		width = max(width, widthOf(slices.Max(rows)-least<<low))
		from = int(end)
	}
	if len(t.ends) == 0 || width >= f.width {
		return
	}
	from = 0
	for s, end := range t.ends {
		for i := from; i < int(end); i++ {
			packed[i] -= uint64(found[s]) << low
		}
		from = int(end)
	}
	*leasts, f.width = found, width
}

// appendTable appends what the headers have of sub-runs.
func (t *subRunEncoder) appendTable(dst []byte) []byte {
	n := len(t.ends)
	if n == 0 {
		return dst
	}
	for _, end := range t.ends {
		dst = binary.LittleEndian.AppendUint16(dst, end)
	}
	for _, end := range t.absentEnds {
		dst = binary.LittleEndian.AppendUint16(dst, end)
	}
	for _, leasts := range [...][]uint32{t.leastCaps[:n], t.leastRanks[:n]} {
		for _, least := range leasts {
			dst = binary.LittleEndian.AppendUint32(dst, least)
		}
	}
	return dst
}

const _ = uint(math.MaxUint16 - maxBlockRows) // an end fits
