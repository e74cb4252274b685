package wire

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pierrec/lz4/v4"
)

// Codecs of payloads, PROTOCOL.md section 4.
const (
	payloadNone  = 0 // every payload is empty
	payloadWords = 1 // one column per 8-byte word
	payloadRaw   = 2 // bytes as they are
	payloadLZ4   = 3 // one LZ4 block
)

// Flags of a batch.
const (
	flagAcq   = 1 // rows are stamped
	flagTombs = 2 // a bitmap says which rows are tombstones
)

// maxWords is the longest payload that is split into columns of words.
const maxWords = 16

// MaxRows is how many rows one frame holds at most.
const MaxRows = record.MaxBatchRecords

type codec struct {
	columns
	in      []uint64
	compact lz4.Compressor
	lz      []byte
}

var codecs = sync.Pool{New: func() any { return new(codec) }}

// appendBatch appends rows u32, flags u8, payload codec u8, zero u16, stride u32, then the columns
// cid, mid, moid, cap, with flagAcq acq, with flagTombs a bitmap, and the payloads.
func appendBatch(dst []byte, b *record.Batch) ([]byte, error) {
	if err := b.CheckShape(); err != nil {
		return nil, err
	}
	n := b.Len()
	if n == 0 || n > MaxRows {
		return nil, fmt.Errorf("encode batch: %d rows; a frame holds 1 to %d", n, MaxRows)
	}
	if err := checkPayloads(b); err != nil {
		return nil, err
	}
	c := codecs.Get().(*codec)
	defer codecs.Put(c)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
	kindAt := len(dst) + 1
	flags := byte(0)
	if b.AcqNs != nil {
		flags = flagAcq
	}
	tombs := b.CountTombs() > 0
	if tombs {
		flags |= flagTombs
	}
	dst = append(dst, flags, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(b.Stride))
	dst = c.append(dst, load(c, b.CID))
	dst = c.append(dst, load(c, b.MID))
	dst = c.append(dst, load(c, b.MOID))
	dst = c.append(dst, load(c, b.CapNs))
	if b.AcqNs != nil {
		dst = c.append(dst, load(c, b.AcqNs))
	}
	if tombs {
		dst = appendTombs(dst, b)
	}
	dst, kind := c.appendPayloads(dst, b)
	dst[kindAt] = kind
	return dst, nil
}

// appendTombs appends a bit per row, the first in the lowest bit of the first byte.
func appendTombs(dst []byte, b *record.Batch) []byte {
	for i := 0; i < b.Len(); i += 8 {
		bits := byte(0)
		if word := i >> 6; word < len(b.Tombs) {
			bits = byte(b.Tombs[word] >> (i & 63))
		}
		dst = append(dst, bits)
	}
	return dst
}

func parseTombs(d *decoder, b *record.Batch) error {
	n := b.Len()
	bits := d.take(uint64(n+7) / 8)
	if d.short {
		return badFrame("batch ends inside its tombstones")
	}
	if last := bits[len(bits)-1]; n&7 != 0 && last>>(n&7) != 0 {
		return badFrame("tombstones beyond the %d rows of a batch", n)
	}
	for i, v := range bits {
		if i&7 == 0 {
			b.Tombs = append(b.Tombs, 0)
		}
		b.Tombs[i>>3] |= uint64(v) << (i & 7 * 8)
	}
	return nil
}

// checkPayloads refuses what no reader takes.
func checkPayloads(b *record.Batch) error {
	largest := uint32(min(b.Stride, record.MaxPayloadBytes+1))
	for i := 1; i < len(b.Offsets); i++ {
		largest = max(largest, b.Offsets[i]-b.Offsets[i-1])
	}
	if largest > record.MaxPayloadBytes {
		return fmt.Errorf("encode batch: a payload has over %d bytes", record.MaxPayloadBytes)
	}
	if len(b.Data) > record.MaxBatchBytes {
		return fmt.Errorf("encode batch: %d payload bytes, at most %d", len(b.Data),
			record.MaxBatchBytes)
	}
	return nil
}

func load[T int32 | int64](c *codec, values []T) []uint64 {
	c.in = slices.Grow(c.in[:0], len(values))[:len(values)]
	for i, v := range values {
		c.in[i] = uint64(int64(v))
	}
	return c.in
}

