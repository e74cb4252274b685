package segment

import (
	"encoding/binary"

	"github.com/pentad-db/pentad/sdk/record"
)

// Layout of a block, FORMAT.md section 4.
const (
	blockHeaderBytes = 24 // header bytes u16, rows u16, payload kind u8, flags u8, words u16,
	//                       payload stride u32, flag bitmap offset u32, chunks offset u32, chunks u32
	blockHasFlags = 1

	// maxBlockRows bounds the rows of a block: positions and zones are 16 bits on disk.
	maxBlockRows = 4096
)

// Kinds of payloads.
const (
	payloadEmpty  = 0 // no bytes
	payloadWords  = 1 // one column per 8-byte word
	payloadFixed  = 2 // chunks of payloads of one size
	payloadVaried = 3 // a column of sizes, and chunks
)

// maxPayloadWords is the longest fixed payload that is split into columns of words.
const maxPayloadWords = 64

// appendBlock encodes the rows that order names. A rank is a row's number in b.
func (e *encoder) appendBlock(
	dst []byte, b *record.Batch, order []uint32, flags []uint64,
) []byte {
	start, n := len(dst), len(order)
	words := e.payloadWords(b, order)
	kind := payloadKind(b, words)
	columns := record.NumDims + words
	if kind == payloadVaried {
		columns++
	}
	headerBytes := blockHeaderBytes + columns*columnHeaderBytes
	dst = append(dst, make([]byte, headerBytes)...)
	header := func() []byte { return dst[start : start+headerBytes] }
	put := func(i int, c *column) {
		putColumn(header()[blockHeaderBytes+i*columnHeaderBytes:], c, len(dst)-start)
		for _, v := range e.dictOf(c) {
			dst = binary.LittleEndian.AppendUint64(dst, v)
		}
		dst = pack(dst, e.best, c.width)
	}
	var c column
	for d := range record.NumDims {
		e.loadKey(b, order, record.Dim(d))
		e.keyColumn(&c)
		put(d, &c)
	}
	flagsAt := 0
	if bitmap := blockFlags(order, flags); bitmap != nil {
		flagsAt = len(dst) - start
		dst = append(dst, bitmap...)
	}
	for w := range words {
		e.loadWord(b, order, w)
		e.wordColumn(&c)
		put(record.NumDims+w, &c)
	}
	if kind == payloadVaried {
		e.loadSizes(b, order)
		e.keyColumn(&c)
		put(record.NumDims, &c)
	}
	chunksAt, chunks := 0, 0
	if kind == payloadFixed || kind == payloadVaried {
		dst, chunksAt, chunks = e.appendChunks(dst, start, b, order)
	}
	h := header()
	binary.LittleEndian.PutUint16(h, uint16(headerBytes))
	binary.LittleEndian.PutUint16(h[2:], uint16(n))
	h[4] = byte(kind)
	if flagsAt != 0 {
		h[5] = blockHasFlags
	}
	binary.LittleEndian.PutUint16(h[6:], uint16(words))
	binary.LittleEndian.PutUint32(h[8:], uint32(b.Stride))
	binary.LittleEndian.PutUint32(h[12:], uint32(flagsAt))
	binary.LittleEndian.PutUint32(h[16:], uint32(chunksAt))
	binary.LittleEndian.PutUint32(h[20:], uint32(chunks))
	return binary.LittleEndian.AppendUint32(dst, checksum(dst[start:]))
}

func (e *encoder) dictOf(c *column) []uint64 {
	if c.kind == columnDict {
		return e.dict
	}
	return nil
}

func putColumn(dst []byte, c *column, bodyOffset int) {
	dst[0], dst[1], dst[2] = c.kind, c.width, c.exponent
	binary.LittleEndian.PutUint32(dst[4:], uint32(bodyOffset))
	binary.LittleEndian.PutUint64(dst[8:], c.base)
	binary.LittleEndian.PutUint64(dst[16:], c.gcd)
}

func payloadKind(b *record.Batch, words int) int {
	switch {
	case len(b.Data) == 0:
		return payloadEmpty
	case words > 0:
		return payloadWords
	case b.Offsets == nil:
		return payloadFixed
	default:
		return payloadVaried
	}
}

// payloadWords decides whether payloads are kept as columns of words, and how many: unless a
// sample says that words hardly shrink them and LZ4 does better by a fifth.
func (e *encoder) payloadWords(b *record.Batch, order []uint32) int {
	if b.Offsets != nil || b.Stride == 0 || b.Stride%8 != 0 || b.Stride/8 > maxPayloadWords {
		return 0
	}
	words := b.Stride / 8
	sample := order[:min(len(order), 128)]
	raw, packed := len(sample)*b.Stride, 0
	var c column
	for w := range words {
		e.loadWord(b, sample, w)
		packed += e.wordColumn(&c)
	}
	if packed*10 < raw*9 {
		return words
	}
	e.gatherRaw(b, sample)
	if lz := e.compress(b.Stride); lz*5 < packed*4 {
		return 0
	}
	return words
}

func (e *encoder) loadKey(b *record.Batch, order []uint32, d record.Dim) {
	e.values = e.values[:0]
	switch d {
	case record.CID:
		for _, i := range order {
			e.values = append(e.values, uint64(int64(b.CID[i])))
		}
	case record.MID:
		for _, i := range order {
			e.values = append(e.values, uint64(b.MID[i]))
		}
	case record.MOID:
		for _, i := range order {
			e.values = append(e.values, uint64(int64(b.MOID[i])))
		}
	case record.Cap:
		for _, i := range order {
			e.values = append(e.values, uint64(b.CapNs[i]))
		}
	default:
		for _, i := range order {
			e.values = append(e.values, uint64(i))
		}
	}
}

func (e *encoder) loadWord(b *record.Batch, order []uint32, w int) {
	e.values = e.values[:0]
	for _, i := range order {
		e.values = append(e.values, binary.LittleEndian.Uint64(b.Data[int(i)*b.Stride+8*w:]))
	}
}

func (e *encoder) loadSizes(b *record.Batch, order []uint32) {
	e.values = e.values[:0]
	for _, i := range order {
		e.values = append(e.values, uint64(b.Offsets[i+1]-b.Offsets[i]))
	}
}

// blockFlags returns the bits of the rows, nil when none is set.
func blockFlags(order []uint32, flags []uint64) []byte {
	var bitmap []byte
	for k, rank := range order {
		if flags[rank>>6]>>(rank&63)&1 != 0 {
			if bitmap == nil {
				bitmap = make([]byte, (len(order)+7)/8)
			}
			bitmap[k>>3] |= 1 << (k & 7)
		}
	}
	return bitmap
}
