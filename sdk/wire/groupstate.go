package wire

import (
	"encoding/binary"
	"slices"

	"github.com/pentad-db/pentad/sdk/registry"
)

// GroupState is one group of an aggregate before it is finished: what the plugin has of it, to be
// merged with that of other sources.
type GroupState struct {
	CID         int32
	MID         int64
	MOID        int32
	CapNs       int64
	Predecessor bool // its rows are before the box, and it is no group of the answer
	Records     uint64
	State       []byte
	Values      []registry.Value // see [Group]
}

const stateBytes = 4 + 8 + 4 + 8 + 8 + 8 + 4 // without the state

// MaxStatesBytes bounds what AppendStates is given at once: more goes into another frame.
const MaxStatesBytes = 8 << 20

// AppendStates appends a states frame: count u32, then cid i32, mid i64, moid i32, cap i64,
// predecessor u8, zero [7], records u64 and the state with a length u32 before it. With values of
// keys it is a keyed states frame, which has the values behind each state. The states are short
// enough for a frame.
func AppendStates(dst []byte, states []GroupState, keyed bool) []byte {
	dst, start := beginFrame(dst, frameType(FrameStates, keyed))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(states)))
	for i := range states {
		s := &states[i]
		dst = binary.LittleEndian.AppendUint32(dst, uint32(s.CID))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(s.MID))
		dst = binary.LittleEndian.AppendUint32(dst, uint32(s.MOID))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(s.CapNs))
		dst = append(dst, boolByte(s.Predecessor), 0, 0, 0, 0, 0, 0, 0)
		dst = binary.LittleEndian.AppendUint64(dst, s.Records)
		dst = appendBytes(dst, s.State)
		if keyed {
			dst = registry.AppendValues(dst, s.Values)
		}
	}
	return endFrame(dst, start)
}

// ParseStates appends the states of the payload of a states frame, or of a keyed one, to dst; they
// alias the payload.
func ParseStates(payload []byte, keyed bool, dst []GroupState) ([]GroupState, error) {
	d := &decoder{src: payload}
	count := d.u32()
	if uint64(count) > uint64(len(d.src)/stateBytes) {
		return nil, badFrame("%d states in %d bytes", count, len(d.src))
	}
	dst = slices.Grow(dst, int(count))
	for range count {
		s := GroupState{CID: int32(d.u32()), MID: d.i64(), MOID: int32(d.u32()), CapNs: d.i64()}
		predecessor := d.u64()
		if predecessor > 1 {
			return nil, badFrame("reserved bytes of a state are not zero")
		}
		s.Predecessor, s.Records, s.State = predecessor == 1, d.u64(), d.bytes()
		if keyed {
			if err := d.values(&s.Values); err != nil {
				return nil, err
			}
		}
		dst = append(dst, s)
	}
	return dst, d.end("states")
}
