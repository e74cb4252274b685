package record

// AppendRows appends the records [from, to) of another batch, with their acquisition times unless a
// caller has laid stamps ready.
//
// Cost: a copy of each column; a few ns a record more where payloads change from one size to many.
func (b *Batch) AppendRows(src *Batch, from, to int) {
	if from >= to {
		return
	}
	stamped := src.AcqNs != nil && len(b.AcqNs) == b.Len()
	b.appendPayloads(src, from, to)
	if len(src.Tombs) > 0 {
		b.appendTombs(src, from, to)
	}
	b.CID = append(b.CID, src.CID[from:to]...)
	b.MID = append(b.MID, src.MID[from:to]...)
	b.MOID = append(b.MOID, src.MOID[from:to]...)
	b.CapNs = append(b.CapNs, src.CapNs[from:to]...)
	if stamped {
		b.AcqNs = append(b.AcqNs, src.AcqNs[from:to]...)
	}
}

func (b *Batch) appendTombs(src *Batch, from, to int) {
	for i := from; i < to; i++ {
		if src.Tomb(i) {
			b.SetTomb(b.Len() + i - from)
		}
	}
}

func (b *Batch) appendPayloads(src *Batch, from, to int) {
	if b.Len() > 0 && b.Offsets == nil && src.Offsets == nil && b.Stride != src.Stride {
		switch {
		case b.Stride <= maxTombBytes && src.onlyTombs():
			b.Data = appendZeros(b.Data, (to-from)*b.Stride)
			return
		case src.Stride <= maxTombBytes && b.onlyTombs():
			b.fillTombs(src.Stride)
		}
	}
	if src.Offsets == nil && (b.Len() == 0 || b.Offsets == nil && b.Stride == src.Stride) {
		b.Stride, b.Offsets = src.Stride, nil
		b.Data = append(b.Data, src.Data[from*src.Stride:to*src.Stride]...)
		return
	}
	if b.Offsets == nil {
		b.vary(to - from)
	}
	end := uint32(len(b.Data))
	for i := from; i < to; i++ {
		end += uint32(len(src.RawPayload(i)))
		b.Offsets = append(b.Offsets, end)
	}
	if src.Offsets == nil {
		b.Data = append(b.Data, src.Data[from*src.Stride:to*src.Stride]...)
		return
	}
	b.Data = append(b.Data, src.Data[src.Offsets[from]:src.Offsets[to]]...)
}
