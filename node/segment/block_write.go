package segment

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/pentad-db/pentad/sdk/record"
)

// Layout of a block, FORMAT.md section 3.
const (
	blockHeaderBytes = 24 // bytes u32, front bytes u32, index u32, rows u16, header bytes u16,
	//                       payload kind u8, flags u8, words or chunks u16, stride u32
	blockHasFlags      = 1
	blockHasTombs      = 2
	blockHasDictionary = 4   // mid is dictionary-encoded, the dictionary ascending
	blockHasRuns       = 8   // keys are a table of runs, and what is left of cap and rank
	blockHasClock      = 16  // and not runs: cap has a clock
	blockHasSubRuns    = 32  // and not runs: caps and ranks have bases for each sub-run
	blockHasLines      = 64  // and neither runs nor a dictionary: mid has lines
	blockHasFlagList   = 128 // in the place of blockHasFlags: a list of rows

	// maxBlockRows bounds the rows of a block: larger ones are no longer found by skipping.
	maxBlockRows = 8192
)

// Kinds of payloads.
const (
	payloadEmpty          = 0 // no bytes
	payloadFixedColumns   = 1 // of one size: a column per 8-byte word
	payloadFixedChunks    = 2 // of one size: chunks
	payloadVariableChunks = 3 // of different sizes: a column of sizes, and chunks

	// maxPayloadWords is the longest payload that is split into columns of words: beyond that,
	// headers and strided writes cost more than LZ4.
	maxPayloadWords = 64
)

// rowsOf is the rows of one block: those of a batch that order names.
type rowsOf struct {
	*record.Batch
	order []uint32
	keys  *record.Batch // of all rows of the run, by position
	start uint32        // position of the first row of the block
}

// encode encodes a block but for chunks of payloads.
func (e *encoder) encode(index int, r rowsOf, flags []uint64) {
	e.columnHeaders, e.columnData = e.columnHeaders[:0], e.columnData[:0]
	e.rows = r
	e.header = blockHeader{index: uint32(index), rows: uint16(len(r.order))}
	h := &e.header
	if !e.appendRuns(r, h) {
		e.appendKeys(r, h)
	}
	h.flags |= e.appendFlagSet(r.order, flags)
	if e.appendFlags(r.order, r.Tombs) {
		h.flags |= blockHasTombs
	}
	e.appendPayloadColumns(r, h)
}

// writeBlock writes a block that was encoded and returns its size. The front, which says where
// chunks lie, is written after them, into the space that was left for it.
func (w *sealedWriter) writeBlock(e *encoder) (uint32, error) {
	h, r := &e.header, e.rows
	e.rows = rowsOf{}
	front := uint64(blockHeaderBytes + len(e.columnHeaders) + len(e.columnData) + 4)
	if h.kind == payloadFixedChunks || h.kind == payloadVariableChunks {
		ends := e.chunks.split(r)
		h.wordsOrChunks = uint16(len(ends))
		front += uint64(len(ends) * chunkEntryBytes)
	}
	at := w.offset()
	if err := w.reserve(int(front)); err != nil {
		return 0, err
	}
	if h.kind == payloadFixedChunks || h.kind == payloadVariableChunks {
		if err := w.writeChunks(&e.chunks, r); err != nil {
			return 0, err
		}
		e.columnData = append(e.columnData, e.chunks.chunkDirectory...)
	}
	size := uint64(w.offset() - at)
	if size > math.MaxUint32 {
		return 0, fmt.Errorf("block %d takes %d bytes, at most 4 GiB", h.index, size)
	}
	h.size, h.front = uint32(size), uint32(front)
	return h.size, w.patch(at, e.appendFront(h))
}

// appendKeys appends the keys of a block, a column for each dimension.
func (e *encoder) appendKeys(r rowsOf, h *blockHeader) {
	for d := range record.Dim(record.NumDims) {
		lo, hi := e.loadKey(r, d)
		if d == record.MID {
			e.subRuns.divide(r, e.values)
		}
		if d == record.MID && widthOf(uint64(hi)-uint64(lo)) > minDictionaryWidth &&
			e.appendDictionary() {
			h.flags |= blockHasDictionary
			continue
		}
		if d == record.Cap {
			if e.appendCaps(lo, hi) {
				h.flags |= blockHasClock
			}
			continue
		}
		f := rebase(e.values, lo, hi)
		if d == record.MID && e.appendLines(&f) {
			h.flags |= blockHasLines
			continue
		}
		if d == record.Acq {
			e.subRuns.rebase(e.values, &f, 0, &e.subRuns.leastRanks)
		}
		e.columnHeaders = appendFOR(e.columnHeaders, &f)
		e.columnData = appendPacked(e.columnData, e.values, f.width)
	}
	if h.flags&blockHasClock != 0 {
		e.columnHeaders = append(e.columnHeaders, e.clockHeader...)
	}
	if e.subRuns.isWanted() {
		h.flags |= blockHasSubRuns
		e.columnHeaders = e.subRuns.appendTable(e.columnHeaders)
	}
}

// blockHeader is the fixed part of a block's header.
type blockHeader struct {
	size, front, index uint32
	rows               uint16
	kind, flags        uint8
	wordsOrChunks      uint16
	stride             uint32
}

