package wire

import (
	"encoding/binary"
	"math"
)

// Group is one group of an aggregate and its result. Parts that were not grouped by are 0; CapNs is
// the start of the cap bucket.
type Group struct {
	CID     int32
	MID     int64
	MOID    int32
	CapNs   int64
	Records uint64
	Result  []byte
}

const groupBytes = 4 + 8 + 4 + 8 + 8 + 4 // without the result

// AppendGroups appends a groups frame: count u32, then cid i32, mid i64, moid i32, cap i64, records
// u64 and the result with a length u32 before it.
func AppendGroups(dst []byte, groups []Group) []byte {
	dst, start := beginFrame(dst, FrameGroups)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(groups)))
	for i := range groups {
		g := &groups[i]
		dst = binary.LittleEndian.AppendUint32(dst, uint32(g.CID))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(g.MID))
		dst = binary.LittleEndian.AppendUint32(dst, uint32(g.MOID))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(g.CapNs))
		dst = binary.LittleEndian.AppendUint64(dst, g.Records)
		dst = appendBytes(dst, g.Result)
	}
	return endFrame(dst, start)
}

// ParseGroups appends the groups of a groups frame's payload to dst; results are copied.
func ParseGroups(payload []byte, dst []Group) ([]Group, error) {
	d := &decoder{src: payload}
	count := d.u32()
	if uint64(count) > uint64(len(d.src)/groupBytes) {
		return nil, badFrame("%d groups in %d bytes", count, len(d.src))
	}
	for range count {
		g := Group{CID: int32(d.u32()), MID: d.i64(), MOID: int32(d.u32()), CapNs: d.i64(),
			Records: d.u64()}
		g.Result = append([]byte(nil), d.bytes()...)
		dst = append(dst, g)
	}
	return dst, d.end("groups")
}

// End closes every answer. An answer without it is not whole.
type End struct {
	Complete      bool
	Reason        string // why it is not complete
	HorizonNs     int64  // the answer reflects every record with acq below this
	Rows          uint64 // records, or groups, in the answer
	BlocksScanned uint64
	RowsExamined  uint64
	TookNs        int64
}

// AppendEnd appends an end frame: complete u8, zero [7], horizon i64, rows u64, blocks u64,
// examined u64, took i64, reason with a length u32 before it.
func AppendEnd(dst []byte, e *End) []byte {
	dst, start := beginFrame(dst, FrameEnd)
	dst = append(dst, boolByte(e.Complete), 0, 0, 0, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(e.HorizonNs))
	dst = binary.LittleEndian.AppendUint64(dst, e.Rows)
	dst = binary.LittleEndian.AppendUint64(dst, e.BlocksScanned)
	dst = binary.LittleEndian.AppendUint64(dst, e.RowsExamined)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(e.TookNs))
	return endFrame(appendBytes(dst, []byte(e.Reason)), start)
}

// ParseEnd reads the payload of an end frame.
func ParseEnd(payload []byte, e *End) error {
	d := &decoder{src: payload}
	complete := d.u64()
	if complete > 1 {
		return badFrame("reserved bytes of an end are not zero")
	}
	*e = End{Complete: complete == 1, HorizonNs: d.i64(), Rows: d.u64(), BlocksScanned: d.u64(),
		RowsExamined: d.u64(), TookNs: d.i64()}
	e.Reason = string(d.bytes())
	return d.end("end")
}

// AppendError appends an error frame: kind u8, zero [3], retry after u32, then message, part and
// reason, each with a length u32 before it.
func AppendError(dst []byte, e *Error) []byte {
	dst, start := beginFrame(dst, FrameError)
	dst = append(dst, byte(e.Kind), 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, e.RetryAfterMs)
	for _, text := range []string{e.Message, e.Part, e.Reason} {
		dst = appendBytes(dst, []byte(text[:min(len(text), math.MaxUint16)]))
	}
	return endFrame(dst, start)
}

// ParseError reads the payload of an error frame.
func ParseError(payload []byte, e *Error) error {
	d := &decoder{src: payload}
	kind := d.u32()
	if kind == 0 || kind > math.MaxUint8 {
		return badFrame("error of kind %#x", kind)
	}
	*e = Error{Kind: Kind(kind), RetryAfterMs: d.u32()}
	e.Message, e.Part, e.Reason = string(d.bytes()), string(d.bytes()), string(d.bytes())
	return d.end("error")
}
