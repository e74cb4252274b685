package segment

import (
	"fmt"
	"math"
	"slices"

	"github.com/pentad-db/pentad/sdk/record"
)

// Gather appends the rows at the positions of sel, which ascend, to dst, with ranks where
// acquisition times go, and without payloads when keysOnly is set.
//
// Errors: damage of a payload chunk, a *durable.CorruptError; more than 4 GiB of payloads in dst.
// dst is then as it was.
// Cost: about 2 ns a column and row, a fifth of it in runs that vectors decode; no allocation when
// dst has space.
func (b *Block) Gather(sel []uint32, keysOnly bool, dst *record.Batch) error {
	return b.GatherColumns(sel, nil, columnsOf(keysOnly), dst)
}

// GatherSpan is Gather for the positions [lo, hi).
func (b *Block) GatherSpan(lo, hi int, keysOnly bool, dst *record.Batch) error {
	if lo >= hi {
		return nil
	}
	b.span[0] = Span{uint32(lo), uint32(hi)}
	return b.GatherColumns(nil, b.span[:], columnsOf(keysOnly), dst)
}

// Span is the positions [Lo, Hi).
type Span struct{ Lo, Hi uint32 }

// Columns is a set of parts of rows: a bit 1<<d for each [record.Dim] d, and Payloads. The words of
// payloads that are wanted are in the upper bits, in words of 8 bytes, 0 for all; see
// [Columns.PayloadPrefix].
type Columns uint16

// Sets of columns. SeriesRuns is tenants, devices and quantities as [record.Batch.Series] where
// blocks have them so and their runs are long, else as columns.
const (
	Payloads   Columns = 1 << record.NumDims
	Keys       Columns = Payloads - 1
	AllColumns Columns = Keys | Payloads
	SeriesRuns Columns = 1 << (record.NumDims + 1)

	seriesColumns Columns = 1<<record.CID | 1<<record.MID | 1<<record.MOID
)

const (
	prefixShift = 8
	wordBytes   = 8
)

// PayloadPrefix returns p with no more than the first bytes of payloads; 0 bytes are all. Blocks
// may hand out more of them where that takes no time.
func (p Columns) PayloadPrefix(bytes uint32) Columns {
	p &= AllColumns | SeriesRuns
	if p&Payloads == 0 || bytes == 0 || bytes > maxPayloadWords*wordBytes {
		return p
	}
	return p | Columns((bytes+wordBytes-1)/wordBytes)<<prefixShift
}

// Union returns what is in p or in q.
func (p Columns) Union(q Columns) Columns {
	both := (p | q) & (AllColumns | SeriesRuns)
	switch {
	case p&Payloads == 0:
		return both | q>>prefixShift<<prefixShift
	case q&Payloads == 0:
		return both | p>>prefixShift<<prefixShift
	case p>>prefixShift == 0 || q>>prefixShift == 0:
		return both
	}
	return both | max(p>>prefixShift, q>>prefixShift)<<prefixShift
}

// WithoutRuns returns p with columns in the place of SeriesRuns.
func (p Columns) WithoutRuns() Columns {
	if p&SeriesRuns == 0 {
		return p
	}
	return p&^SeriesRuns | seriesColumns
}

func columnsOf(keysOnly bool) Columns {
	if keysOnly {
		return Keys
	}
	return AllColumns
}

// GatherColumns is Gather, or with a nil sel the same for spans, none of them empty, that reads
// only some columns: other columns get the right length and whatever values, and without acq the
// rows are unstamped. All rows of a batch are gathered with the same columns.
func (b *Block) GatherColumns(
	sel []uint32, spans []Span, columns Columns, dst *record.Batch,
) error {
	if b.runs.count > 0 && len(sel) > 0 && !b.oneByOne(columns) {
		sel, spans = b.spansOf(sel)
	}
	p := positions{sel: sel, spans: spans, n: len(sel), prefetchQueue: b.prefetchQueue}
	if sel == nil {
		for _, s := range spans {
			p.n += int(s.Hi - s.Lo)
		}
		if len(spans) > 1 && b.oneByOne(columns) {
			b.sel = slices.Grow(b.sel[:0], p.n)
			for _, s := range spans {
				for i := s.Lo; i < s.Hi; i++ {
					b.sel = append(b.sel, i)
				}
			}
			p.sel = b.sel
		}
	}
	return b.gather(p, columns, dst)
}

// spanRows is how many positions spans have at least on average that are gathered in their place.
const spanRows = 16

