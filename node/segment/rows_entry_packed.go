package segment

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"
	"unsafe"

	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// packedTail is how many zero bytes end a packed entry: any value is read by one load.
	packedTail = loadBytes
	// packedWords is the longest payload that is packed. An entry of equal rows is small whatever
	// their number, and so it is known how much memory a reader takes for one.
	packedWords = 8
	// maxPackerBytes is what a packer may keep for the next entry.
	maxPackerBytes = 4 << 20
)

// rowsPacker packs columns; its memory goes from one entry to the next.
type rowsPacker struct {
	values, spare []uint64
	packed        []byte
}

var rowsPackers = sync.Pool{New: func() any { return new(rowsPacker) }}

// canPack reports whether so many rows may be packed.
func canPack(rows uint64) bool { return 0 < rows && rows <= record.MaxBatchRecords }

// splitsWords reports whether payloads of a length are packed by words.
func splitsWords(stride uint32) bool {
	return stride%wordBytes == 0 && 0 < stride && stride <= packedWords*wordBytes
}

// appendPackedRows appends what follows the header of a packed entry. How much that is is known
// when it is there, and is a small part of the most that it can be: entries wait in memory for all
// who are to have them, so they take no more than they need.
func appendPackedRows(dst []byte, b *record.Batch, rows []uint32, n int, tombs bool) []byte {
	p := rowsPackers.Get().(*rowsPacker)
	defer rowsPackers.Put(p)
	packed := p.appendKeys(p.packed[:0], b, rows)
	if tombs {
		packed = appendTombs(packed, b, rows, n)
	}
	if b.Offsets == nil && splitsWords(uint32(b.Stride)) {
		packed = p.appendWords(packed, b, rows, n)
	} else {
		packed = appendPayloads(packed, b, rows)
	}
	packed = append(packed, make([]byte, packedTail)...)
	dst = append(slices.Grow(dst, len(packed)), packed...)
	if p.packed = packed; cap(packed) > maxPackerBytes {
		p.packed = nil
	}
	return dst
}

// appendKeys appends the packed key columns of rows.
func (p *rowsPacker) appendKeys(dst []byte, b *record.Batch, rows []uint32) []byte {
	dst = appendColumn(p, dst, b.MID, rows)
	dst = appendColumn(p, dst, b.CapNs, rows)
	dst = appendColumn(p, dst, b.CID, rows)
	return appendColumn(p, dst, b.MOID, rows)
}

