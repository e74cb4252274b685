package wire

import (
	"encoding/binary"

	"github.com/pentad-db/pentad/sdk/record"
)

// appendBox appends per dimension a count u32 and so many pairs (from i64, to i64).
func appendBox(dst []byte, box *record.Box) []byte {
	for _, set := range box {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(set)))
		for _, r := range set {
			dst = binary.LittleEndian.AppendUint64(dst, uint64(r.From))
			dst = binary.LittleEndian.AppendUint64(dst, uint64(r.To))
		}
	}
	return dst
}

func parseBox(d *decoder, box *record.Box) error {
	for dim := range box {
		count := d.u32()
		if d.short || uint64(count) > uint64(len(d.src)/16) {
			return badFrame("box ends inside the ranges of %v", record.Dim(dim))
		}
		if count > 0 {
			box[dim] = make(record.RangeSet, count)
		}
		for i := range box[dim] {
			box[dim][i] = record.Range{From: d.i64(), To: d.i64()}
		}
	}
	return nil
}

// Box says which records to erase or to purge, or of which readings to show the versions.
type Box struct {
	Box        record.Box
	Everything bool   // the box may be the whole space
	Select     string // devices of one tenant, as that of a [record.Query]; empty: all devices
}

// Check normalises the box as that of a query and refuses one that is everything by oversight.
func (b *Box) Check() error {
	if err := b.Box.NormalizeAsked(); err != nil {
		return err
	}
	if err := record.NormalizeSelect(&b.Select, &b.Box); err != nil {
		return err
	}
	for d := range record.Dim(record.NumDims) {
		if b.Box.Restricts(d) {
			return nil
		}
	}
	if b.Everything {
		return nil
	}
	return &record.InvalidError{Part: "box", Reason: record.EmptyRange, Row: -1,
		Detail: "it has no constraint; select everything explicitly"}
}

// AppendBox appends a box frame: everything u8, zero [7], box, then the selector, if there is one,
// with a length u32 before it.
func AppendBox(dst []byte, b *Box) []byte {
	dst, start := beginFrame(dst, FrameBox)
	dst = append(dst, boolByte(b.Everything), 0, 0, 0, 0, 0, 0, 0)
	return endFrame(appendSelect(appendBox(dst, &b.Box), b.Select), start)
}

// appendSelect appends the selector at the end of a frame; without one nothing.
func appendSelect(dst []byte, selector string) []byte {
	if selector == "" {
		return dst
	}
	return appendBytes(dst, []byte(selector))
}

// parseSelect reads the selector at the end of a frame, if there is one.
func parseSelect(d *decoder) (string, error) {
	if len(d.src) == 0 || d.short {
		return "", nil
	}
	selector := string(d.bytes())
	if selector == "" && !d.short {
		return "", badFrame("a selector is empty; leave it out")
	}
	return selector, nil
}

// ParseBox reads a body that is one box frame, and checks the box.
//
// Errors: *Error for the frame, *record.InvalidError for the box.
func ParseBox(src []byte, b *Box) error {
	payload, err := expect(src, FrameBox)
	if err != nil {
		return err
	}
	d := &decoder{src: payload}
	everything := d.u64()
	if everything > 1 {
		return badFrame("reserved bytes of a box are not zero")
	}
	*b = Box{Everything: everything == 1}
	if err := parseBox(d, &b.Box); err != nil {
		return err
	}
	if b.Select, err = parseSelect(d); err != nil {
		return err
	}
	if err := d.end("box"); err != nil {
		return err
	}
	return b.Check()
}

// Event is the answer to an erase or a purge.
type Event struct {
	AcqNs int64 // records with an acq below this are hidden, later ones are not
}

// AppendEvent appends an event frame: acq i64.
func AppendEvent(dst []byte, e *Event) []byte {
	dst, start := beginFrame(dst, FrameEvent)
	return endFrame(binary.LittleEndian.AppendUint64(dst, uint64(e.AcqNs)), start)
}

// ParseEvent reads the payload of an event frame.
func ParseEvent(payload []byte, e *Event) error {
	d := decoder{src: payload}
	e.AcqNs = d.i64()
	return d.end("event")
}
