package index

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/pentad-db/pentad/sdk/record"
)

// buckets is how many watermarks a shard has. Each series has one of them, so that a garbage cap
// in the far future spoils a four-thousandth of the series and not all.
const buckets = 4096

// Watermarks hold, per bucket of series, the greatest cap seen. A row whose cap is above the
// watermark of its series cannot be a new version of an older reading.
type Watermarks [buckets]int64

// NewWatermarks returns watermarks that every cap is above; MinInt64 itself counts as seen.
func NewWatermarks() *Watermarks {
	w := new(Watermarks)
	for i := range w {
		w[i] = math.MinInt64
	}
	return w
}

// TopWatermarks returns watermarks that no cap is above: every row may supersede an older one.
func TopWatermarks() *Watermarks {
	w := new(Watermarks)
	for i := range w {
		w[i] = math.MaxInt64
	}
	return w
}

func bucketOf(cid int32, mid int64, moid int32) int {
	pair := uint64(uint32(cid))<<32 | uint64(uint32(moid))
	h := uint64(mid)*0x9e3779b97f4a7c15 ^ pair*0xc2b2ae3d27d4eb4f
	h ^= h >> 29
	h *= 0xff51afd7ed558ccd
	return int(h >> 52)
}

// Raise lifts watermarks to those of another set.
func (w *Watermarks) Raise(by *Watermarks) {
	for i := range w {
		w[i] = max(w[i], by[i])
	}
}

// AppendWatermarks appends the watermarks, 8 bytes each.
func AppendWatermarks(dst []byte, w *Watermarks) []byte {
	for _, ns := range w {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(ns))
	}
	return dst
}

// ParseWatermarks reads what AppendWatermarks wrote.
func ParseWatermarks(src []byte) (*Watermarks, error) {
	w := new(Watermarks)
	if len(src) != 8*len(w) {
		return nil, errors.New("watermarks have the wrong size")
	}
	for i := range w {
		w[i] = int64(binary.LittleEndian.Uint64(src[8*i:]))
	}
	return w, nil
}

// Covers reports whether no row has a cap above the watermark of its series.
func (w *Watermarks) Covers(rows *record.Batch) bool {
	for i := range rows.Len() {
		if rows.CapNs[i] > w[bucketOf(rows.CID[i], rows.MID[i], rows.MOID[i])] {
			return false
		}
	}
	return true
}
