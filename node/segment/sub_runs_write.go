package segment

import (
	"encoding/binary"
	"math"
	"slices"
)

// subRunEncoder is the sub-runs of the block that is encoded.
type subRunEncoder struct {
	ends                              []uint16 // none: the block is written without
	ascending                         bool     // devices do, in at most maxSubRuns stretches
	leastCaps, leastTicks, leastRanks [maxSubRuns]uint32
}

// divide finds the stretches of rows in which devices ascend, if the rows are of one tenant and
// quantity and these are few.
func (t *subRunEncoder) divide(r rowsOf, mids []uint64) {
	t.ends, t.ascending = t.ends[:0], false
	t.leastCaps, t.leastRanks = [maxSubRuns]uint32{}, [maxSubRuns]uint32{}
	from, to := r.start, r.start+uint32(len(mids))
	if !isConstant(r.keys.CID[from:to]) || !isConstant(r.keys.MOID[from:to]) {
		return
	}
	for i := 1; i <= len(mids); i++ {
		if i < len(mids) && int64(mids[i]) >= int64(mids[i-1]) {
			continue
		}
		if len(t.ends) == maxSubRuns {
			t.ends = t.ends[:0]
			return
		}
		t.ends = append(t.ends, uint16(i))
	}
	if t.ascending = true; len(t.ends) == 1 {
		t.ends = t.ends[:0]
	}
}

func isConstant(column []int32) bool {
	for _, v := range column {
		if v != column[0] {
			return false
		}
	}
	return true
}

// rebase gives packed values a base for each sub-run, where that makes them narrower by more than
// the table takes: the least value without its low bits.
func (t *subRunEncoder) rebase(
	packed []uint64, f *forCoding, low uint8, leasts *[maxSubRuns]uint32,
) {
	*leasts = [maxSubRuns]uint32{}
	if f.width == 0 || len(t.ends) == 0 {
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
	cost := 1 + subRunBytes*len(t.ends)
	if t.isWanted() {
		cost = 0
	}
	if width >= f.width || int(f.width-width)*len(packed)/8 <= cost {
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

// isWanted reports whether a column has a base for each sub-run.
func (t *subRunEncoder) isWanted() bool {
	return len(t.ends) > 0 && (t.leastCaps != [maxSubRuns]uint32{} ||
		t.leastRanks != [maxSubRuns]uint32{})
}

// appendTable appends what the headers have of sub-runs.
func (t *subRunEncoder) appendTable(dst []byte) []byte {
	n := len(t.ends)
	dst = append(dst, byte(n))
	for _, end := range t.ends {
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