// appendFront puts the front of a block together; the result is valid until the next block.
func (e *encoder) appendFront(h *blockHeader) []byte {
	dst := slices.Grow(e.front[:0], int(h.front))
	dst = binary.LittleEndian.AppendUint32(dst, h.size)
	dst = binary.LittleEndian.AppendUint32(dst, h.front)
	dst = binary.LittleEndian.AppendUint32(dst, h.index)
	dst = binary.LittleEndian.AppendUint16(dst, h.rows)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(blockHeaderBytes+len(e.columnHeaders)))
	dst = append(dst, h.kind, h.flags)
	dst = binary.LittleEndian.AppendUint16(dst, h.wordsOrChunks)
	dst = binary.LittleEndian.AppendUint32(dst, h.stride)
	dst = append(append(dst, e.columnHeaders...), e.columnData...)
	e.front = binary.LittleEndian.AppendUint32(dst, checksum(dst))
	return e.front
}

// loadKey loads a key column into values and returns its bounds as signed numbers.
func (e *encoder) loadKey(r rowsOf, d record.Dim) (lo, hi int64) {
	from, to := r.start, r.start+uint32(len(r.order))
	switch d {
	case record.CID:
		return load(e, r.keys.CID[from:to])
	case record.MID:
		return load(e, r.keys.MID[from:to])
	case record.MOID:
		return load(e, r.keys.MOID[from:to])
	case record.Cap:
		return load(e, r.keys.CapNs[from:to])
	default:
		return load(e, r.keys.AcqNs[from:to])
	}
}

func load[T int32 | int64](e *encoder, column []T) (lo, hi int64) {
	values := slices.Grow(e.values[:0], len(column))[:len(column)]
	lo, hi = math.MaxInt64, math.MinInt64
	for k := range column {
		v := int64(column[k])
		values[k] = uint64(v)
		lo, hi = min(lo, v), max(hi, v)
	}
	e.values = values
	return lo, hi
}

// appendFlags appends the bits of the rows, unless none is set. Words that are not there are zero.
func (e *encoder) appendFlags(order []uint32, flags []uint64) bool {
	if len(flags) == 0 {
		return false
	}
	any, at := uint64(0), len(e.columnData)
	for from := 0; from < len(order); from += 8 {
		bits := byte(0)
		for k, row := range order[from:min(from+8, len(order))] {
			if word := int(row >> 6); word < len(flags) {
				bits |= byte(flags[word]>>(row&63)&1) << k
			}
		}
		any |= uint64(bits)
		e.columnData = append(e.columnData, bits)
	}
	if any == 0 {
		e.columnData = e.columnData[:at]
	}
	return any != 0
}

// appendPayloadColumns chooses the kind of the payloads and appends their columns.
func (e *encoder) appendPayloadColumns(r rowsOf, h *blockHeader) {
	if r.Offsets != nil {
		e.loadSizes(r)
		lo, hi := slices.Min(e.values), slices.Max(e.values)
		switch {
		case hi == 0:
			h.kind = payloadEmpty
		case lo == hi && hi <= math.MaxUint32: // of one size in this block
			h.stride = uint32(lo)
			e.appendFixed(r, h)
		default:
			h.kind = payloadVariableChunks
			f := rebase(e.values, int64(lo), int64(hi))
			e.columnHeaders = appendFOR(e.columnHeaders, &f)
			e.columnData = appendPacked(e.columnData, e.values, f.width)
		}
		return
	}
	h.stride = uint32(r.Stride)
	if h.stride != 0 {
		e.appendFixed(r, h)
	}
}

// appendFixed splits payloads of one size into columns of words, if they can be, and if chunks
// are not likely to be smaller by a fifth.
func (e *encoder) appendFixed(r rowsOf, h *blockHeader) {
	h.kind = payloadFixedChunks
	if h.stride%8 != 0 || h.stride > 8*maxPayloadWords {
		return
	}
	headAt, bodyAt := len(e.columnHeaders), len(e.columnData)
	for at := 0; at < int(h.stride); at += 8 {
		e.loadWord(r, at)
		e.appendWord()
	}
	packed := len(e.columnHeaders) - headAt + len(e.columnData) - bodyAt
	raw := len(r.order) * int(h.stride)
	if packed*2 > raw && e.chunks.estimate(r, int(h.stride))*5 < packed*4 {
		e.columnHeaders, e.columnData = e.columnHeaders[:headAt], e.columnData[:bodyAt]
		return
	}
	h.kind, h.wordsOrChunks = payloadFixedColumns, uint16(h.stride/8)
}

// loadWord loads the words at an offset of every payload into values.
func (e *encoder) loadWord(r rowsOf, at int) {
	values := slices.Grow(e.values[:0], len(r.order))[:len(r.order)]
	if r.Offsets == nil {
		for k, i := range r.order {
			values[k] = binary.LittleEndian.Uint64(r.Data[int(i)*r.Stride+at:])
		}
	} else {
		for k, i := range r.order {
			values[k] = binary.LittleEndian.Uint64(r.Data[int(r.Offsets[i])+at:])
		}
	}
	e.values = values
}

func (e *encoder) loadSizes(r rowsOf) {
	values := slices.Grow(e.values[:0], len(r.order))[:len(r.order)]
	for k, i := range r.order {
		values[k] = uint64(r.Offsets[i+1] - r.Offsets[i])
	}
	e.values = values
}
