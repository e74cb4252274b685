package wire

import (
	"encoding/binary"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/pentad-db/pentad/sdk/registry"
)

// Group is one group of an aggregate and its result. Parts that were not grouped by are 0; CapNs is
// the start of the cap bucket; Values are what the descriptions of its devices have for the keys
// that were grouped by, zero values where they have nothing.
type Group struct {
	CID     int32
	MID     int64
	MOID    int32
	CapNs   int64
	Records uint64
	Result  []byte
	Values  []registry.Value
}

const groupBytes = 4 + 8 + 4 + 8 + 8 + 4 // without the result

// AppendGroups appends groups frames, one or as many as the results need: count u32, then cid i32,
// mid i64, moid i32, cap i64, records u64 and the result with a length u32 before it. With values
// of keys they are keyed groups frames, which have the values behind each result.
func AppendGroups(dst []byte, groups []Group, keyed bool) []byte {
	for {
		var start int
		dst, start = beginFrame(dst, frameType(FrameGroups, keyed))
		n, size := 0, 4
		for n < len(groups) {
			more := groupBytes + len(groups[n].Result)
			if keyed {
				more += 2 + len(groups[n].Values)*maxValueBytes
			}
			if n > 0 && size+more > MaxFramePayload {
				break
			}
			size += more
			n++
		}
		dst = binary.LittleEndian.AppendUint32(slices.Grow(dst, size), uint32(n))
		for i := range groups[:n] {
			dst = appendGroup(dst, &groups[i])
			if keyed {
				dst = registry.AppendValues(dst, groups[i].Values)
			}
		}
		dst = endFrame(dst, start)
		if groups = groups[n:]; len(groups) == 0 {
			return dst
		}
	}
}

func appendGroup(dst []byte, g *Group) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(g.CID))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(g.MID))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(g.MOID))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(g.CapNs))
	dst = binary.LittleEndian.AppendUint64(dst, g.Records)
	return appendBytes(dst, g.Result)
}

// ParseGroups appends the groups of the payload of a groups frame, or of a keyed one, to dst;
// results are copied.
func ParseGroups(payload []byte, keyed bool, dst []Group) ([]Group, error) {
	d := &decoder{src: payload}
	count := d.u32()
	if uint64(count) > uint64(len(d.src)/groupBytes) {
		return nil, badFrame("%d groups in %d bytes", count, len(d.src))
	}
	dst = slices.Grow(dst, int(count))
	for range count {
		g := Group{CID: int32(d.u32()), MID: d.i64(), MOID: int32(d.u32()), CapNs: d.i64(),
			Records: d.u64()}
		g.Result = append([]byte(nil), d.bytes()...)
		if keyed {
			if err := d.values(&g.Values); err != nil {
				return nil, err
			}
		}
		dst = append(dst, g)
	}
	return dst, d.end("groups")
}

// maxValueBytes bounds the encoding of a value of a key: kind, length, text.
const maxValueBytes = 1 + 2 + registry.MaxTextBytes

// frameType returns the type of a frame of groups or states, or of the keyed one in its place.
func frameType(t FrameType, keyed bool) FrameType {
	switch {
	case keyed && t == FrameGroups:
		return FrameKeyedGroups
	case keyed && t == FrameStates:
		return FrameKeyedStates
	}
	return t
}

// values reads the values of keys.
func (d *decoder) values(v *[]registry.Value) error {
	if d.short {
		return nil
	}
	var err error
	if *v, d.src, err = registry.ParseValuesBytes(d.src); err != nil {
		return badFrame("a value of a group: %v", err)
	}
	return nil
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
	// HistoryChangedAcqNs is the acq of the newest purge, or step of a retention, that meets the
	// box; 0 for none. Answers from before it may hold more.
	HistoryChangedAcqNs int64
}

// AppendEnd appends an end frame: complete u8, zero [7], horizon i64, rows u64, blocks u64,
// examined u64, took i64, purged i64, reason with a length u32 before it.
func AppendEnd(dst []byte, e *End) []byte {
	dst, start := beginFrame(dst, FrameEnd)
	dst = append(dst, boolByte(e.Complete), 0, 0, 0, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(e.HorizonNs))
	dst = binary.LittleEndian.AppendUint64(dst, e.Rows)
	dst = binary.LittleEndian.AppendUint64(dst, e.BlocksScanned)
	dst = binary.LittleEndian.AppendUint64(dst, e.RowsExamined)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(e.TookNs))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(e.HistoryChangedAcqNs))
	return endFrame(appendText(dst, e.Reason), start)
}

// ParseEnd reads the payload of an end frame.
func ParseEnd(payload []byte, e *End) error {
	d := &decoder{src: payload}
	complete := d.u64()
	if complete > 1 {
		return badFrame("reserved bytes of an end are not zero")
	}
	*e = End{Complete: complete == 1, HorizonNs: d.i64(), Rows: d.u64(), BlocksScanned: d.u64(),
		RowsExamined: d.u64(), TookNs: d.i64(),
		HistoryChangedAcqNs: d.i64()}
	e.Reason = string(d.bytes())
	return d.end("end")
}

// maxTextBytes is where texts for people are cut: no one reads more.
const maxTextBytes = math.MaxUint16

func appendText(dst []byte, text string) []byte {
	if len(text) > maxTextBytes {
		end := maxTextBytes
		for end > maxTextBytes-(utf8.UTFMax-1) && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(text)))
	return append(dst, text...)
}

// AppendError appends an error frame: kind u8, zero [3], retry after u32, then message, part and
// reason, each with a length u32 before it.
func AppendError(dst []byte, e *Error) []byte {
	dst, start := beginFrame(dst, FrameError)
	dst = append(dst, byte(e.Kind), 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, e.RetryAfterMs)
	for _, text := range []string{e.Message, e.Part, e.Reason} {
		dst = appendText(dst, text)
	}
	return endFrame(dst, start)
}

// ParseError reads the payload of an error frame.
func ParseError(payload []byte, e *Error) error {
	d := &decoder{src: payload}
	kind := d.u32()
	if kind == 0 || kind > math.MaxUint8 {
		return badFrame("unknown kind of error %#x", kind)
	}
	*e = Error{Kind: Kind(kind), RetryAfterMs: d.u32()}
	e.Message, e.Part, e.Reason = string(d.bytes()), string(d.bytes()), string(d.bytes())
	return d.end("error")
}
