package segment

import (
	"encoding/binary"
	"slices"

	"github.com/pentad-db/pentad/sdk/record"
)

const (
	// denseShare: where one in this number of the rows of a span is wanted, or more, it is faster
	// to decode all of them, by vectors, and to copy those.
	denseShare = 6
	denseRows  = 1024 // that are decoded at once, so that they stay in the caches
)

// GatherDense is GatherColumns for a sel of many of the rows between its ends, where it is faster
// to decode all of them into scratch first. It is not ok, and has done nothing, where it is not.
func (b *Block) GatherDense(
	sel []uint32, columns Columns, scratch, dst *record.Batch,
) (ok bool, err error) {
	rows := len(sel)
	if rows == 0 || b.tombs != nil || int(sel[rows-1]-sel[0])+1 > rows*denseShare {
		return false, nil
	}
	columns = columns.WithoutRuns()
	payloads, stride := columns&Payloads != 0 && b.kind != payloadEmpty, 0
	if payloads {
		stride = b.stride
		words := int(columns >> prefixShift)
		if words > 0 && b.kind == payloadFixedColumns {
			stride = min(stride, words*wordBytes)
		}
	}
	if payloads && b.kind == payloadVariableChunks ||
		dst.Len() > 0 && (dst.Offsets != nil || dst.Stride != stride) {
		return false, nil
	}
	dst.FillKeys()
	if dst.Len() == 0 {
		dst.Data, dst.Tombs, dst.Offsets, dst.Stride = dst.Data[:0], dst.Tombs[:0], nil, stride
	}
	for len(sel) > 0 {
		lo, n := sel[0], len(sel)
		if sel[n-1] >= lo+denseRows {
			n, _ = slices.BinarySearch(sel, lo+denseRows)
		}
		scratch.Reset()
		b.span[0] = Span{lo, sel[n-1] + 1}
		if err := b.GatherColumns(nil, b.span[:], columns, scratch); err != nil {
			return false, err
		}
		pickRows(scratch, dst, sel[:n], lo, columns)
		sel = sel[n:]
	}
	return true, nil
}

// pickRows appends rows to a batch: of each column, or where it is not wanted as many values.
func pickRows(src, dst *record.Batch, sel []uint32, lo uint32, columns Columns) {
	has := func(d record.Dim) bool { return columns>>d&1 != 0 }
	dst.CID = pick(dst.CID, src.CID, sel, lo, has(record.CID))
	dst.MID = pick(dst.MID, src.MID, sel, lo, has(record.MID))
	dst.MOID = pick(dst.MOID, src.MOID, sel, lo, has(record.MOID))
	dst.CapNs = pick(dst.CapNs, src.CapNs, sel, lo, has(record.Cap))
	if has(record.Acq) {
		dst.AcqNs = pick(dst.AcqNs, src.AcqNs, sel, lo, true)
	} else {
		dst.AcqNs = nil
	}
	at, size := len(dst.Data), dst.Stride
	dst.Data = slices.Grow(dst.Data, len(sel)*size)[:at+len(sel)*size]
	out := dst.Data[at:]
	switch size {
	case wordBytes:
		for k, i := range sel {
			word := binary.LittleEndian.Uint64(src.Data[(i-lo)*wordBytes:])
			binary.LittleEndian.PutUint64(out[k*wordBytes:], word)
		}
		return
	case wordBytes / 2:
		for k, i := range sel {
			word := binary.LittleEndian.Uint32(src.Data[(i-lo)*wordBytes/2:])
			binary.LittleEndian.PutUint32(out[k*wordBytes/2:], word)
		}
		return
	}
	for k, i := range sel {
		copy(out[k*size:(k+1)*size], src.Data[int(i-lo)*size:])
	}
}

func pick[T int32 | int64](dst, src []T, sel []uint32, lo uint32, wanted bool) []T {
	at := len(dst)
	dst = slices.Grow(dst, len(sel))[:at+len(sel)]
	if wanted {
		out := dst[at:]
		for k, i := range sel {
			out[k] = src[i-lo]
		}
	}
	return dst
}
