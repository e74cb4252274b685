package record

import "math"

// Batch holds records as columns of equal length.
//
// Payloads lie one after another in Data. With Offsets nil every payload has Stride bytes (0 when
// payloads were not asked for or are all empty); otherwise payload i is
// Data[Offsets[i]:Offsets[i+1]] and Stride is 0. AcqNs is nil in a batch that has not been stamped.
//
// Tombs has a bit for each record that is a tombstone; words that are not there are zero. Whatever
// bytes lie in the place of its payload, to keep a batch dense, its payload is empty.
//
// Series is empty, or has the series of all records as runs, in the place of CID, MID and MOID:
// these then have their length, and whatever values until FillKeys is called. Scans make such
// batches for plugins that ask for it; they are read, not appended to.
//
// A batch owns its slices; what its methods return aliases them.
type Batch struct {
	CID    []int32
	MID    []int64
	MOID   []int32
	CapNs  []int64
	AcqNs  []int64
	Tombs  []uint64
	Series []SeriesRun

	Stride  int
	Offsets []uint32
	Data    []byte
}

// Len returns the number of records.
func (b *Batch) Len() int { return len(b.CID) }

// Payload returns payload i, aliasing the batch.
func (b *Batch) Payload(i int) []byte {
	if len(b.Tombs) > 0 && b.Tomb(i) {
		return nil
	}
	return b.RawPayload(i)
}

// RawPayload returns the bytes where payload i lies, aliasing the batch. Those of a tombstone mean
// nothing.
func (b *Batch) RawPayload(i int) []byte {
	if b.Offsets == nil {
		return b.Data[i*b.Stride : (i+1)*b.Stride : (i+1)*b.Stride]
	}
	return b.Data[b.Offsets[i]:b.Offsets[i+1]:b.Offsets[i+1]]
}

// Key returns key i; its AcqNs is 0 in a batch without acquisition times.
func (b *Batch) Key(i int) Key {
	k := Key{CID: b.CID[i], MID: b.MID[i], MOID: b.MOID[i], CapNs: b.CapNs[i]}
	if b.AcqNs != nil {
		k.AcqNs = b.AcqNs[i]
	}
	return k
}

// Record returns record i, aliasing the batch.
func (b *Batch) Record(i int) Record {
	return Record{Key: b.Key(i), Payload: b.Payload(i), Tomb: b.Tomb(i)}
}

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {
	b.CID, b.MID, b.MOID = b.CID[:0], b.MID[:0], b.MOID[:0]
	b.CapNs, b.Data, b.Tombs = b.CapNs[:0], b.Data[:0], b.Tombs[:0]
	b.Series = b.Series[:0]
	if b.AcqNs != nil {
		b.AcqNs = b.AcqNs[:0]
	}
	b.Stride, b.Offsets = 0, nil
}

// Append adds one unstamped record, copying the payload. Payloads of equal length stay in the
// dense form without offsets.
func (b *Batch) Append(k Key, payload []byte) {
	if len(b.AcqNs) == 0 {
		b.AcqNs = nil // the memory that Reset kept; stamps that a caller laid ready stay
	}
	b.appendKey(k, payload)
}

func (b *Batch) appendKey(k Key, payload []byte) {
	b.appendPayload(payload)
	b.appendParts(k)
}

func (b *Batch) appendParts(k Key) {
	b.CID = append(b.CID, k.CID)
	b.MID = append(b.MID, k.MID)
	b.MOID = append(b.MOID, k.MOID)
	b.CapNs = append(b.CapNs, k.CapNs)
}

// AppendStamped adds one record with its acquisition time. A batch takes either stamped or
// unstamped records, never both.
func (b *Batch) AppendStamped(k Key, payload []byte) {
	b.appendKey(k, payload)
	b.AcqNs = append(b.AcqNs, k.AcqNs)
}

func (b *Batch) appendPayload(payload []byte) {
	n := len(b.CID)
	if n == 0 {
		b.Stride, b.Offsets = len(payload), nil
	} else if b.Offsets == nil && len(payload) != b.Stride {
		if b.onlyTombs() && len(payload) <= maxTombBytes {
			b.fillTombs(len(payload))
		} else {
			b.vary(n + 1)
		}
	}
	b.Data = append(b.Data, payload...)
	if b.Offsets != nil {
		b.Offsets = append(b.Offsets, uint32(len(b.Data)))
	}
}

