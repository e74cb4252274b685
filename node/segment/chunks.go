package segment

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/pierrec/lz4/v4"
)

// maxKeptChunk bounds the memory that a Block keeps between openings.
const maxKeptChunk = 1 << 20

// chunk is an opened chunk: rows [first, end) of the block. The zero chunk holds none.
type chunk struct {
	first, end int
	raw        []byte // aliases the file or the block's scratch memory
}

// openRow opens the chunk that holds a row.
func (b *Block) openRow(row int) error {
	n := len(b.chunks) / chunkEntryBytes
	i := sort.Search(n-1, func(i int) bool {
		return int(binary.LittleEndian.Uint16(b.chunks[i*chunkEntryBytes:])) > row
	})
	if err := b.openChunk(i); err != nil {
		return err
	}
	if row < b.open.first || row >= b.open.end {
		first, end := b.open.first, b.open.end
		b.open = chunk{}
		return b.corruptChunk(i, 0, fmt.Sprintf("it holds rows %d to %d, and not row %d", first,
			end, row))
	}
	return nil
}

// chunkEntry is an entry of the chunk directory: rows [first, end), bytes [from, to) behind the
// front.
type chunkEntry struct {
	first, end int
	from, to   uint32
	raw        uint32
	sum        uint32
	method     uint8
}

// entry reads and checks an entry of the chunk directory, which may have been damaged since the
// block was verified.
func (b *Block) entry(i int) (e chunkEntry, ok bool) {
	src := b.chunks[i*chunkEntryBytes:]
	e = chunkEntry{end: int(binary.LittleEndian.Uint16(src)), method: src[2],
		to: binary.LittleEndian.Uint32(src[4:]), raw: binary.LittleEndian.Uint32(src[8:]),
		sum: binary.LittleEndian.Uint32(src[12:])}
	if i > 0 {
		before := b.chunks[(i-1)*chunkEntryBytes:]
		e.first = int(binary.LittleEndian.Uint16(before))
		e.from = binary.LittleEndian.Uint32(before[4:])
	}
	return e, src[3] == 0 && e.end > e.first && e.end <= b.rows && e.to >= e.from &&
		uint64(e.to) <= uint64(len(b.data)) &&
		plausible(e.method, uint64(e.raw), uint64(e.to-e.from), uint64(e.end-e.first))
}

// openChunk checks and decompresses a chunk.
func (b *Block) openChunk(i int) error {
	b.open = chunk{}
	e, ok := b.entry(i)
	if !ok {
		return b.corruptChunk(i, 0, fmt.Sprintf("rows %d to %d at %d to %d cannot be", e.first,
			e.end, e.from, e.to))
	}
	stored, ok := b.verifyChunk(&e)
	if !ok {
		return b.corruptChunk(i, e.from, "its checksum differs")
	}
	if !b.setEnds(&e) {
		return b.corruptChunk(i, e.from, "it does not hold its payloads")
	}
	next := chunk{first: e.first, end: e.end, raw: stored}
	if e.method != chunkRaw {
		if err := b.decompress(stored, int(e.raw), e.method, e.end-e.first); err != nil {
			return b.corruptChunk(i, e.from, err.Error())
		}
		next.raw = b.raw
	}
	b.open = next
	return nil
}

// verifyChunk returns the stored bytes of a chunk and whether their checksum is right. For a copy
// they are copied first: the system may read a page of the mapping from the disk again after its
// checksum was computed.
func (b *Block) verifyChunk(e *chunkEntry) (stored []byte, ok bool) {
	stored = b.data[e.from:e.to]
	if b.isCopy && e.method == chunkRaw {
		b.raw = append(b.raw[:0], stored...)
		stored = b.raw
	} else if b.isCopy {
		b.packed = append(b.packed[:0], stored...)
		stored = b.packed
	}
	return stored, checksum(stored) == e.sum
}

// setEnds notes where the payloads of a chunk end and reports whether they fill it.
func (b *Block) setEnds(e *chunkEntry) bool {
	if b.kind == payloadFixedChunks {
		return uint64(b.stride)*uint64(e.end-e.first) == uint64(e.raw)
	}
	b.ends = b.ends[:0]
	end := uint64(0)
	for row := e.first; row < e.end; row++ {
		if end += min(b.sizes.value(row), math.MaxUint32+1); end > uint64(e.raw) {
			return false
		}
		b.ends = append(b.ends, uint32(end))
	}
	return end == uint64(e.raw)
}

func (b *Block) corruptChunk(i int, from uint32, reason string) error {
	return b.sealed.corrupt(b.offset+b.front+uint64(from), "payload chunk %d: %s", i, reason)
}

// decompress fills raw with size bytes.
func (b *Block) decompress(stored []byte, size int, method uint8, rows int) error {
	if cap(b.raw) > maxKeptChunk && size < maxKeptChunk {
		b.raw, b.lz = nil, nil
	}
	b.raw = slices.Grow(b.raw[:0], size)[:size]
	dst := b.raw
	if method == chunkShuffled {
		b.lz = slices.Grow(b.lz[:0], size)[:size]
		dst = b.lz
	}
	if n, err := lz4.UncompressBlock(stored, dst); err != nil || n != size {
		return fmt.Errorf("%d of %d bytes decompress: %w", n, size, err)
	}
	if method == chunkShuffled {
		unshuffle(b.raw, b.lz, size/rows)
	}
	return nil
}

// openPayload returns the payload of a row of the open chunk.
func (b *Block) openPayload(row int) []byte {
	k := row - b.open.first
	if b.kind == payloadFixedChunks {
		return b.open.raw[k*b.stride : (k+1)*b.stride]
	}
	from := uint32(0)
	if k > 0 {
		from = b.ends[k-1]
	}
	return b.open.raw[from:b.ends[k]]
}
