package segment

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/sdk/record"
)

// Layout of a rows entry, FORMAT.md section 1.
const (
	rowsHeaderBytes  = 72
	rowsVersion      = 2  // 1: first; 2: tombstones
	rowsHaveTombs    = 1  // flag: a bitmap of tombstones follows the keys
	rowsHaveAcqs     = 2  // flag: a column of acquisition times follows the keys
	rowsShareAcqs    = 4  // flag: and some of them may be equal
	rowsPackedBefore = 8  // flag: columns are packed, without decimals; not read any more
	rowsPacked       = 16 // flag: columns are packed
	rowsPersistent   = 32 // flag: the writer is persistent
	rowsFlags        = rowsHaveTombs | rowsHaveAcqs | rowsShareAcqs | rowsPacked | rowsPersistent
	rowKeyBytes      = 8 + 8 + 4 + 4
	variedPayloads   = math.MaxUint32 // in place of the stride: a column of sizes follows the keys
)

// RowsHeader precedes the rows of one batch and shard in the log. The acquisition times of the
// rows are consecutive from FirstAcqNs on, unless it HasAcqs.
type RowsHeader struct {
	Writer          [16]byte // who sent the batch, zero when no one asked for exactly-once
	Seq             uint64   // the writer's number of the batch
	Persistent      bool     // of the writer
	FirstAcqNs      int64
	BatchFirstAcqNs int64  // first acq of the whole batch, for the answer to a retry
	BatchRecords    uint32 // records of the whole batch
	BatchEntries    uint32 // entries that the batch was split into, all in one log append
	HasAcqs         bool   // the rows bring ascending acquisition times; first is FirstAcqNs
	EqualAcqs       bool   // some of these may be equal
	Packed          bool   // columns are packed, for an entry that is sent and stored several times
}

// AppendRowsEntry appends the data of a log entry that holds the rows of b that rows names, all
// of them when rows is nil. Unless h.HasAcqs, only the first of their acquisition times is kept,
// in h.
//
// Cost: a copy; about 5 ns a row for payloads of 16 bytes.
func AppendRowsEntry(dst []byte, h *RowsHeader, b *record.Batch, rows []uint32) []byte {
	n, payloadBytes := b.Len(), len(b.Data)
	if rows != nil {
		n, payloadBytes = len(rows), sizeOf(b, rows)
	}
	stride := uint32(b.Stride)
	if b.Offsets != nil {
		stride = variedPayloads
	}
	tombs := hasTombs(b, rows)
	flags := uint32(0)
	if tombs {
		flags |= rowsHaveTombs
	}
	if h.HasAcqs {
		flags |= rowsHaveAcqs
	}
	if h.EqualAcqs {
		flags |= rowsShareAcqs
	}
	if h.Persistent {
		flags |= rowsPersistent
	}
	packed := h.Packed && !h.HasAcqs && canPack(uint64(n))
	if packed {
		flags |= rowsPacked
	}
	if !packed {
		dst = slices.Grow(dst, rowsHeaderBytes+n*(rowKeyBytes+8+5)+payloadBytes)
	}
	dst = binary.LittleEndian.AppendUint32(dst, rowsVersion)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(n))
	dst = append(dst, h.Writer[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, h.Seq)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.FirstAcqNs))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.BatchFirstAcqNs))
	dst = binary.LittleEndian.AppendUint32(dst, h.BatchRecords)
	dst = binary.LittleEndian.AppendUint32(dst, h.BatchEntries)
	dst = binary.LittleEndian.AppendUint32(dst, stride)
	dst = binary.LittleEndian.AppendUint32(dst, flags)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(payloadBytes))
	if packed {
		return appendPackedRows(dst, b, rows, n, tombs)
	}
	dst = appendInts(dst, b.MID, rows)
	dst = appendInts(dst, b.CapNs, rows)
	dst = appendInts(dst, b.CID, rows)
	dst = appendInts(dst, b.MOID, rows)
	if h.HasAcqs {
		dst = appendInts(dst, b.AcqNs, rows)
	}
	if tombs {
		dst = appendTombs(dst, b, rows, n)
	}
	return appendPayloads(dst, b, rows)
}

func hasTombs(b *record.Batch, rows []uint32) bool {
	if rows == nil || len(b.Tombs) == 0 {
		return b.CountTombs() > 0
	}
	return slices.ContainsFunc(rows, func(i uint32) bool { return b.Tomb(int(i)) })
}

// appendTombs appends a bit for each row.
func appendTombs(dst []byte, b *record.Batch, rows []uint32, n int) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, (n+7)/8)...)
	for k := range n {
		i := k
		if rows != nil {
			i = int(rows[k])
		}
		if b.Tomb(i) {
			dst[at+k>>3] |= 1 << (k & 7)
		}
	}
	return dst
}

