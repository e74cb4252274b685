package segment

import (
	"encoding/binary"
	"fmt"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pierrec/lz4/v4"
)

// Block is an opened block of a sealed segment. It aliases the mapped file and must not outlive
// it. A Block may be opened again and again; it keeps its scratch memory.
type Block struct {
	file    string // for errors
	offset  int64
	rows    int
	kind    int
	stride  int
	keys    [record.NumDims]column
	words   []column
	sizes   column
	flags   []byte
	data    []byte // the block
	chunks  []byte // chunk directory
	matches []match

	open    int // chunk that is decompressed in raw, -1 when none is
	raw     []byte
	shuffle []byte
	ends    []uint32 // ends of the payloads of the open chunk, of varied sizes
}

// Rows returns the number of rows.
func (b *Block) Rows() int { return b.rows }

// parse reads the header of a block whose checksum holds. size is the block without the
// checksum; data runs on past it by at least 8 bytes.
func (b *Block) parse(data []byte, size int) error {
	if size < blockHeaderBytes {
		return fmt.Errorf("block of %d bytes", size)
	}
	headerBytes := int(binary.LittleEndian.Uint16(data))
	words := int(binary.LittleEndian.Uint16(data[6:]))
	b.rows, b.kind = int(binary.LittleEndian.Uint16(data[2:])), int(data[4])
	b.stride = int(binary.LittleEndian.Uint32(data[8:]))
	columns := record.NumDims + words
	if b.kind == payloadVaried {
		columns++
	}
	if b.rows == 0 || b.rows > maxBlockRows || b.kind > payloadVaried || words > maxPayloadWords ||
		data[5]&^blockHasFlags != 0 || headerBytes > size ||
		headerBytes != blockHeaderBytes+columns*columnHeaderBytes {
		return fmt.Errorf("block header: %d rows, payload kind %d, %d words", b.rows, b.kind, words)
	}
	if (b.kind == payloadWords) != (words > 0) || words > 0 && b.stride != 8*words {
		return fmt.Errorf("%d words do not make payloads of %d bytes", words, b.stride)
	}
	b.data, b.open = data[:size:size], -1
	for d := range b.keys {
		if err := b.column(&b.keys[d], data, size, d); err != nil {
			return err
		}
		if b.keys[d].kind != columnFOR {
			return fmt.Errorf("column %d of keys is of kind %d", d, b.keys[d].kind)
		}
	}
	if cap(b.words) < words {
		b.words = make([]column, words)
	}
	b.words = b.words[:words]
	for w := range b.words {
		if err := b.column(&b.words[w], data, size, record.NumDims+w); err != nil {
			return err
		}
	}
	return b.parsePayload(data, size)
}

func (b *Block) parsePayload(data []byte, size int) error {
	b.flags, b.chunks = nil, nil
	if data[5]&blockHasFlags != 0 {
		at := uint64(binary.LittleEndian.Uint32(data[12:]))
		need := uint64(b.rows+7) / 8
		if at+need > uint64(size) {
			return fmt.Errorf("flag bitmap ends after the block")
		}
		b.flags = data[at : at+need]
	}
	if b.kind == payloadVaried {
		if err := b.column(&b.sizes, data, size, record.NumDims); err != nil {
			return err
		}
		if b.sizes.kind != columnFOR {
			return fmt.Errorf("sizes of payloads are a column of kind %d", b.sizes.kind)
		}
	}
	if b.kind == payloadFixed || b.kind == payloadVaried {
		at, n := uint64(binary.LittleEndian.Uint32(data[16:])), binary.LittleEndian.Uint32(data[20:])
		if at > uint64(size) || uint64(n) > (uint64(size)-at)/chunkEntryBytes || n == 0 {
			return fmt.Errorf("%d chunks end after the block", n)
		}
		b.chunks = data[at : at+uint64(n)*chunkEntryBytes]
	}
	return nil
}

