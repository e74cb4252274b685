package node

import (
	"context"
	"math/bits"
	"slices"

	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/plugin"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

// partsOf is what of rows a module with a need looks at.
func partsOf(need uint32) (parts segment.Parts) {
	for bit, part := range map[uint32]segment.Parts{
		plugin.NeedCID: 1 << record.CID, plugin.NeedMID: 1 << record.MID,
		plugin.NeedMOID: 1 << record.MOID, plugin.NeedCap: 1 << record.Cap,
		plugin.NeedAcq: 1 << record.Acq, plugin.NeedOffsets: segment.Payloads,
		plugin.NeedData: segment.Payloads,
	} {
		if need&bit != 0 {
			parts |= part
		}
	}
	return parts
}

// groupParts is what grouping looks at.
func groupParts(by record.GroupBy) (parts segment.Parts) {
	for d, wanted := range map[record.Dim]bool{record.CID: by.CID, record.MID: by.MID,
		record.MOID: by.MOID, record.Cap: by.ByCap()} {
		if wanted {
			parts |= 1 << d
		}
	}
	return parts
}

// filtered hands the rows that a filter keeps to sink, which looks at some parts of them.
func filtered(
	ctx context.Context, f *wasmhost.Filter, parts segment.Parts, sink store.Sink,
) store.Sink {
	var keep []uint64
	var sel []uint32
	var kept record.Batch
	return func(b *record.Batch) error {
		words := (b.Len() + 63) / 64
		keep = slices.Grow(keep[:0], words)[:words]
		if err := f.Keep(ctx, b, keep); err != nil {
			return err
		}
		sel = appendBits(sel[:0], keep)
		switch len(sel) {
		case 0:
			return nil
		case b.Len():
			return sink(b)
		}
		choose(&kept, b, sel, parts)
		return sink(&kept)
	}
}

// appendBits appends the places of the bits that are set.
func appendBits(dst []uint32, words []uint64) []uint32 {
	for i, w := range words {
		for ; w != 0; w &= w - 1 {
			dst = append(dst, uint32(i*64+bits.TrailingZeros64(w)))
		}
	}
	return dst
}

// choose makes dst the rows of sel, with those parts; other columns have the right length only.
// Rows that plugins see are no tombstones.
func choose(dst, src *record.Batch, sel []uint32, parts segment.Parts) {
	dst.Reset()
	has := func(d record.Dim) bool { return parts>>d&1 != 0 }
	dst.CID = chooseColumn(dst.CID, src.CID, sel, has(record.CID))
	dst.MID = chooseColumn(dst.MID, src.MID, sel, has(record.MID))
	dst.MOID = chooseColumn(dst.MOID, src.MOID, sel, has(record.MOID))
	dst.CapNs = chooseColumn(dst.CapNs, src.CapNs, sel, has(record.Cap))
	if src.AcqNs == nil {
		dst.AcqNs = nil
	} else {
		dst.AcqNs = chooseColumn(dst.AcqNs, src.AcqNs, sel, has(record.Acq))
	}
	if parts&segment.Payloads == 0 {
		return
	}
	if src.Offsets == nil {
		dst.Stride = src.Stride
		for _, i := range sel {
			dst.Data = append(dst.Data, src.Place(int(i))...)
		}
		return
	}
	dst.Offsets = append(dst.Offsets, 0)
	for _, i := range sel {
		dst.Data = append(dst.Data, src.Place(int(i))...)
		dst.Offsets = append(dst.Offsets, uint32(len(dst.Data)))
	}
}

func chooseColumn[T int32 | int64](dst, src []T, sel []uint32, wanted bool) []T {
	dst = slices.Grow(dst, len(sel))[:len(sel)]
	if wanted {
		for k, i := range sel {
			dst[k] = src[i]
		}
	}
	return dst
}
