// Package ordered answers queries from a store of ordered keys and values, as an engineer would
// use one for measurements: keys that sort as queries ask, payloads as values, and skips within a
// scan.
//
// It knows no store: peers hand it a [Cursor].
package ordered

import (
	"encoding/binary"

	"github.com/pentad-db/pentad/sdk/record"
)

// KeyBytes is the size of a key: the number of the copy, then the parts in its order.
const KeyBytes = 1 + 4 + 8 + 4 + 8 + 8

// Order is the order of the parts in the keys of a copy.
type Order [record.NumDims]record.Dim

// Orders returns the copies: by device, and with all three by time of capture and of arrival.
func Orders(copies int) []Order {
	return []Order{
		{record.CID, record.MID, record.MOID, record.Cap, record.Acq},
		{record.Cap, record.MOID, record.CID, record.MID, record.Acq},
		{record.Acq, record.CID, record.MID, record.MOID, record.Cap},
	}[:copies]
}

// AppendKey appends the key of a record in the copy of that number.
func (o Order) AppendKey(dst []byte, copied int, k record.Key) []byte {
	return o.append(dst, copied, parts(k))
}

func parts(k record.Key) [record.NumDims]int64 {
	return [record.NumDims]int64{int64(k.CID), k.MID, int64(k.MOID), k.CapNs, k.AcqNs}
}

func keyOf(k [record.NumDims]int64) record.Key {
	return record.Key{CID: int32(k[record.CID]), MID: k[record.MID], MOID: int32(k[record.MOID]),
		CapNs: k[record.Cap], AcqNs: k[record.Acq]}
}

func (o Order) append(dst []byte, copied int, k [record.NumDims]int64) []byte {
	dst = append(dst, byte(copied))
	for _, d := range o {
		switch v := k[d]; d {
		case record.CID, record.MOID:
			dst = binary.BigEndian.AppendUint32(dst, uint32(int32(v))^1<<31)
		default:
			dst = binary.BigEndian.AppendUint64(dst, uint64(v)^1<<63)
		}
	}
	return dst
}

func (o Order) parse(src []byte) (k [record.NumDims]int64) {
	src = src[1:]
	for _, d := range o {
		switch d {
		case record.CID, record.MOID:
			k[d], src = int64(int32(binary.BigEndian.Uint32(src)^1<<31)), src[4:]
		default:
			k[d], src = int64(binary.BigEndian.Uint64(src)^1<<63), src[8:]
		}
	}
	return k
}