// column reads column header i.
func (b *Block) column(c *column, data []byte, size, i int) error {
	h := data[blockHeaderBytes+i*columnHeaderBytes:]
	*c = column{kind: h[0], width: h[1], exponent: h[2],
		base: binary.LittleEndian.Uint64(h[8:]), gcd: binary.LittleEndian.Uint64(h[16:])}
	at := uint64(binary.LittleEndian.Uint32(h[4:]))
	if c.kind > columnDec || c.width > maxPackedWidth && c.width != 64 ||
		c.exponent > maxExponent || h[3] != 0 || at > uint64(size) {
		return fmt.Errorf("column %d: kind %d, width %d, offset %d", i, c.kind, c.width, at)
	}
	if c.kind == columnDict {
		if c.gcd == 0 || c.gcd > (uint64(size)-at)/8 {
			return fmt.Errorf("column %d: dictionary of %d entries", i, c.gcd)
		}
		c.dict = data[at : at+8*c.gcd]
		at += 8 * c.gcd
	}
	if uint64(packedSize(b.rows, c.width)) > uint64(size)-at {
		return fmt.Errorf("column %d ends after the block", i)
	}
	c.body = data[at:]
	return nil
}

// checkDictionaries makes sure that every row names an entry that exists.
func (b *Block) checkDictionaries() error {
	for w := range b.words {
		c := &b.words[w]
		if c.kind != columnDict {
			continue
		}
		for i := range b.rows {
			if p := c.packed(i); p >= c.gcd {
				return fmt.Errorf("word %d of row %d names entry %d of %d", w, i, p, c.gcd)
			}
		}
	}
	return nil
}

// Flagged keeps those positions of sel whose row may supersede an older one, in place.
func (b *Block) Flagged(sel []uint32) []uint32 {
	if b.flags == nil {
		return sel[:0]
	}
	kept := sel[:0]
	for _, i := range sel {
		if b.flags[i>>3]>>(i&7)&1 != 0 {
			kept = append(kept, i)
		}
	}
	return kept
}

// chunkOf returns the chunk that holds a row.
func (b *Block) chunkOf(row int) int {
	lo, hi := 0, len(b.chunks)/chunkEntryBytes-1
	for lo < hi {
		mid := (lo + hi + 1) / 2
		if int(binary.LittleEndian.Uint32(b.chunks[mid*chunkEntryBytes:])) <= row {
			lo = mid
		} else {
			hi = mid - 1
		}
	}
	return lo
}

// openChunk decompresses a chunk into raw.
func (b *Block) openChunk(i int) error {
	if b.open == i {
		return nil
	}
	b.open = -1
	e := b.chunks[i*chunkEntryBytes:]
	first, at := int(binary.LittleEndian.Uint32(e)), uint64(binary.LittleEndian.Uint32(e[4:]))
	raw, stored := uint64(binary.LittleEndian.Uint32(e[8:])), uint64(binary.LittleEndian.Uint32(e[12:]))
	end := b.rows
	if next := (i + 1) * chunkEntryBytes; next < len(b.chunks) {
		end = int(binary.LittleEndian.Uint32(b.chunks[next:]))
	}
	if first >= end || end > b.rows || at+stored > uint64(len(b.data)) || stored > raw ||
		raw > stored*256+64 {
		return fmt.Errorf("chunk %d: rows %d to %d, %d bytes from %d", i, first, end, stored, raw)
	}
	if err := b.chunkEnds(first, end, raw); err != nil {
		return fmt.Errorf("chunk %d: %w", i, err)
	}
	src := b.data[at : at+stored]
	if stored == raw {
		b.raw = append(b.raw[:0], src...)
		b.open = i
		return nil
	}
	if uint64(cap(b.raw)) < raw {
		b.raw = make([]byte, raw)
	}
	b.raw = b.raw[:raw]
	n, err := lz4.UncompressBlock(src, b.raw)
	if err != nil || uint64(n) != raw {
		return fmt.Errorf("chunk %d: %d of %d bytes decompress: %w", i, n, raw, err)
	}
	if b.kind == payloadFixed && b.stride > 1 {
		b.shuffle = append(b.shuffle[:0], b.raw...)
		unshuffle(b.raw, b.shuffle, b.stride)
	}
	b.open = i
	return nil
}

// chunkEnds computes where the payloads of a chunk end and checks them against its raw size.
func (b *Block) chunkEnds(first, end int, raw uint64) error {
	if b.kind == payloadFixed {
		if uint64(end-first)*uint64(b.stride) != raw {
			return fmt.Errorf("%d payloads of %d bytes in %d", end-first, b.stride, raw)
		}
		return nil
	}
	b.ends = b.ends[:0]
	total := uint64(0)
	for i := first; i < end; i++ {
		total += b.sizes.value(i)
		if total > raw {
			return fmt.Errorf("payload %d ends after its chunk", i)
		}
		b.ends = append(b.ends, uint32(total))
	}
	if total != raw {
		return fmt.Errorf("%d payload bytes in %d", total, raw)
	}
	return nil
}
