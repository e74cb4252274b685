package engine

import (
	"context"
	"math/bits"
	"slices"

	"github.com/pentad-db/pentad/node/segment"
	"github.com/pentad-db/pentad/node/store"
	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/wasmhost"
)

// GroupColumns returns the columns that grouping reads.
func GroupColumns(by record.GroupBy) (columns segment.Columns) {
	if by == (record.GroupBy{}) {
		return 0
	}
	if by.ByCap() {
		columns = 1 << record.Cap
	}
	return columns | segment.SeriesRuns
}

// filterSink passes the rows that a filter keeps to sink, which reads those columns of them.
func filterSink(
	ctx context.Context, f *wasmhost.Filter, columns segment.Columns, sink store.Sink,
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
		selectRows(&kept, b, sel, columns)
		return sink(&kept)
	}
}

// appendBits appends the indexes of set bits.
func appendBits(dst []uint32, words []uint64) []uint32 {
	for i, w := range words {
		for ; w != 0; w &= w - 1 {
			dst = append(dst, uint32(i*64+bits.TrailingZeros64(w)))
		}
	}
	return dst
}

// selectRows copies the rows of sel to dst, with those columns; others only have the right
// length. Plugins never see tombstones.
func selectRows(dst, src *record.Batch, sel []uint32, columns segment.Columns) {
	dst.Reset()
	if columns&segment.SeriesRuns != 0 {
		src.FillKeys()
		columns = columns.WithoutRuns()
	}
	has := func(d record.Dim) bool { return columns>>d&1 != 0 }
	dst.CID = selectColumn(dst.CID, src.CID, sel, has(record.CID))
	dst.MID = selectColumn(dst.MID, src.MID, sel, has(record.MID))
	dst.MOID = selectColumn(dst.MOID, src.MOID, sel, has(record.MOID))
	dst.CapNs = selectColumn(dst.CapNs, src.CapNs, sel, has(record.Cap))
	if src.AcqNs == nil {
		dst.AcqNs = nil
	} else {
		dst.AcqNs = selectColumn(dst.AcqNs, src.AcqNs, sel, has(record.Acq))
	}
	if columns&segment.Payloads == 0 {
		return
	}
	if src.Offsets == nil {
		dst.Stride = src.Stride
		for _, i := range sel {
			dst.Data = append(dst.Data, src.RawPayload(int(i))...)
		}
		return
	}
	dst.Offsets = append(dst.Offsets, 0)
	for _, i := range sel {
		dst.Data = append(dst.Data, src.RawPayload(int(i))...)
		dst.Offsets = append(dst.Offsets, uint32(len(dst.Data)))
	}
}

func selectColumn[T int32 | int64](dst, src []T, sel []uint32, wanted bool) []T {
	dst = slices.Grow(dst, len(sel))[:len(sel)]
	if wanted {
		for k, i := range sel {
			dst[k] = src[i]
		}
	}
	return dst
}
