package segment

import (
	"math"

	"github.com/pentad-db/pentad/sdk/record"
)

// Block is an opened block of a sealed segment. It aliases the mapped file and must not outlive
// it. The zero Block can be opened, again and again; it keeps its scratch memory and is used by
// one goroutine at a time. Positions are those of rows in the block, from 0 on.
type Block struct {
	sealed *File
	offset uint64 // in the file
	front  uint64 // bytes before the chunks
	// rankBaseAt is where in the front the base of its ranks is.
	rankBaseAt int
	body       []byte // the front, and what follows it
	rows       int
	kind       uint8
	stride     int // of payloads of one size

	keys          [record.NumDims]column
	runs          runTable // of a block that has one: what it holds is not in keys then
	subRuns       subRunTable
	frameTables   []*frameTable
	flags         flagSet
	tombs         []byte
	wordColumns   []column
	sizes         column
	chunks        []byte // chunk directory
	data          []byte // what the chunks hold
	matches       []match
	keyValues     []int64
	spans         []Span
	pieces        []piece
	prefetchQueue *PrefetchQueue // nil for none
	span          [1]Span
	sel           []uint32

	open chunk // the chunk in raw
	raw  []byte
	lz   []byte
	ends []uint32 // ends of the payloads of the open chunk, when their sizes vary
	// memory of openWhole
	whole     []byte
	wholeEnds []uint32

	lengths []uint32 // of payloads that are gathered
	isCopy  bool     // opened by BlockCopy
	copied  []byte   // memory of its front then
	packed  []byte   // then, a chunk that is compressed
}

// maxKeptCopy bounds the memory that a Block keeps for copies.
const maxKeptCopy = 1 << 20

// Close drops the file, and the memory that only unusual payloads need; the block must be
// opened again before its next use.
func (b *Block) Close() {
	b.Detach()
	b.flags = flagSet{}
	b.tombs, b.chunks, b.data, b.body = nil, nil, nil, nil
	for d := range b.keys {
		b.keys[d] = column{}
	}
	clear(b.wordColumns[:cap(b.wordColumns)])
	b.runs.close()
	b.subRuns = subRunTable{}
	b.sizes = column{}
}

// Detach is Close for a block that is opened again before anything else is done with it: it does
// not empty what would then lead nowhere.
func (b *Block) Detach() {
	b.sealed, b.rows, b.prefetchQueue = nil, 0, nil
	b.open = chunk{}
	if cap(b.raw) > maxKeptChunk {
		b.raw, b.lz = nil, nil
	}
	if cap(b.copied) > maxKeptCopy {
		b.copied = nil
	}
	if cap(b.packed) > maxKeptChunk {
		b.packed = nil
	}
}

// Lend swaps the memory for payloads of chunks with another block's, so that many blocks that are
// open need one such memory.
func (b *Block) Lend(to *Block) {
	b.raw, to.raw = to.raw, b.raw
	b.lz, to.lz = to.lz, b.lz
	b.packed, to.packed = to.packed, b.packed
	b.ends, to.ends = to.ends, b.ends
	b.whole, to.whole = to.whole, b.whole
	b.wholeEnds, to.wholeEnds = to.wholeEnds, b.wholeEnds
	b.open, to.open = chunk{}, chunk{}
}

// Rows returns the number of rows.
func (b *Block) Rows() int { return b.rows }

// payloadBytes returns the size of the payloads of the rows [lo, hi), capped well above what a
// chunk can hold.
func (b *Block) payloadBytes(lo, hi int) uint64 {
	if b.kind != payloadVariableChunks {
		return uint64(b.stride) * uint64(hi-lo)
	}
	total := uint64(0)
	for i := lo; i < hi; i++ {
		total += min(b.sizes.value(i), math.MaxUint32+1)
	}
	return total
}

// FitSpans reports whether the payloads of n rows are known to take at most limit bytes together.
func (b *Block) FitSpans(n, limit int) bool {
	return b.kind != payloadVariableChunks && uint64(b.stride)*uint64(n) <= uint64(limit)
}

// Fit returns how many of the payloads at the first positions of sel take at most limit bytes
// together; at least 1 if there are any. Callers gather large payloads in such portions.
func (b *Block) Fit(sel []uint32, limit int) int {
	total := uint64(0)
	for k, i := range sel {
		if total += b.payloadBytes(int(i), int(i)+1); total > uint64(limit) && k > 0 {
			return k
		}
		if b.kind != payloadVariableChunks && total != 0 {
			return min(len(sel), max(1, int(uint64(limit)/total)))
		}
	}
	return len(sel)
}

// FitSpan is Fit for the positions [lo, hi); it returns the end of the portion that starts at lo.
func (b *Block) FitSpan(lo, hi, limit int) (end int) {
	if b.kind != payloadVariableChunks {
		return lo + min(hi-lo, max(1, limit/max(1, b.stride)))
	}
	total := uint64(0)
	for i := lo; i < hi; i++ {
		if total += b.sizes.value(i); total > uint64(limit) && i > lo {
			return i
		}
	}
	return hi
}

// PayloadBytes returns the size of all payloads.
func (b *Block) PayloadBytes() uint64 { return b.payloadBytes(0, b.rows) }

// Tomb reports whether the row at a position is a tombstone.
func (b *Block) Tomb(i int) bool { return b.tombs != nil && b.tombs[i>>3]>>(i&7)&1 != 0 }

// HasTombs reports whether a row may be a tombstone.
func (b *Block) HasTombs() bool { return b.tombs != nil }
