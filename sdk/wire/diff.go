package wire

import (
	"encoding/binary"
	"math"

	"github.com/pentad-db/pentad/sdk/record"
)

// Types of frames that ask for and tell of versions.
const (
	FrameDiff        FrameType = 16
	FrameDifferences FrameType = 17
	FrameVersions    FrameType = 18
)

// AppendDiff appends a diff frame: from i64, to i64, box, then the selector, if there is one, with
// a length u32 before it.
func AppendDiff(dst []byte, d *record.Diff) []byte {
	dst, start := beginFrame(dst, FrameDiff)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(d.FromNs))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(d.ToNs))
	return endFrame(appendSelect(appendBox(dst, &d.Box), d.Select), start)
}

// ParseDiff reads a body that is one diff frame, and normalizes the diff.
//
// Errors: *Error for the frame, *record.InvalidError for the diff.
func ParseDiff(src []byte, out *record.Diff) error {
	payload, err := expect(src, FrameDiff)
	if err != nil {
		return err
	}
	d := &decoder{src: payload}
	*out = record.Diff{FromNs: d.i64(), ToNs: d.i64()}
	if err := parseBox(d, &out.Box); err != nil {
		return err
	}
	if out.Select, err = parseSelect(d); err != nil {
		return err
	}
	if err := d.end("diff"); err != nil {
		return err
	}
	return out.Normalize()
}

// AppendDifferences appends a differences frame: kind u8, zero [7], unless the readings were added
// the old records, a stamped batch with a length u32 before it, then the new records, a stamped
// batch.
func AppendDifferences(dst []byte, d *record.Differences) ([]byte, error) {
	dst, start := beginFrame(dst, FrameDifferences)
	dst = append(dst, byte(d.Kind), 0, 0, 0, 0, 0, 0, 0)
	var err error
	if d.Kind != record.DiffAdded {
		if dst, err = appendSizedBatch(dst, &d.Old); err != nil {
			return nil, err
		}
	}
	if dst, err = appendBatch(dst, &d.New); err != nil {
		return nil, err
	}
	return endFrame(dst, start), nil
}

func appendSizedBatch(dst []byte, b *record.Batch) ([]byte, error) {
	at := len(dst)
	dst, err := appendBatch(append(dst, 0, 0, 0, 0), b)
	if err == nil {
		binary.LittleEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	}
	return dst, err
}

// ParseDifferences reads the payload of a differences frame into out, reusing its memory.
func ParseDifferences(payload []byte, out *record.Differences) error {
	d := &decoder{src: payload}
	kind := d.u64()
	if kind < uint64(record.DiffAdded) || kind > uint64(record.DiffDeleted) {
		return badFrame("differences of kind %#x; there are kinds 1 to 3, and zeros follow", kind)
	}
	out.Reset()
	out.Kind = record.DiffKind(kind)
	if out.Kind != record.DiffAdded {
		old := d.bytes()
		if d.short {
			return badFrame("differences end inside the old records")
		}
		if err := ParseRows(old, &out.Old); err != nil {
			return err
		}
	}
	if err := ParseRows(d.src, &out.New); err != nil {
		return err
	}
	if out.Kind != record.DiffAdded && out.Old.Len() != out.New.Len() {
		return badFrame("%d old records beside %d new ones", out.Old.Len(), out.New.Len())
	}
	return nil
}

// AppendVersions appends a versions frame: a stamped batch with a length u32 before it, a column of
// what hides the versions, and a bitmap of which are the latest.
func AppendVersions(dst []byte, versions []record.Version) ([]byte, error) {
	var b record.Batch
	bits := make([]byte, (len(versions)+7)/8)
	hidden := make([]uint64, len(versions))
	for i := range versions {
		v := &versions[i]
		if v.Tomb {
			b.AppendStampedTomb(v.Key)
		} else {
			b.AppendStamped(v.Key, v.Payload)
		}
		hidden[i] = uint64(v.HiddenAcqNs)
		bits[i/8] |= boolByte(v.Latest) << (i % 8)
	}
	dst, start := beginFrame(dst, FrameVersions)
	dst, err := appendSizedBatch(dst, &b)
	if err != nil {
		return nil, err
	}
	c := codecs.Get().(*codec)
	defer codecs.Put(c)
	dst = c.append(dst, hidden)
	return endFrame(append(dst, bits...), start), nil
}

// ParseVersions reads the payload of a versions frame. The versions alias nothing of it.
func ParseVersions(payload []byte) ([]record.Version, error) {
	d := &decoder{src: payload}
	rows := d.bytes()
	if d.short {
		return nil, badFrame("versions end inside their records")
	}
	var b record.Batch
	if err := ParseRows(rows, &b); err != nil {
		return nil, err
	}
	c := codecs.Get().(*codec)
	defer codecs.Put(c)
	n := b.Len()
	if err := c.parse(d, n); err != nil {
		return nil, err
	}
	bits := d.take(uint64(n+7) / 8)
	if err := d.end("versions"); err != nil {
		return nil, err
	}
	if last := bits[len(bits)-1]; n&7 != 0 && last>>(n&7) != 0 {
		return nil, badFrame("a latest version beyond the %d records", n)
	}
	out := make([]record.Version, n)
	for i, hidden := range c.values {
		if hidden > math.MaxInt64 {
			return nil, badFrame("version %d is hidden by acq %#x", i, hidden)
		}
		out[i] = record.Version{Record: b.Record(i), HiddenAcqNs: int64(hidden),
			Latest: bits[i/8]>>(i%8)&1 != 0}
	}
	return out, nil
}