func sizeOf(b *record.Batch, rows []uint32) int {
	if b.Offsets == nil {
		return len(rows) * b.Stride
	}
	total := 0
	for _, i := range rows {
		total += int(b.Offsets[i+1] - b.Offsets[i])
	}
	return total
}

// appendInts appends the values of a column that rows names, at their own width.
func appendInts[T int32 | int64 | uint32](dst []byte, values []T, rows []uint32) []byte {
	size := binary.Size(T(0))
	n := len(values)
	if rows != nil {
		n = len(rows)
	}
	at := len(dst)
	dst = slices.Grow(dst, n*size)[:at+n*size]
	out := dst[at:]
	for k := range n {
		i := k
		if rows != nil {
			i = int(rows[k])
		}
		if size == 8 {
			binary.LittleEndian.PutUint64(out[8*k:], uint64(values[i]))
		} else {
			binary.LittleEndian.PutUint32(out[4*k:], uint32(values[i]))
		}
	}
	return dst
}

// appendPayloads appends the sizes of varied payloads and then the bytes.
func appendPayloads(dst []byte, b *record.Batch, rows []uint32) []byte {
	if b.Offsets != nil {
		n := b.Len()
		if rows != nil {
			n = len(rows)
		}
		for k := range n {
			i := k
			if rows != nil {
				i = int(rows[k])
			}
			dst = binary.LittleEndian.AppendUint32(dst, b.Offsets[i+1]-b.Offsets[i])
		}
	}
	if rows == nil {
		return append(dst, b.Data...)
	}
	for _, i := range rows {
		dst = append(dst, b.RawPayload(int(i))...)
	}
	return dst
}

// ParseRowsEntry reads what AppendRowsEntry wrote into h and b; the rows come stamped. It copies,
// and reuses the memory of b.
//
// Errors: an entry that is cut short, too long or of another version; b is undefined then.
func ParseRowsEntry(src []byte, h *RowsHeader, b *record.Batch) error {
	if len(src) < rowsHeaderBytes {
		return fmt.Errorf("rows entry of %d bytes ends inside its header", len(src))
	}
	if v := binary.LittleEndian.Uint32(src); v != rowsVersion {
		if e := formats.Of("", "rows entry", uint64(v), rowsVersion); e != nil {
			return e
		}
		return fmt.Errorf("rows entry of version %d; this program reads version %d", v, rowsVersion)
	}
	copy(h.Writer[:], src[8:])
	h.Seq = binary.LittleEndian.Uint64(src[24:])
	h.FirstAcqNs = int64(binary.LittleEndian.Uint64(src[32:]))
	h.BatchFirstAcqNs = int64(binary.LittleEndian.Uint64(src[40:]))
	h.BatchRecords = binary.LittleEndian.Uint32(src[48:])
	h.BatchEntries = binary.LittleEndian.Uint32(src[52:])
	stride := binary.LittleEndian.Uint32(src[56:])
	flags := binary.LittleEndian.Uint32(src[60:])
	h.HasAcqs, h.EqualAcqs = flags&rowsHaveAcqs != 0, flags&rowsShareAcqs != 0
	h.Packed, h.Persistent = flags&rowsPacked != 0, flags&rowsPersistent != 0
	if flags&rowsPackedBefore != 0 {
		return fmt.Errorf("rows entry with flags %#x: an older version of pentad wrote it; "+
			"open it with that one", flags)
	}
	if flags&^rowsFlags != 0 || h.EqualAcqs && !h.HasAcqs {
		return fmt.Errorf("rows entry with flags %#x; this program knows %#x, and %#x only "+
			"with %#x", flags, rowsFlags, rowsShareAcqs, rowsHaveAcqs)
	}
	payloadBytes := binary.LittleEndian.Uint64(src[64:])
	rows := uint64(binary.LittleEndian.Uint32(src[4:]))
	rest := src[rowsHeaderBytes:]
	if h.FirstAcqNs > math.MaxInt64-int64(rows) {
		return fmt.Errorf("rows entry: acquisition times from %d on overflow", h.FirstAcqNs)
	}
	if h.Packed {
		return parsePackedRows(rest, h, packedShape{rows, stride, flags, payloadBytes}, b)
	}
	rowBytes := uint64(rowKeyBytes)
	if stride == variedPayloads {
		rowBytes += 4
	}
	if h.HasAcqs {
		rowBytes += 8
	}
	tombBytes := uint64(flags&rowsHaveTombs) * ((rows + 7) / 8)
	left := uint64(len(rest)) - rows*rowBytes
	if uint64(len(rest))/rowBytes < rows || left < tombBytes || left-tombBytes != payloadBytes {
		return fmt.Errorf("rows entry of %d bytes cannot hold %d rows with %d payload bytes",
			len(src), rows, payloadBytes)
	}
	n := int(rows)
	b.MID, rest = parseInts(b.MID, rest, n)
	b.CapNs, rest = parseInts(b.CapNs, rest, n)
	b.CID, rest = parseInts(b.CID, rest, n)
	b.MOID, rest = parseInts(b.MOID, rest, n)
	rest, err := parseAcqs(rest, h, b, n)
	if err != nil {
		return err
	}
	if b.Tombs, err = parseTombs(b.Tombs, rest[:tombBytes], n); err != nil {
		return err
	}
	return parsePayloads(rest[tombBytes:], n, stride, b)
}

