package segment

import (
	"encoding/binary"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pierrec/lz4/v4"
)

const (
	// chunkRows and chunkBytes bound a chunk: reading one payload decompresses its chunk.
	chunkRows  = 256
	chunkBytes = 256 << 10
	// chunkEntryBytes is first row u32, offset in the block u32, raw bytes u32, stored bytes u32.
	chunkEntryBytes = 16
)

// appendChunks appends the payloads in chunks, then the chunk directory.
func (e *encoder) appendChunks(
	dst []byte, start int, b *record.Batch, order []uint32,
) (out []byte, at, chunks int) {
	var directory []byte
	for from := 0; from < len(order); {
		to, size := from, 0
		for to < len(order) && to-from < chunkRows {
			next := len(b.Payload(int(order[to])))
			if to > from && size+next > chunkBytes {
				break
			}
			size += next
			to++
		}
		e.gatherRaw(b, order[from:to])
		stored := e.chunk
		if n := e.compress(b.Stride); n < len(e.chunk) {
			stored = e.lz[:n]
		}
		directory = binary.LittleEndian.AppendUint32(directory, uint32(from))
		directory = binary.LittleEndian.AppendUint32(directory, uint32(len(dst)-start))
		directory = binary.LittleEndian.AppendUint32(directory, uint32(size))
		directory = binary.LittleEndian.AppendUint32(directory, uint32(len(stored)))
		dst = append(dst, stored...)
		from = to
	}
	at = len(dst) - start
	return append(dst, directory...), at, len(directory) / chunkEntryBytes
}

// gatherRaw copies payloads one after another into chunk.
func (e *encoder) gatherRaw(b *record.Batch, order []uint32) {
	e.chunk = e.chunk[:0]
	for _, i := range order {
		e.chunk = append(e.chunk, b.Payload(int(i))...)
	}
}

// compress compresses chunk, byte-shuffled when payloads have one size, into lz and returns the
// size; len(chunk) when it cannot be made smaller.
func (e *encoder) compress(stride int) int {
	src := e.chunk
	if stride > 1 {
		e.shuffle = append(e.shuffle[:0], src...)
		shuffle(e.shuffle, src, stride)
		src = e.shuffle
	}
	if need := lz4.CompressBlockBound(len(src)); cap(e.lz) < need {
		e.lz = make([]byte, need)
	}
	e.lz = e.lz[:cap(e.lz)]
	n, err := lz4.CompressBlock(src, e.lz, nil)
	if err != nil || n == 0 || n >= len(src) {
		return len(e.chunk)
	}
	return n
}

// shuffle writes byte k of every item next to each other: all first bytes, all second bytes.
func shuffle(dst, src []byte, stride int) {
	n := len(src) / stride
	for k := range stride {
		for i := range n {
			dst[k*n+i] = src[i*stride+k]
		}
	}
}

func unshuffle(dst, src []byte, stride int) {
	n := len(src) / stride
	for k := range stride {
		for i := range n {
			dst[i*stride+k] = src[k*n+i]
		}
	}
}
