package segment

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/pentad-db/pentad/sdk/record"
)

// Layout of a rows entry, FORMAT.md section 2.
const (
	rowsHeaderBytes = 64
	keyBytes        = 4 + 8 + 4 + 8 // cid, mid, moid, cap
	variedPayloads  = math.MaxUint32
)

// RowsHeader precedes the rows of one batch and shard in the log. The acquisition times of the
// rows are consecutive from FirstAcqNs on.
type RowsHeader struct {
	Writer          [16]byte
	Seq             uint64
	FirstAcqNs      int64
	BatchFirstAcqNs int64  // first acq of the whole batch, for the answer to a retry
	BatchRecords    uint32 // records of the whole batch
	Parts           uint32 // entries that the batch was split into, all in one flush
}

// AppendRowsEntry appends the data of a log entry that holds rows: those numbered by rows, all
// of the batch when rows is nil. Acquisition times are not stored but for the first.
func AppendRowsEntry(dst []byte, h *RowsHeader, b *record.Batch, rows []uint32) []byte {
	n := b.Len()
	if rows != nil {
		n = len(rows)
	}
	stride := uint32(b.Stride)
	if b.Offsets != nil {
		stride = variedPayloads
	}
	dst = append(dst, h.Writer[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, h.Seq)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.FirstAcqNs))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.BatchFirstAcqNs))
	dst = binary.LittleEndian.AppendUint32(dst, h.BatchRecords)
	dst = binary.LittleEndian.AppendUint32(dst, h.Parts)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
	dst = binary.LittleEndian.AppendUint32(dst, stride)
	dst = binary.LittleEndian.AppendUint64(dst, 0)
	for k := range n {
		i := k
		if rows != nil {
			i = int(rows[k])
		}
		dst = binary.LittleEndian.AppendUint32(dst, uint32(b.CID[i]))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(b.MID[i]))
		dst = binary.LittleEndian.AppendUint32(dst, uint32(b.MOID[i]))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(b.CapNs[i]))
	}
	return appendPayloads(dst, b, rows)
}

func appendPayloads(dst []byte, b *record.Batch, rows []uint32) []byte {
	if b.Offsets == nil && rows == nil {
		return append(dst, b.Data...)
	}
	n := b.Len()
	if rows != nil {
		n = len(rows)
	}
	row := func(k int) int {
		if rows != nil {
			return int(rows[k])
		}
		return k
	}
	if b.Offsets != nil {
		for k := range n {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(len(b.Payload(row(k)))))
		}
	}
	for k := range n {
		dst = append(dst, b.Payload(row(k))...)
	}
	return dst
}

// ParseRowsEntry reads what AppendRowsEntry wrote into h and b, reusing b's memory; payloads are
// copied. The rows come stamped.
func ParseRowsEntry(src []byte, h *RowsHeader, b *record.Batch) error {
	if len(src) < rowsHeaderBytes {
		return fmt.Errorf("rows entry of %d bytes ends inside its header", len(src))
	}
	copy(h.Writer[:], src)
	h.Seq = binary.LittleEndian.Uint64(src[16:])
	h.FirstAcqNs = int64(binary.LittleEndian.Uint64(src[24:]))
	h.BatchFirstAcqNs = int64(binary.LittleEndian.Uint64(src[32:]))
	h.BatchRecords = binary.LittleEndian.Uint32(src[40:])
	h.Parts = binary.LittleEndian.Uint32(src[44:])
	n, stride := binary.LittleEndian.Uint32(src[48:]), binary.LittleEndian.Uint32(src[52:])
	if binary.LittleEndian.Uint64(src[56:]) != 0 {
		return fmt.Errorf("reserved bytes of a rows entry are not zero")
	}
	rest := src[rowsHeaderBytes:]
	if uint64(n) > uint64(len(rest)/keyBytes) {
		return fmt.Errorf("rows entry of %d bytes cannot hold %d rows", len(src), n)
	}
	b.Reset()
	acqs := b.AcqNs[:0]
	for i := range int(n) {
		k := rest[i*keyBytes : (i+1)*keyBytes]
		b.CID = append(b.CID, int32(binary.LittleEndian.Uint32(k)))
		b.MID = append(b.MID, int64(binary.LittleEndian.Uint64(k[4:])))
		b.MOID = append(b.MOID, int32(binary.LittleEndian.Uint32(k[12:])))
		b.CapNs = append(b.CapNs, int64(binary.LittleEndian.Uint64(k[16:])))
		acqs = append(acqs, h.FirstAcqNs+int64(i))
	}
	b.AcqNs = acqs
	return parsePayloads(rest[int(n)*keyBytes:], int(n), stride, b)
}

func parsePayloads(src []byte, n int, stride uint32, b *record.Batch) error {
	if stride != variedPayloads {
		if uint64(stride)*uint64(n) != uint64(len(src)) {
			return fmt.Errorf("%d payload bytes are not %d of %d bytes", len(src), n, stride)
		}
		b.Stride, b.Data = int(stride), append(b.Data[:0], src...)
		return nil
	}
	if n > len(src)/4 {
		return fmt.Errorf("rows entry ends inside %d payload sizes", n)
	}
	total := uint64(0)
	b.Offsets = make([]uint32, 1, n+1)
	for i := range n {
		total += uint64(binary.LittleEndian.Uint32(src[4*i:]))
		if total > uint64(len(src)-4*n) {
			return fmt.Errorf("payload %d ends after its entry", i)
		}
		b.Offsets = append(b.Offsets, uint32(total))
	}
	if total != uint64(len(src)-4*n) {
		return fmt.Errorf("%d bytes follow the last payload", uint64(len(src)-4*n)-total)
	}
	b.Data = append(b.Data[:0], src[4*n:]...)
	return nil
}