// appendColumn appends the header and the packed values of a key column.
func appendColumn[T int32 | int64](p *rowsPacker, dst []byte, column []T, rows []uint32) []byte {
	lo, hi := int64(math.MaxInt64), int64(math.MinInt64)
	n := len(column)
	if rows != nil {
		n = len(rows)
	}
	values := slices.Grow(p.values[:0], n)[:n]
	if rows == nil {
		for k, x := range column {
			v := int64(x)
			values[k] = uint64(v)
			lo, hi = min(lo, v), max(hi, v)
		}
	} else {
		for k, i := range rows {
			v := int64(column[i])
			values[k] = uint64(v)
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	p.values = values
	f := rebase(values, lo, hi)
	return appendPacked(appendFOR(dst, &f), values, f.width)
}

// appendWords appends the payloads of rows, a column for each word.
func (p *rowsPacker) appendWords(dst []byte, b *record.Batch, rows []uint32, n int) []byte {
	values := slices.Grow(p.values[:0], n)[:n]
	p.values = values
	for at := 0; at < b.Stride; at += wordBytes {
		lo, hi := uint64(math.MaxUint64), uint64(0)
		for k := range values {
			i := k
			if rows != nil {
				i = int(rows[k])
			}
			v := binary.LittleEndian.Uint64(b.Data[i*b.Stride+at:])
			values[k] = v
			lo, hi = min(lo, v), max(hi, v)
		}
		dst = p.appendWord(dst, values, lo, hi)
	}
	return dst
}

// appendWord appends the column of a word of each payload, with its least and greatest value.
func (p *rowsPacker) appendWord(dst []byte, values []uint64, lo, hi uint64) []byte {
	f := forCoding{base: lo, gcd: 1}
	if hi > lo {
		f.width = widthOf(hi - lo)
	}
	if f.width > minWordWidth {
		d, packed, exponent, ok := decimals(values, p.spare)
		if p.spare = packed; ok && d.width < f.width {
			dst = appendFOR(append(dst, columnDec, exponent), &d)
			return appendPacked(dst, packed, d.width)
		}
	}
	if f.width == 64 {
		f.base = 0
	} else {
		for k := range values {
			values[k] -= lo
		}
	}
	return appendPacked(appendFOR(append(dst, columnFOR), &f), values, f.width)
}

// packedReader reads the columns of a packed entry.
type packedReader struct {
	src []byte // with packedTail at its end
	n   int
}

// next reads the header of a column and returns it; its values are checked to be there.
func (r *packedReader) next() (c column, ok bool) {
	rest, ok := c.parseFOR(r.src)
	if !ok {
		return c, false
	}
	size := (uint64(r.n)*uint64(c.width) + 7) / 8
	if uint64(len(rest)) < size+packedTail {
		return c, false
	}
	c.body, r.src = rest, rest[size:]
	return c, true
}

// nextWord is next for the column of a word, whose kind comes first.
func (r *packedReader) nextWord() (c column, ok bool) {
	if len(r.src) < 2 {
		return c, false
	}
	var kind, exponent uint8
	switch kind = r.src[0]; kind {
	case columnFOR:
		r.src = r.src[1:]
	case columnDec:
		exponent, r.src = r.src[1], r.src[2:]
	default:
		return c, false
	}
	if int(exponent) >= len(powersOf10) {
		return c, false
	}
	c, ok = r.next()
	c.kind, c.exponent = kind, exponent
	return c, ok
}

// wide reads a column of 64 bits into the memory of dst.
func (r *packedReader) wide(dst []int64) ([]int64, bool) {
	c, ok := r.next()
	if !ok {
		return dst, false
	}
	dst = slices.Grow(dst[:0], r.n)[:r.n]
	c.write(&positions{spans: []Span{{0, uint32(r.n)}}, n: r.n},
		&wordWriter{out: unsafe.Pointer(unsafe.SliceData(dst)), stride: wordBytes})
	return dst, true
}

// narrow reads a column of 32 bits into the memory of dst.
func (r *packedReader) narrow(dst []int32) ([]int32, bool) {
	c, ok := r.next()
	if !ok {
		return dst, false
	}
	dst = slices.Grow(dst[:0], r.n)[:r.n]
	width, body, beyond := uint(c.width), c.bodyStart(), false
	for k := range dst {
		v := c.base + c.gcd*(loadBits(body, uint(k)*width)&c.maxPacked)
		beyond = beyond || int64(int32(v)) != int64(v)
		dst[k] = int32(v)
	}
	return dst, !beyond
}

// keys reads the key columns of a packed entry.
func (r *packedReader) keys(b *record.Batch) (ok bool) {
	if b.MID, ok = r.wide(b.MID); !ok {
		return false
	}
	if b.CapNs, ok = r.wide(b.CapNs); !ok {
		return false
	}
	if b.CID, ok = r.narrow(b.CID); !ok {
		return false
	}
	b.MOID, ok = r.narrow(b.MOID)
	return ok
}

// words reads payloads that are packed by words.
func (r *packedReader) words(stride int, b *record.Batch) bool {
	b.Stride, b.Offsets = stride, nil
	b.Data = slices.Grow(b.Data[:0], r.n*stride)[:r.n*stride]
	for at := 0; at < stride; at += wordBytes {
		c, ok := r.nextWord()
		if !ok {
			return false
		}
		w := newWordWriter(b.Data[at:], r.n, stride)
		c.write(&positions{spans: []Span{{0, uint32(r.n)}}, n: r.n}, &w)
	}
	return true
}

// packedShape is what the header of a packed entry says of its rows.
type packedShape struct {
	rows         uint64
	stride       uint32
	flags        uint32
	payloadBytes uint64
}

// parsePackedRows reads what follows the header of a packed entry.
func parsePackedRows(src []byte, h *RowsHeader, s packedShape, b *record.Batch) error {
	if !canPack(s.rows) || h.HasAcqs {
		return fmt.Errorf("packed rows entry of %d rows; it has 1 to %d, without acquisition times",
			s.rows, record.MaxBatchRecords)
	}
	end := len(src) - packedTail
	if end < 0 || binary.LittleEndian.Uint64(src[end:]) != 0 {
		return fmt.Errorf("packed rows entry does not end in %d zero bytes", packedTail)
	}
	n := int(s.rows)
	r := packedReader{src: src, n: n}
	if !r.keys(b) {
		return fmt.Errorf("packed rows entry: no keys of %d rows in %d bytes", n, len(src))
	}
	if _, err := parseAcqs(nil, h, b, n); err != nil {
		return err
	}
	tombBytes := uint64(s.flags&rowsHaveTombs) * ((s.rows + 7) / 8)
	if uint64(len(r.src)-packedTail) < tombBytes {
		return fmt.Errorf("packed rows entry of %d bytes ends inside its tombstones", len(src))
	}
	var err error
	if b.Tombs, err = parseTombs(b.Tombs, r.src[:tombBytes], n); err != nil {
		return err
	}
	r.src = r.src[tombBytes:]
	if splitsWords(s.stride) {
		if s.payloadBytes == s.rows*uint64(s.stride) && r.words(int(s.stride), b) &&
			len(r.src) == packedTail {
			return nil
		}
	} else if left := uint64(len(r.src) - packedTail); s.payloadBytes <= left &&
		left-s.payloadBytes == s.sizesBytes() {
		return parsePayloads(r.src[:left], n, s.stride, b)
	}
	return fmt.Errorf("packed rows entry of %d bytes cannot hold the %d of %d payloads", len(src),
		s.payloadBytes, n)
}

// sizesBytes returns how many bytes the sizes of the payloads take.
func (s *packedShape) sizesBytes() uint64 {
	if s.stride == variedPayloads {
		return 4 * s.rows
	}
	return 0
}
