package tstorage

import (
	"encoding/binary"
	"math"

	"github.com/pentad-db/pentad/sdk/record"
	"github.com/pentad-db/pentad/sdk/wire"
)

// Commands.
const (
	cmdGet    = 1
	cmdPut    = 5
	cmdPutA   = 6
	cmdGetAcq = 7
)

// status is how a request ended.
type status int32

// Statuses that the gateway gives. Clients branch on 0 alone, or show the number.
const (
	statusOK       status = 0
	statusError    status = -1
	statusInvalid  status = -2
	statusRetry    status = -3
	statusTimeout  status = -4
	statusNoMemory status = -5
	statusIO       status = -6
	statusNoPerm   status = -7
	statusNoImpl   status = -8
	statusInactive status = -12
)

// statusOf returns the status for an error of the database.
func statusOf(k wire.Kind) status {
	switch k {
	case wire.KindInvalid:
		return statusInvalid
	case wire.KindOverloaded:
		return statusRetry
	case wire.KindTimeout:
		return statusTimeout
	case wire.KindTooLarge:
		return statusNoMemory
	case wire.KindDamaged:
		return statusIO
	case wire.KindForbidden:
		return statusNoPerm
	case wire.KindUnavailable:
		return statusInactive
	default:
		return statusError
	}
}

const (
	headerBytes = 4 + 8
	keyBytes    = 4 + 8 + 4 + 8 + 8
	boxBytes    = 2 * keyBytes
	batchBytes  = 4 + 4         // cid and size before the records of a batch
	putKeyBytes = 8 + 4 + 8     // of a record in a batch: mid, moid, cap
	endOfPut    = int32(-1)     // in place of a cid
	noAcq       = int64(-1)     // in an answer to a put that stored nothing
	maxStored   = math.MaxInt64 // cannot be stored as mid, cap or acq
	maxStored32 = math.MaxInt32 // cannot be stored as cid or moid
	acqBytes    = 8             // of a record in a batch of PUTA, behind the rest of its key
	sizeBytes   = 4             // before each record, itself not counted
	endOfGet    = int32(0)      // in place of the size of a record
)

// key is a key of the protocol: times count from its own epoch.
type key record.Key

// appendHeader appends the header of a request or an answer.
func appendHeader(dst []byte, what int32, size uint64) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(what))
	return binary.LittleEndian.AppendUint64(dst, size)
}

// parseHeader reads a header of headerBytes.
func parseHeader(src []byte) (what int32, size uint64) {
	return int32(binary.LittleEndian.Uint32(src)), binary.LittleEndian.Uint64(src[4:])
}

func appendKey(dst []byte, k key) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(k.CID))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(k.MID))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(k.MOID))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(k.CapNs))
	return binary.LittleEndian.AppendUint64(dst, uint64(k.AcqNs))
}

// parseKey reads a key of keyBytes.
func parseKey(src []byte) key {
	return key{
		CID:   int32(binary.LittleEndian.Uint32(src)),
		MID:   int64(binary.LittleEndian.Uint64(src[4:])),
		MOID:  int32(binary.LittleEndian.Uint32(src[12:])),
		CapNs: int64(binary.LittleEndian.Uint64(src[16:])),
		AcqNs: int64(binary.LittleEndian.Uint64(src[24:])),
	}
}

// reserved reports whether a part of a key holds its greatest value, which cannot be stored.
func (k key) reserved() bool {
	return k.CID == maxStored32 || k.MID == maxStored || k.MOID == maxStored32 ||
		k.CapNs == maxStored || k.AcqNs == maxStored
}

// box is what a client asks for: [min, max) on every axis.
type box struct{ min, max key }

func parseBox(src []byte) box { return box{parseKey(src), parseKey(src[keyBytes:])} }

// part returns the range of one axis.
func (b *box) part(d record.Dim) record.Range {
	return record.Range{From: record.Key(b.min).Part(d), To: record.Key(b.max).Part(d)}
}

// least returns the least length that an axis has, negative for one that runs backwards: 0 for an
// empty box.
func (b *box) least() (d record.Dim, sign int) {
	sign = 1
	for i := range record.Dim(record.NumDims) {
		r := b.part(i)
		if r.From > r.To {
			return i, -1
		}
		if r.From == r.To && sign > 0 {
			d, sign = i, 0
		}
	}
	return d, sign
}

// query returns the query for a box that is not empty, whose cids are not negative.
func (b *box) query() *record.Query {
	q := new(record.Query)
	for d := range record.Dim(record.NumDims) {
		r := b.part(d)
		if d == record.Cap || d == record.Acq {
			q.Box[d] = unixRanges(r.From, r.To)
			continue
		}
		if d == record.MOID && r.From == d.Min() && r.To > record.FirstMOID {
			r.From = record.FirstMOID // the range is open: it does not name the reserved ones
		}
		q.Box[d] = record.RangeSet{r}
	}
	return q
}
