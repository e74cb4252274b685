package segment

import (
	"encoding/binary"
	"fmt"
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
	return b.openChunk(sort.Search(n-1, func(i int) bool {
		return int(binary.LittleEndian.Uint16(b.chunks[i*chunkEntryBytes:])) > row
	}))
}

// openChunk checks and decompresses a chunk.
func (b *Block) openChunk(i int) error {
	b.open = chunk{}
	e, from := b.chunks[i*chunkEntryBytes:], uint32(0)
	next := chunk{end: int(binary.LittleEndian.Uint16(e))}
	if i > 0 {
		before := b.chunks[(i-1)*chunkEntryBytes:]
		next.first = int(binary.LittleEndian.Uint16(before))
		from = binary.LittleEndian.Uint32(before[4:])
	}
	stored := b.data[from:binary.LittleEndian.Uint32(e[4:])]
	if checksum(stored) != binary.LittleEndian.Uint32(e[12:]) {
		return b.corruptChunk(i, from, "its checksum differs")
	}
	next.raw = stored
	if e[2] != chunkRaw {
		raw := int(binary.LittleEndian.Uint32(e[8:]))
		if err := b.decompress(stored, raw, e[2], next.end-next.first); err != nil {
			return b.corruptChunk(i, from, err.Error())
		}
		next.raw = b.raw
	}
	b.open = next
	if b.kind == payloadVaried {
		b.ends = b.ends[:0]
		end := uint32(0)
		for row := next.first; row < next.end; row++ {
			end += uint32(b.sizes.value(row))
			b.ends = append(b.ends, end)
		}
	}
	return nil
}

func (b *Block) corruptChunk(i int, from uint32, reason string) error {
	at := b.offset + uint64(binary.LittleEndian.Uint32(b.sealed.data[b.offset+4:])) + uint64(from)
	return b.sealed.corrupt(at, "payload chunk %d: %s", i, reason)
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
	if b.kind == payloadFixed {
		return b.open.raw[k*b.stride : (k+1)*b.stride]
	}
	from := uint32(0)
	if k > 0 {
		from = b.ends[k-1]
	}
	return b.open.raw[from:b.ends[k]]
}
