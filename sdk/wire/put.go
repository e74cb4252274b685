package wire

import (
	"encoding/binary"

	"github.com/pentad-db/pentad/sdk/record"
)

// Put is a batch to be stored. A zero Writer asks for no protection against doubling.
type Put struct {
	Writer     [16]byte
	Seq        uint64
	Persistent bool // of the writer, see [record.Writer]
	Batch      *record.Batch
	// Reserve is asked by ParsePut, unless it is nil, before payloads are copied or decompressed to
	// that many bytes. Its error is returned.
	Reserve func(bytes uint64) error
}

// AppendPut appends a put frame: writer [16], sequence u64, batch. The type of the frame says
// whether the writer is persistent.
func AppendPut(dst []byte, p *Put) ([]byte, error) {
	t := FramePut
	if p.Persistent {
		t = FramePersistentPut
	}
	dst, start := beginFrame(dst, t)
	dst = append(dst, p.Writer[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, p.Seq)
	dst, err := appendBatch(dst, p.Batch)
	if err != nil {
		return nil, err
	}
	return endFrame(dst, start), nil
}

// ParsePut reads a body that is one put frame. The memory of p.Batch is reused when there is one.
// The batch has the right shape; its values are not checked.
func ParsePut(src []byte, p *Put) error {
	want := FramePut
	if p.Persistent = len(src) > 2 && FrameType(src[2]) == FramePersistentPut; p.Persistent {
		want = FramePersistentPut
	}
	payload, err := expect(src, want)
	if err != nil {
		return err
	}
	d := decoder{src: payload}
	copy(p.Writer[:], d.take(16))
	p.Seq = d.u64()
	switch {
	case d.short:
		return badFrame("put ends early")
	case p.Persistent && p.Writer == [16]byte{}:
		return badFrame("a put of a persistent writer has the zero writer id")
	}
	if p.Batch == nil {
		p.Batch = new(record.Batch)
	}
	return parseBatch(d.src, p.Batch, p.Reserve)
}

// PutReply is the answer to a put.
type PutReply struct {
	FirstAcqNs, LastAcqNs int64
	Records               uint32
	Duplicate             bool
}

// AppendPutReply appends a put reply frame: first i64, last i64, records u32, duplicate u8, zero
// [3].
func AppendPutReply(dst []byte, r *PutReply) []byte {
	dst, start := beginFrame(dst, FramePutReply)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(r.FirstAcqNs))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(r.LastAcqNs))
	dst = binary.LittleEndian.AppendUint32(dst, r.Records)
	return endFrame(append(dst, boolByte(r.Duplicate), 0, 0, 0), start)
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// ParsePutReply reads the payload of a put reply frame.
func ParsePutReply(payload []byte, r *PutReply) error {
	d := decoder{src: payload}
	r.FirstAcqNs, r.LastAcqNs, r.Records = d.i64(), d.i64(), d.u32()
	duplicate := d.u8()
	r.Duplicate = duplicate == 1
	if d.u8() != 0 || d.u16() != 0 || duplicate > 1 {
		return badFrame("reserved bytes of a put reply are not zero")
	}
	return d.end("put reply")
}

// AppendRows appends a rows frame with a stamped batch.
func AppendRows(dst []byte, b *record.Batch) ([]byte, error) {
	return appendRows(dst, FrameRows, b)
}

// AppendOpenRows appends a frame with rows of changes after which others follow that have the acq
// of the last one. Its payload is that of a rows frame.
func AppendOpenRows(dst []byte, b *record.Batch) ([]byte, error) {
	return appendRows(dst, FrameOpenRows, b)
}

func appendRows(dst []byte, t FrameType, b *record.Batch) ([]byte, error) {
	dst, start := beginFrame(dst, t)
	dst, err := appendBatch(dst, b)
	if err != nil {
		return nil, err
	}
	return endFrame(dst, start), nil
}

// ParseRows reads the payload of a frame of rows, or of open rows, into b, reusing its memory.
func ParseRows(payload []byte, b *record.Batch) error {
	if err := parseBatch(payload, b, nil); err != nil {
		return err
	}
	if b.AcqNs == nil {
		return badFrame("rows of an answer carry no acq")
	}
	return nil
}
