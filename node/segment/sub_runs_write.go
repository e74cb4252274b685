package segment

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// subRunEncoder is the sub-runs of the block that is encoded.
type subRunEncoder struct {
	ends                              []uint16 // of sub-runs; none: the block is written without
	leastCaps, leastTicks, leastRanks [maxSubRuns]uint32
	devices, merged, ofSubRun         []uint64
	groupStarts, bits                 []byte
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
	t.list(e.values)
	devices := len(t.devices)
	lo, hi := int64(t.devices[0]), int64(t.devices[devices-1])
	e.spare = append(e.spare[:0], t.devices...)
	f := rebase(e.spare, lo, hi)
	size := deviceHeaderBytes + leastBytes*len(t.ends) + f.bytes(devices) + len(t.groupStarts) +
		len(t.bits)
	plain := f.bytes(rows)
	if f.width > minDictionaryWidth {
		plain = min(plain, 8*devices+rows*bits.Len(uint(devices-1))/8)
	}
	if size+rows/8 > plain {
		t.ends = t.ends[:0]
		return false
	}
	h := binary.LittleEndian.AppendUint16(e.columnHeaders, uint16(devices))
	e.columnHeaders = appendFOR(append(h, byte(len(t.ends))), &f)
	e.columnData = appendPacked(e.columnData, e.spare, f.width)
	e.columnData = append(append(e.columnData, t.groupStarts...), t.bits...)
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

// list sets the bits of rows and devices, and where the rows of groups of devices start.
func (t *subRunEncoder) list(mids []uint64) {
	groups := (len(t.devices) + groupDevices - 1) / groupDevices
	t.groupStarts = resized(t.groupStarts, 2*groups*len(t.ends))
	t.bits = resized(t.bits, (len(mids)+len(t.ends)*len(t.devices)+7)/8)
	row, bit := 0, 0
	for s, end := range t.ends {
		for number, mid := range t.devices {
			if number%groupDevices == 0 {
				at := 2 * (number/groupDevices*len(t.ends) + s)
				binary.LittleEndian.PutUint16(t.groupStarts[at:], uint16(row))
			}
			t.bits[bit>>3] |= 1 << (bit & 7)
			for bit++; row < int(end) && mids[row] == mid; bit++ {
				row++
			}
		}
	}
}

// resized returns n zeros in the memory of b.
func resized(b []byte, n int) []byte {
	b = slices.Grow(b[:0], n)[:n]
	clear(b)
	return b
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
	for _, leasts := range [...][]uint32{t.leastCaps[:n], t.leastRanks[:n]} {
		for _, least := range leasts {
			dst = binary.LittleEndian.AppendUint32(dst, least)
		}
	}
	return dst
}

const _ = uint(math.MaxUint16 - maxBlockRows) // an end fits
