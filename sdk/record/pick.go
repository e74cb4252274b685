package record

import "slices"

// AppendPicked appends the records of another batch that rows names, in this order, with their
// acquisition times if it has any. The batch must be empty and not the other one.
//
// Cost: a copy, column by column.
func (b *Batch) AppendPicked(src *Batch, rows []uint32) {
	b.CID = appendPicked(b.CID, src.CID, rows)
	b.MID = appendPicked(b.MID, src.MID, rows)
	b.MOID = appendPicked(b.MOID, src.MOID, rows)
	b.CapNs = appendPicked(b.CapNs, src.CapNs, rows)
	if src.AcqNs == nil {
		b.AcqNs = nil
	} else {
		b.AcqNs = appendPicked(b.AcqNs, src.AcqNs, rows)
	}
	if len(src.Tombs) > 0 {
		for k, i := range rows {
			if src.Tomb(int(i)) {
				b.SetTomb(k)
			}
		}
	}
	if b.Stride = src.Stride; src.Offsets == nil {
		b.Data = slices.Grow(b.Data, len(rows)*src.Stride)
		for _, i := range rows {
			b.Data = append(b.Data, src.RawPayload(int(i))...)
		}
		return
	}
	b.Offsets = append(slices.Grow(b.Offsets, len(rows)+1), 0)
	for _, i := range rows {
		b.Data = append(b.Data, src.RawPayload(int(i))...)
		b.Offsets = append(b.Offsets, uint32(len(b.Data)))
	}
}

func appendPicked[T int32 | int64](dst, src []T, rows []uint32) []T {
	dst = slices.Grow(dst, len(rows))[:len(rows)]
	for k, i := range rows {
		dst[k] = src[i]
	}
	return dst
}