// appendPayloads appends payloads: sizes first when they vary, then the bytes in the codec that
// is returned. Words are tried first because they are ten times cheaper than LZ4.
func (c *codec) appendPayloads(dst []byte, b *record.Batch) ([]byte, byte) {
	if len(b.Data) == 0 && b.Offsets == nil {
		return dst, payloadNone
	}
	start := len(dst)
	if b.Offsets == nil && b.Stride%8 == 0 && b.Stride <= 8*maxWords {
		for w := 0; w < b.Stride; w += 8 {
			dst = c.append(dst, c.word(b, w))
		}
		if (len(dst)-start)*4 <= len(b.Data)*3 {
			return dst, payloadWords
		}
		dst = dst[:start]
	}
	if b.Offsets != nil {
		c.in = c.in[:0]
		for i := range b.Len() {
			c.in = append(c.in, uint64(b.Offsets[i+1]-b.Offsets[i]))
		}
		dst = c.append(dst, c.in)
	}
	if need := lz4.CompressBlockBound(len(b.Data)); cap(c.lz) < need {
		c.lz = make([]byte, need)
	}
	n, err := c.compact.CompressBlock(b.Data, c.lz[:cap(c.lz)])
	if err != nil || n == 0 || n >= len(b.Data) {
		return append(dst, b.Data...), payloadRaw
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(b.Data)))
	return append(dst, c.lz[:n]...), payloadLZ4
}

func (c *codec) word(b *record.Batch, at int) []uint64 {
	n := b.Len()
	c.in = slices.Grow(c.in[:0], n)[:n]
	for i := range c.in {
		c.in[i] = binary.LittleEndian.Uint64(b.Data[i*b.Stride+at:])
	}
	return c.in
}

// parseBatch reads what appendBatch wrote into b, reusing its memory. It checks the shape of the
// batch, not its values.
func parseBatch(src []byte, b *record.Batch, needs func(bytes uint64) error) error {
	c := codecs.Get().(*codec)
	defer codecs.Put(c)
	return c.parseBatch(src, b, needs)
}

func (c *codec) parseBatch(
	src []byte, b *record.Batch, needs func(bytes uint64) error,
) error {
	d := &decoder{src: src}
	rows, flags, kind := d.u32(), d.u8(), d.u8()
	zero, stride := d.u16(), d.u32()
	if d.short || rows == 0 || rows > MaxRows || flags&^(flagAcq|flagTombs) != 0 || zero != 0 {
		return badFrame("batch of %d rows, flags %#x; a frame holds 1 to %d rows", rows, flags,
			MaxRows)
	}
	n := int(rows)
	stamped, offsets := b.AcqNs, b.Offsets
	b.Reset()
	b.AcqNs = nil
	var err error
	if b.CID, err = c.keys32(d, n, b.CID, record.CID); err != nil {
		return err
	}
	if b.MID, err = c.keys64(d, n, b.MID); err != nil {
		return err
	}
	if b.MOID, err = c.keys32(d, n, b.MOID, record.MOID); err != nil {
		return err
	}
	if b.CapNs, err = c.keys64(d, n, b.CapNs); err != nil {
		return err
	}
	if flags&flagAcq != 0 {
		if b.AcqNs, err = c.keys64(d, n, stamped[:0]); err != nil {
			return err
		}
	}
	if flags&flagTombs != 0 {
		if err := parseTombs(d, b); err != nil {
			return err
		}
	}
	return c.parsePayloads(d, b, kind, stride, offsets, needs)
}

func (c *codec) keys32(d *decoder, n int, out []int32, dim record.Dim) ([]int32, error) {
	if err := c.parse(d, n); err != nil {
		return nil, err
	}
	out = slices.Grow(out, n)
	for i, v := range c.values {
		if int64(int32(v)) != int64(v) {
			return nil, badFrame("%v of row %d does not fit 32 bits", dim, i)
		}
		out = append(out, int32(v))
	}
	return out, nil
}

func (c *codec) keys64(d *decoder, n int, out []int64) ([]int64, error) {
	if err := c.parse(d, n); err != nil {
		return nil, err
	}
	out = slices.Grow(out, n)
	for _, v := range c.values {
		out = append(out, int64(v))
	}
	return out, nil
}