// parseAcqs gives n rows their acquisition times.
func parseAcqs(src []byte, h *RowsHeader, b *record.Batch, n int) (rest []byte, err error) {
	if h.HasAcqs {
		b.AcqNs, src = parseInts(b.AcqNs, src, n)
		before := h.FirstAcqNs
		for i, acq := range b.AcqNs {
			if i == 0 && acq != before || acq < before || i > 0 && acq == before && !h.EqualAcqs ||
				acq == math.MaxInt64 {
				return nil, fmt.Errorf("rows entry: acquisition time %d of row %d does not "+
					"ascend from %d on", acq, i, h.FirstAcqNs)
			}
			before = acq
		}
		return src, nil
	}
	b.AcqNs = slices.Grow(b.AcqNs[:0], n)[:n]
	for i := range b.AcqNs {
		b.AcqNs[i] = h.FirstAcqNs + int64(i)
	}
	return src, nil
}

// parseTombs reads a bitmap of n bits, if there is one, into the memory of dst. One without a bit
// is not written.
func parseTombs(dst []uint64, src []byte, n int) (tombs []uint64, err error) {
	dst, any := dst[:0], byte(0)
	if len(src) == 0 {
		return dst, nil
	}
	for i, v := range src {
		if i&7 == 0 {
			dst = append(dst, 0)
		}
		dst[i>>3] |= uint64(v) << (i & 7 * 8)
		any |= v
	}
	if any == 0 || n&63 != 0 && dst[len(dst)-1]>>(n&63) != 0 {
		return dst, fmt.Errorf("rows entry: no tombstones, or some beyond its %d rows", n)
	}
	return dst, nil
}

// parseInts reads n values into the memory of dst.
func parseInts[T int32 | int64 | uint32](dst []T, src []byte, n int) (values []T, rest []byte) {
	dst = slices.Grow(dst[:0], n)[:n]
	if binary.Size(T(0)) == 8 {
		for i := range dst {
			dst[i] = T(binary.LittleEndian.Uint64(src[8*i:]))
		}
		return dst, src[8*n:]
	}
	for i := range dst {
		dst[i] = T(binary.LittleEndian.Uint32(src[4*i:]))
	}
	return dst, src[4*n:]
}

func parsePayloads(src []byte, n int, stride uint32, b *record.Batch) error {
	if stride != variedPayloads {
		if uint64(stride)*uint64(n) != uint64(len(src)) {
			return fmt.Errorf("rows entry: %d payload bytes are not %d of %d bytes",
				len(src), n, stride)
		}
		b.Stride, b.Offsets = int(stride), nil
		b.Data = append(b.Data[:0], src...)
		return nil
	}
	data := src[4*n:]
	b.Stride, b.Offsets = 0, slices.Grow(b.Offsets[:0], n+1)[:n+1]
	b.Offsets[0] = 0
	total := uint64(0)
	for i := range n {
		total += uint64(binary.LittleEndian.Uint32(src[4*i:]))
		if total > uint64(len(data)) || total > math.MaxUint32 {
			return fmt.Errorf("rows entry: payload %d ends after its entry", i)
		}
		b.Offsets[i+1] = uint32(total)
	}
	if total != uint64(len(data)) {
		return fmt.Errorf("rows entry: %d bytes follow the last payload", uint64(len(data))-total)
	}
	b.Data = append(b.Data[:0], data...)
	return nil
}

// StampBytes is how many bytes of an entry, at its beginning, StampRowsEntry looks at.
const StampBytes = 48

// StampRowsEntry gives the rows of an entry consecutive acquisition times from firstAcqNs on; those
// of the whole batch begin with batchFirstAcqNs.
func StampRowsEntry(entry []byte, firstAcqNs, batchFirstAcqNs int64) {
	binary.LittleEndian.PutUint64(entry[32:], uint64(firstAcqNs))
	binary.LittleEndian.PutUint64(entry[40:], uint64(batchFirstAcqNs))
}