// spansOf returns positions as spans, valid until the next call, if these are long.
func (b *Block) spansOf(sel []uint32) ([]uint32, []Span) {
	b.spans = b.spans[:0]
	most := len(sel) / spanRows
	for from := 0; from < len(sel); {
		to := from + 1
		for to < len(sel) && sel[to] == sel[to-1]+1 {
			to++
		}
		if len(b.spans) == most {
			return sel, nil
		}
		b.spans = append(b.spans, Span{sel[from], sel[to-1] + 1})
		from = to
	}
	return nil, b.spans
}

// oneByOne reports whether something is gathered that asks for each position by its number.
func (b *Block) oneByOne(columns Columns) bool {
	return b.tombs != nil ||
		columns&Payloads != 0 && (b.kind == payloadFixedChunks || b.kind == payloadVariableChunks)
}

// positions are the n of sel, or those of spans when sel is nil.
type positions struct {
	sel           []uint32
	spans         []Span
	n             int
	prefetchQueue *PrefetchQueue // nil for none
	pieces        []piece        // of a block with runs, once they are needed
}

// at returns position k where there is sel or one span.
func (p *positions) at(k int) int {
	if p.sel == nil {
		return int(p.spans[0].Lo) + k
	}
	return int(p.sel[k])
}

func (b *Block) gather(p positions, columns Columns, dst *record.Batch) error {
	if p.n == 0 {
		return nil
	}
	start := dst.Len()
	if start == 0 {
		dst.Data, dst.Tombs = dst.Data[:0], dst.Tombs[:0]
	}
	if columns&Payloads == 0 || b.kind == payloadEmpty {
		growPayloads(dst, start, p.n, 0)
	} else if err := b.gatherPayloads(&p, int(columns>>prefixShift), dst, start); err != nil {
		return err
	}
	if b.tombs != nil {
		b.gatherTombs(&p, dst, start)
	}
	if columns&SeriesRuns != 0 && !b.gatherSeries(&p, dst, start) {
		dst.FillKeys()
		columns = columns.WithoutRuns()
	}
	dst.CID = gatherNarrow(b, record.CID, columns, &p, dst.CID)
	dst.MID = gatherWide(b, record.MID, columns, &p, dst.MID)
	dst.MOID = gatherNarrow(b, record.MOID, columns, &p, dst.MOID)
	dst.CapNs = gatherWide(b, record.Cap, columns, &p, dst.CapNs)
	if columns>>record.Acq&1 == 0 {
		dst.AcqNs = nil
		return nil
	}
	dst.AcqNs = gatherWide(b, record.Acq, columns, &p, dst.AcqNs)
	return nil
}

func (b *Block) gatherTombs(p *positions, dst *record.Batch, start int) {
	for k := range p.n {
		if b.Tomb(p.at(k)) {
			dst.SetTomb(start + k)
		}
	}
}

// gatherWide appends values of a key column of 64 bits, or only makes space for them.
func gatherWide(b *Block, d record.Dim, columns Columns, p *positions, dst []int64) []int64 {
	at := len(dst)
	dst = slices.Grow(dst, p.n)[:at+p.n]
	switch {
	case columns>>d&1 == 0:
	case b.runs.count > 0:
		b.writeRuns(d, p, dst[at:])
	case b.hasSubRuns(d):
		b.writeSubRuns(d, p, dst[at:])
	default:
		w := wordWriterOf(dst[at:])
		b.keys[d].write(p, &w)
	}
	return dst
}

// gatherNarrow is gatherWide for a column of 32 bits.
func gatherNarrow(b *Block, d record.Dim, columns Columns, p *positions, dst []int32) []int32 {
	c, at := &b.keys[d], len(dst)
	dst = slices.Grow(dst, p.n)[:at+p.n]
	if columns>>d&1 == 0 {
		return dst
	}
	out := dst[at:]
	switch {
	case c.width == 0:
		fillNarrow(out, int32(c.base))
	case b.runs.count > 0:
		b.writeNarrow(c, p, out)
	case p.sel == nil:
		gatherSpans(c, p.spans, out)
	default:
		gatherSelected(c, p.sel, out)
	}
	return dst
}

// growPayloads makes space in dst, which holds start rows, for n payloads of size bytes and
// returns the space. dst stays dense as long as all its payloads have one size.
func growPayloads(dst *record.Batch, start, n, size int) []byte {
	if start == 0 {
		dst.Stride, dst.Offsets = size, nil
	}
	at := len(dst.Data)
	dst.Data = slices.Grow(dst.Data, n*size)[:at+n*size]
	if dst.Offsets == nil && dst.Stride == size {
		return dst.Data[at:]
	}
	growOffsets(dst, start, n)
	end := uint32(at)
	for range n {
		end += uint32(size)
		dst.Offsets = append(dst.Offsets, end)
	}
	return dst.Data[at:]
}