// parsePayloads reads payloads; offsets is memory for those of payloads that vary.
func (c *codec) parsePayloads(
	d *decoder, b *record.Batch, kind uint8, stride uint32, offsets []uint32,
	needs func(bytes uint64) error,
) error {
	n := b.Len()
	if stride > record.MaxPayloadBytes {
		return &Error{Kind: KindTooLarge, Part: "payload", Reason: string(record.TooLarge),
			Message: fmt.Sprintf("payloads of %d bytes, at most %d", stride,
				record.MaxPayloadBytes)}
	}
	switch kind {
	case payloadNone:
		if stride != 0 {
			return badFrame("payloads of %d bytes are missing", stride)
		}
		return d.end("batch")
	case payloadWords:
		return c.parseWords(d, b, stride, needs)
	case payloadRaw, payloadLZ4:
	default:
		return badFrame("payload codec %d; version 1 has 0 to 3", kind)
	}
	want := uint64(stride) * uint64(n)
	if stride == 0 {
		var err error
		if want, err = c.parseSizes(d, b, offsets); err != nil {
			return err
		}
	}
	if want > record.MaxBatchBytes {
		return &Error{Kind: KindTooLarge, Part: "payload", Reason: string(record.TooLarge),
			Message: fmt.Sprintf("%d payload bytes, at most %d", want, record.MaxBatchBytes)}
	}
	b.Stride = int(stride)
	if kind == payloadRaw {
		if uint64(len(d.src)) != want {
			return badFrame("%d payload bytes, %d announced", len(d.src), want)
		}
		if err := ask(needs, want); err != nil {
			return err
		}
		b.Data = append(b.Data[:0], d.src...)
		return nil
	}
	if err := ask(needs, want); err != nil {
		return err
	}
	return inflate(d, b, want)
}

// ask asks for memory for payloads; needs may be nil.
func ask(needs func(bytes uint64) error, bytes uint64) error {
	if needs == nil {
		return nil
	}
	return needs(bytes)
}

// maxRatio is the most that an LZ4 block can grow: 255 bytes out of one.
const maxRatio = 255

func inflate(d *decoder, b *record.Batch, want uint64) error {
	if size := uint64(d.u32()); d.short || size != want {
		return badFrame("%d payload bytes are announced, sizes say %d", size, want)
	}
	if want > uint64(len(d.src))*maxRatio {
		return badFrame("%d bytes cannot hold %d payload bytes", len(d.src), want)
	}
	b.Data = slices.Grow(b.Data[:0], int(want))[:want]
	got, err := lz4.UncompressBlock(d.src, b.Data)
	if err != nil || uint64(got) != want {
		return badFrame("payloads do not decompress to %d bytes", want)
	}
	return nil
}

func (c *codec) parseWords(
	d *decoder, b *record.Batch, stride uint32, needs func(bytes uint64) error,
) error {
	if stride == 0 || stride%8 != 0 || stride > 8*maxWords {
		return badFrame("payloads of %d bytes are not 1 to %d words", stride, maxWords)
	}
	n, size := b.Len(), int(stride)
	b.Stride = size
	if err := ask(needs, uint64(n)*uint64(size)); err != nil {
		return err
	}
	b.Data = slices.Grow(b.Data[:0], n*size)[:n*size]
	for w := 0; w < size; w += 8 {
		if err := c.parse(d, n); err != nil {
			return err
		}
		for i, v := range c.values {
			binary.LittleEndian.PutUint64(b.Data[i*size+w:], v)
		}
	}
	return d.end("batch")
}

// parseSizes reads the sizes of payloads that vary, into offsets.
func (c *codec) parseSizes(
	d *decoder, b *record.Batch, offsets []uint32,
) (total uint64, err error) {
	if err := c.parse(d, b.Len()); err != nil {
		return 0, err
	}
	b.Offsets = append(slices.Grow(offsets[:0], len(c.values)+1), 0)
	for i, size := range c.values {
		if size > record.MaxPayloadBytes {
			return 0, &Error{Kind: KindTooLarge, Part: "payload", Reason: string(record.TooLarge),
				Message: fmt.Sprintf("payload %d has %d bytes, at most %d",
					i, size, record.MaxPayloadBytes)}
		}
		if total += size; total > record.MaxBatchBytes {
			break
		}
		b.Offsets = append(b.Offsets, uint32(total))
	}
	return total, nil
}
