package segment

import (
	"encoding/binary"
	"slices"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pierrec/lz4/v4"
)

const (
	// chunkRows and chunkBytes bound a chunk, because reading one payload decompresses its chunk:
	// 256 payloads of 16 bytes take about a microsecond. A larger payload has a chunk of its own.
	chunkRows  = 256
	chunkBytes = 64 << 10
	// maxShuffled is the largest payload that is shuffled: larger ones are seldom structs.
	maxShuffled = 512

	// chunkEntryBytes is end row u16, method u8, zero u8, end u32 in bytes from the end of the
	// front, raw bytes u32, crc u32 of the stored bytes.
	chunkEntryBytes = 16
)

// Methods of chunks.
const (
	chunkRaw      = 0
	chunkLZ4      = 1
	chunkShuffled = 2 // LZ4 of all first bytes of the payloads, then all second bytes ...
)

// chunkEncoder holds what writing the chunks of one block hands to the next.
type chunkEncoder struct {
	ends           []int // rows after each chunk
	chunkDirectory []byte
	raw            []byte
	shuffled       []byte
	stored         []byte
	lz4            lz4.Compressor
}

// split says where the chunks of a block end. It looks at sizes only.
func (c *chunkEncoder) split(r rowsOf) []int {
	c.ends = c.ends[:0]
	size, from := 0, 0
	for k, i := range r.order {
		next := len(r.RawPayload(int(i)))
		if k > from && (k-from == chunkRows || size+next > chunkBytes) {
			c.ends = append(c.ends, k)
			size, from = 0, k
		}
		size += next
	}
	c.ends = append(c.ends, len(r.order))
	return c.ends
}

// estimate returns what the payloads of a block would take as chunks, from a look at one.
func (c *chunkEncoder) estimate(r rowsOf, stride int) int {
	n := min(len(r.order), chunkRows, max(1, chunkBytes/stride))
	c.gather(r.Batch, r.order[:n])
	stored, _ := c.compress(c.raw, stride, n)
	return int(min(uint64(len(stored))*uint64(len(r.order))/uint64(n), 1<<31-1))
}

// writeChunks writes the chunks that split found and fills the directory.
func (w *sealedWriter) writeChunks(c *chunkEncoder, r rowsOf) error {
	c.chunkDirectory = c.chunkDirectory[:0]
	start, from := w.offset(), 0
	for _, end := range c.ends {
		raw := r.RawPayload(int(r.order[from]))
		stride := len(raw)
		if end-from > 1 {
			stride = c.gather(r.Batch, r.order[from:end])
			raw = c.raw
		}
		stored, method := c.compress(raw, stride, end-from)
		if err := w.append(stored); err != nil {
			return err
		}
		d := binary.LittleEndian.AppendUint16(c.chunkDirectory, uint16(end))
		d = append(d, method, 0)
		d = binary.LittleEndian.AppendUint32(d, uint32(w.offset()-start))
		d = binary.LittleEndian.AppendUint32(d, uint32(len(raw)))
		c.chunkDirectory = binary.LittleEndian.AppendUint32(d, checksum(stored))
		from = end
	}
	return nil
}

// gather copies payloads one after another into raw and returns their size, 0 if it varies.
func (c *chunkEncoder) gather(b *record.Batch, order []uint32) (stride int) {
	c.raw = c.raw[:0]
	stride = len(b.RawPayload(int(order[0])))
	for _, i := range order {
		p := b.RawPayload(int(i))
		if len(p) != stride {
			stride = 0
		}
		c.raw = append(c.raw, p...)
	}
	return stride
}

// compress returns raw as it is to be stored, valid until the next call. It is compressed when
// that saves more than a sixteenth: less is not worth decompressing.
func (c *chunkEncoder) compress(raw []byte, stride, rows int) (stored []byte, method uint8) {
	src, method := raw, uint8(chunkLZ4)
	if stride > 1 && stride <= maxShuffled && rows > 1 {
		c.shuffled = slices.Grow(c.shuffled[:0], len(raw))[:len(raw)]
		shuffle(c.shuffled, raw, stride)
		src, method = c.shuffled, chunkShuffled
	}
	bound := lz4.CompressBlockBound(len(src))
	c.stored = slices.Grow(c.stored[:0], bound)[:bound]
	n, err := c.lz4.CompressBlock(src, c.stored)
	if err != nil || n == 0 || n > len(raw)-len(raw)/16 {
		return raw, chunkRaw
	}
	return c.stored[:n], method
}

// shuffle writes byte k of every item next to each other.
func shuffle(dst, src []byte, stride int) {
	n := len(src) / stride
	for k := range stride {
		out := dst[k*n : (k+1)*n]
		for i := range out {
			out[i] = src[i*stride+k]
		}
	}
}

func unshuffle(dst, src []byte, stride int) {
	n := len(src) / stride
	for k := range stride {
		in := src[k*n : (k+1)*n]
		for i, v := range in {
			dst[i*stride+k] = v
		}
	}
}
