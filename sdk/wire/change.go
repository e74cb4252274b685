package wire

import (
	"encoding/binary"

	"github.com/pentad-db/pentad/sdk/record"
)

// ChangeKind says what an event in a change feed does to the records that it concerns.
type ChangeKind uint8

// Kinds of events in a change feed. Numbers are for ever.
const (
	ChangeErase     ChangeKind = 1 // hides them from the views that resolve versions
	ChangePurge     ChangeKind = 2 // hides them from every view and removes them
	ChangeRetention ChangeKind = 3 // as a purge, by a policy
)

// String returns the name that the kind has in JSON and on the command line.
func (k ChangeKind) String() string {
	switch k {
	case ChangeErase:
		return "erase"
	case ChangePurge:
		return "purge"
	default:
		return "retention"
	}
}

// Change is an event in a change feed. It concerns the records in its box with an acq below its
// own.
type Change struct {
	AcqNs    int64
	ClosedNs int64 // who has read this goes on from here
	Kind     ChangeKind
	Box      record.Box
	// FromSlot and ToSlot are the slots whose devices it concerns; both 0 for all.
	FromSlot, ToSlot uint32
}

// AppendChange appends a change frame: acq i64, closed i64, kind u8, zero [7], box; or for a change
// of some slots a slots change frame, which has from u32 and to u32 before that.
func AppendChange(dst []byte, c *Change) []byte {
	kind := FrameChange
	if c.ToSlot > 0 {
		kind = FrameSlotsChange
	}
	dst, start := beginFrame(dst, kind)
	if c.ToSlot > 0 {
		dst = binary.LittleEndian.AppendUint32(dst, c.FromSlot)
		dst = binary.LittleEndian.AppendUint32(dst, c.ToSlot)
	}
	dst = binary.LittleEndian.AppendUint64(dst, uint64(c.AcqNs))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(c.ClosedNs))
	dst = append(dst, byte(c.Kind), 0, 0, 0, 0, 0, 0, 0)
	return endFrame(appendBox(dst, &c.Box), start)
}

// ParseChange reads the payload of a change frame.
//
// Errors: *Error for the frame, *record.InvalidError for the box.
func ParseChange(payload []byte, c *Change) error {
	d := &decoder{src: payload}
	*c = Change{AcqNs: d.i64(), ClosedNs: d.i64()}
	kind := d.u64()
	if !d.short && (kind < uint64(ChangeErase) || kind > uint64(ChangeRetention)) {
		return badFrame("change of kind %#x", kind)
	}
	c.Kind = ChangeKind(kind)
	if err := parseBox(d, &c.Box); err != nil {
		return err
	}
	if err := d.end("change"); err != nil {
		return err
	}
	return c.Box.Normalize()
}

// ParseSlotsChange reads the payload of a slots change frame.
//
// Errors: as of ParseChange.
func ParseSlotsChange(payload []byte, c *Change) error {
	d := &decoder{src: payload}
	from, to := d.u32(), d.u32()
	if !d.short && (from >= to || to > numSlots) {
		return badFrame("change of the slots [%d, %d) of %d", from, to, numSlots)
	}
	if err := ParseChange(d.src, c); err != nil {
		return err
	}
	c.FromSlot, c.ToSlot = from, to
	return nil
}

// numSlots is how many slots devices are spread over.
const numSlots = 1 << 14

// AppendClosed appends a closed frame: closed i64.
func AppendClosed(dst []byte, closedNs int64) []byte {
	dst, start := beginFrame(dst, FrameClosed)
	return endFrame(binary.LittleEndian.AppendUint64(dst, uint64(closedNs)), start)
}

// ParseClosed reads the payload of a closed frame: the feed has given everything below.
func ParseClosed(payload []byte) (closedNs int64, err error) {
	d := &decoder{src: payload}
	closedNs = d.i64()
	return closedNs, d.end("closed")
}