// growOffsets gives dst offsets, with space for n more.
func growOffsets(dst *record.Batch, start, n int) {
	if dst.Offsets != nil {
		dst.Offsets = slices.Grow(dst.Offsets, n)
		return
	}
	dst.Offsets = make([]uint32, start+1, start+n+1)
	for i := range dst.Offsets {
		dst.Offsets[i] = uint32(i * dst.Stride)
	}
	dst.Stride = 0
}

// gatherPayloads appends payloads to dst, which holds start rows; of those that are split into
// words so many of them, or with 0 all.
func (b *Block) gatherPayloads(p *positions, words int, dst *record.Batch, start int) error {
	total := b.payloadBytesOf(p)
	if total > math.MaxUint32 || uint64(len(dst.Data))+total > math.MaxUint32 {
		if err := b.verify(); err != nil { // sizes may be large because they are damaged
			return err
		}
		return fmt.Errorf("gather %d payloads of %d bytes: a batch holds 4 GiB at most", p.n, total)
	}
	if b.kind == payloadFixedColumns {
		if words == 0 || words > len(b.wordColumns) {
			words = len(b.wordColumns)
		}
		stride := words * wordBytes
		out := growPayloads(dst, start, p.n, stride)
		for w := range words {
			to := newWordWriter(out[w*wordBytes:], p.n, stride)
			b.wordColumns[w].write(p, &to)
		}
		return nil
	}
	return b.gatherChunks(p, total, dst, start)
}

// payloadBytesOf returns the size of the payloads at the positions.
func (b *Block) payloadBytesOf(p *positions) uint64 {
	if b.kind != payloadVariableChunks {
		return uint64(b.stride) * uint64(p.n)
	}
	total := uint64(0)
	for k := range p.n {
		total += min(b.sizes.value(p.at(k)), math.MaxUint32+1)
	}
	return total
}

// maxTrusted is how many bytes space is made for at once by sizes that may be damaged.
const maxTrusted = 64 << 20

// gatherChunkSpan is gatherChunks for neighbours of one size.
func (b *Block) gatherChunkSpan(s Span, dst *record.Batch, start int) error {
	at := len(dst.Data)
	data := slices.Grow(dst.Data, min((int(s.Hi)-int(s.Lo))*b.stride, maxTrusted))
	for row := int(s.Lo); row < int(s.Hi); {
		if row < b.open.first || row >= b.open.end {
			if err := b.openRow(row); err != nil {
				return err
			}
		}
		end := min(b.open.end, int(s.Hi))
		data = append(data,
			b.open.raw[(row-b.open.first)*b.stride:(end-b.open.first)*b.stride]...)
		row = end
	}
	dst.Data = data[:at]
	growPayloads(dst, start, int(s.Hi)-int(s.Lo), b.stride) // finds the bytes where data left them
	return nil
}

// gatherChunks is gatherPayloads for payloads in chunks. These are checked before dst changes its
// shape; most selections are in one or two.
func (b *Block) gatherChunks(p *positions, total uint64, dst *record.Batch, start int) error {
	if p.sel == nil && len(p.spans) == 1 && b.kind == payloadFixedChunks {
		return b.gatherChunkSpan(p.spans[0], dst, start)
	}
	data, at := slices.Grow(dst.Data, int(min(total, maxTrusted))), len(dst.Data)
	b.lengths = b.lengths[:0]
	for k := range p.n {
		row := p.at(k)
		if row < b.open.first || row >= b.open.end {
			if err := b.openRow(row); err != nil {
				return err
			}
		}
		payload := b.openPayload(row)
		data = append(data, payload...)
		b.lengths = append(b.lengths, uint32(len(payload)))
	}
	if uint64(len(data)) > math.MaxUint32 {
		return b.sealed.corrupt(b.offset, "sizes of payloads are damaged")
	}
	dst.Data = data[:at]
	if b.kind == payloadFixedChunks {
		growPayloads(dst, start, p.n, b.stride) // finds space and bytes where data left them
		return nil
	}
	if start == 0 {
		dst.Stride, dst.Offsets = 0, append(dst.Offsets[:0], 0)
	}
	growOffsets(dst, start, p.n)
	dst.Data = data
	end := uint32(at)
	for _, size := range b.lengths {
		end += size
		dst.Offsets = append(dst.Offsets, end)
	}
	return nil
}