// vary gives a dense batch offsets, with space for those of this many more records.
func (b *Batch) vary(more int) {
	n := len(b.CID)
	b.Offsets = make([]uint32, n+1, n+1+more)
	for i := range b.Offsets {
		b.Offsets[i] = uint32(i * b.Stride)
	}
	b.Stride = 0
}

// Validate checks a batch that is to be stored: column lengths, parts, payload sizes, limits.
// The error is an [*InvalidError] that names row and part. It does not look at AcqNs.
func (b *Batch) Validate() error {
	n := b.Len()
	if n == 0 {
		return invalid("batch", EmptyRange, "holds no records")
	}
	if n > MaxBatchRecords {
		return invalid("batch", TooMany, "%d records, at most %d", n, MaxBatchRecords)
	}
	if err := b.CheckShape(); err != nil {
		return err
	}
	if len(b.Data) > MaxBatchBytes {
		return invalid("payload", TooLarge, "batch holds %d payload bytes, at most %d",
			len(b.Data), MaxBatchBytes)
	}
	if b.isPlain() {
		return nil
	}
	for i := range n {
		if err := b.checkRow(i); err != nil {
			err.Row = i
			return err
		}
	}
	return nil
}

// isPlain reports whether every row is right at a first look, which goes column by column.
func (b *Batch) isPlain() bool {
	if b.Offsets != nil || b.Stride > MaxPayloadBytes || len(b.Tombs) > 0 {
		return false
	}
	for i, cid := range b.CID {
		if uint32(cid) >= math.MaxInt32 || b.MOID[i] == math.MaxInt32 {
			return false
		}
	}
	for i, mid := range b.MID {
		if mid == math.MaxInt64 || b.CapNs[i] == math.MaxInt64 {
			return false
		}
	}
	return true
}

// CheckShape checks that the columns fit together, without looking at values.
func (b *Batch) CheckShape() error {
	n := b.Len()
	if len(b.MID) != n || len(b.MOID) != n || len(b.CapNs) != n ||
		(b.AcqNs != nil && len(b.AcqNs) != n) {
		return invalid("batch", Inconsistent, "columns differ in length")
	}
	if err := b.checkTombs(); err != nil {
		return err
	}
	if err := b.checkSeries(); err != nil {
		return err
	}
	if b.Offsets == nil {
		// Divided, for the product of a lying stride may wrap around to the right size.
		if b.Stride < 0 || n == 0 && len(b.Data) > 0 ||
			n > 0 && (len(b.Data)%n != 0 || len(b.Data)/n != b.Stride) {
			return invalid("payload", Inconsistent, "%d bytes are not %d payloads of %d bytes",
				len(b.Data), n, b.Stride)
		}
		return nil
	}
	if b.Stride != 0 {
		return invalid("payload", Inconsistent, "with offsets the stride is 0, not %d", b.Stride)
	}
	if len(b.Offsets) != n+1 || b.Offsets[0] != 0 || uint64(b.Offsets[n]) != uint64(len(b.Data)) {
		return invalid("payload", Inconsistent, "offsets do not span the data")
	}
	for i := range n {
		if b.Offsets[i] > b.Offsets[i+1] {
			return invalid("payload", Inconsistent, "offsets of row %d run backwards", i)
		}
	}
	return nil
}

func (b *Batch) checkRow(i int) *InvalidError {
	switch {
	case b.CID[i] < 0:
		return invalid("cid", OutOfRange, "%d is negative; cids start at 0", b.CID[i])
	case b.CID[i] == math.MaxInt32:
		return reserved(CID)
	case b.MID[i] == math.MaxInt64:
		return reserved(MID)
	case b.MOID[i] == math.MaxInt32:
		return reserved(MOID)
	case b.CapNs[i] == math.MaxInt64:
		return reserved(Cap)
	}
	if size := len(b.RawPayload(i)); size > MaxPayloadBytes {
		return invalid("payload", TooLarge, "%d bytes, at most %d", size, MaxPayloadBytes)
	}
	if len(b.Tombs) > 0 && b.Tomb(i) {
		return b.checkTomb(i)
	}
	return nil
}

func reserved(d Dim) *InvalidError {
	return invalid(d.String(), ReservedMaximum, "%d means \"no end\" and cannot be stored", d.Max())
}
