package segment

import (
	"encoding/binary"
	"math"
)

// frameSaving: frames are worth it where they save more than one byte of these, and a bit a row:
// of narrow columns, they cost more time than space.
const frameSaving = 16

// appendFramable appends the header and the packed values of a column, in frames where that is
// smaller and the block has runs: others have no time to give.
func (e *encoder) appendFramable(f *forCoding, packed []uint64) {
	if plain := f.bytes(len(packed)); e.hasRuns {
		size := e.sizeFrames(packed, f.width, plain)
		if size+max(size/frameSaving, len(packed)/8) < plain {
			e.columnHeaders = appendFOR(append(e.columnHeaders, framedMark), f)
			e.appendFrames(packed, f.width)
			return
		}
	}
	e.columnHeaders = appendFOR(e.columnHeaders, f)
	e.columnData = appendPacked(e.columnData, packed, f.width)
}

// sizeFrames finds frames, their least values and where they end, in widths added up, and returns
// the size of a column with them. It gives up where they cannot be below most.
func (e *encoder) sizeFrames(packed []uint64, width uint8, most int) (size int) {
	e.frameEnds, e.frameLeast = e.frameEnds[:0], e.frameLeast[:0]
	if width == 0 || len(packed) <= frameRows {
		return most
	}
	end := uint16(0)
	for from := 0; from < len(packed); from += frameRows {
		some := packed[from:min(from+frameRows, len(packed))]
		lo, hi := uint64(math.MaxUint64), uint64(0)
		for _, v := range some {
			lo, hi = min(lo, v), max(hi, v)
		}
		w := widthOf(hi - lo)
		end += uint16(w)
		size += (len(some)*int(w) + 7) / 8
		e.frameEnds, e.frameLeast = append(e.frameEnds, end), append(e.frameLeast, lo)
	}
	n := len(e.frameEnds)
	return size + 2*n + (n*int(width)+7)/8
}

// appendFrames appends the values of a column in the frames that sizeFrames found.
func (e *encoder) appendFrames(packed []uint64, width uint8) {
	for _, end := range e.frameEnds {
		e.columnData = binary.LittleEndian.AppendUint16(e.columnData, end)
	}
	e.columnData = appendPacked(e.columnData, e.frameLeast, width)
	start := uint16(0)
	for i, end := range e.frameEnds {
		some := packed[i*frameRows : min((i+1)*frameRows, len(packed))]
		for k := range some {
			some[k] -= e.frameLeast[i]
		}
		e.columnData = appendPacked(e.columnData, some, uint8(end-start))
		start = end
	}
}
