// Package record is pentad's vocabulary: the five-part key, records, batches of records in
// columns, half-open ranges, boxes, queries and the limits that every package enforces.
//
// It knows nothing of files, networks or indexes and imports the standard library only. Its main
// types are [Key], [Batch], [Range] and [Query]. It starts no goroutines.
package record

import "math"

// Dim numbers the five dimensions. The values are part of the wire and file formats.
type Dim uint8

// The five dimensions, in key order.
const (
	CID  Dim = 0 // tenant, int32, >= 0
	MID  Dim = 1 // measuring device, int64, unique within its cid
	MOID Dim = 2 // measured quantity, int32
	Cap  Dim = 3 // capture time, ns since the Unix epoch, chosen by the writer
	Acq  Dim = 4 // acquisition time, ns since the Unix epoch, assigned by pentad

	NumDims = 5
)

var dimNames = [NumDims]string{"cid", "mid", "moid", "cap", "acq"}

// String returns the name that the dimension has in errors, on the command line and in JSON.
func (d Dim) String() string {
	if int(d) < NumDims {
		return dimNames[d]
	}
	return "dim?"
}

// Max returns the reserved greatest value of a dimension: "no end" as an upper bound, an error as
// a stored value.
func (d Dim) Max() int64 {
	if d == CID || d == MOID {
		return math.MaxInt32
	}
	return math.MaxInt64
}

// Min returns the smallest value that a dimension may hold.
func (d Dim) Min() int64 {
	switch d {
	case CID:
		return 0
	case MOID:
		return math.MinInt32
	default:
		return math.MinInt64
	}
}

// Key identifies one version of one reading.
type Key struct {
	CID   int32
	MID   int64
	MOID  int32
	CapNs int64
	AcqNs int64
}

// Compare orders keys by cid, mid, moid, cap, acq.
func (k Key) Compare(o Key) int {
	switch {
	case k.CID != o.CID:
		return order(int64(k.CID), int64(o.CID))
	case k.MID != o.MID:
		return order(k.MID, o.MID)
	case k.MOID != o.MOID:
		return order(int64(k.MOID), int64(o.MOID))
	case k.CapNs != o.CapNs:
		return order(k.CapNs, o.CapNs)
	case k.AcqNs != o.AcqNs:
		return order(k.AcqNs, o.AcqNs)
	}
	return 0
}

func order(a, b int64) int {
	if a < b {
		return -1
	}
	return 1
}

// Part returns the value of one dimension.
func (k Key) Part(d Dim) int64 {
	switch d {
	case CID:
		return int64(k.CID)
	case MID:
		return k.MID
	case MOID:
		return int64(k.MOID)
	case Cap:
		return k.CapNs
	default:
		return k.AcqNs
	}
}

// Record is one version: its key and its opaque payload. The payload belongs to whoever made the
// record; a record taken from a [Batch] aliases the batch.
type Record struct {
	Key
	Payload []byte
	Tomb    bool // a tombstone: the reading is deleted from this acq on
}
