package record

import (
	"math/bits"
	"slices"
)

// maxTombBytes is the most that a tombstone takes to keep a batch dense. With larger payloads,
// offsets cost less than what is saved.
const maxTombBytes = 128

// Tomb reports whether record i is a tombstone: a version that says that there is nothing.
func (b *Batch) Tomb(i int) bool {
	word := i >> 6
	return word < len(b.Tombs) && b.Tombs[word]>>(i&63)&1 != 0
}

// SetTomb makes record i, which is there or comes next, a tombstone.
func (b *Batch) SetTomb(i int) {
	for i>>6 >= len(b.Tombs) {
		b.Tombs = append(b.Tombs, 0)
	}
	b.Tombs[i>>6] |= 1 << (i & 63)
}

// CountTombs returns how many of the records are tombstones.
func (b *Batch) CountTombs() int {
	n := 0
	for _, word := range b.Tombs {
		n += bits.OnesCount64(word)
	}
	return n
}

// AppendTomb adds one unstamped tombstone. A dense batch stays dense.
func (b *Batch) AppendTomb(k Key) {
	if len(b.AcqNs) == 0 {
		b.AcqNs = nil
	}
	b.appendTomb(k)
}

// AppendRecord adds one unstamped record or tombstone, copying the payload.
func (b *Batch) AppendRecord(r Record) {
	if r.Tomb {
		b.AppendTomb(r.Key)
	} else {
		b.Append(r.Key, r.Payload)
	}
}

// AppendStampedTomb adds one tombstone with its acquisition time.
func (b *Batch) AppendStampedTomb(k Key) {
	b.appendTomb(k)
	b.AcqNs = append(b.AcqNs, k.AcqNs)
}

func (b *Batch) appendTomb(k Key) {
	n := len(b.CID)
	if n == 0 {
		b.Stride, b.Offsets = 0, nil
	}
	if b.Offsets == nil && b.Stride > maxTombBytes {
		b.vary(n + 1)
	}
	if b.Offsets != nil {
		b.Offsets = append(b.Offsets, uint32(len(b.Data)))
	} else {
		b.Data = appendZeros(b.Data, b.Stride)
	}
	b.SetTomb(n)
	b.appendParts(k)
}

// AppendRow adds record i of another batch, copying it, with its acquisition time if it has one.
func (b *Batch) AppendRow(from *Batch, i int) {
	k := from.Key(i)
	switch stamped, tomb := from.AcqNs != nil, from.Tomb(i); {
	case stamped && tomb:
		b.AppendStampedTomb(k)
	case stamped:
		b.AppendStamped(k, from.Payload(i))
	case tomb:
		b.AppendTomb(k)
	default:
		b.Append(k, from.Payload(i))
	}
}

// MoveRange copies the n records from one on to place to, to < from, where everything between the
// two is to vanish.
func (b *Batch) MoveRange(to, from, n int) {
	b.FillKeys()
	copy(b.CID[to:to+n], b.CID[from:])
	copy(b.MID[to:to+n], b.MID[from:])
	copy(b.MOID[to:to+n], b.MOID[from:])
	copy(b.CapNs[to:to+n], b.CapNs[from:])
	if b.AcqNs != nil {
		copy(b.AcqNs[to:to+n], b.AcqNs[from:])
	}
	if len(b.Tombs) > 0 {
		for i := range n {
			b.moveTomb(to+i, from+i)
		}
	}
	if b.Offsets == nil {
		copy(b.Data[to*b.Stride:(to+n)*b.Stride], b.Data[from*b.Stride:])
		return
	}
	first, shift := b.Offsets[from], b.Offsets[from]-b.Offsets[to]
	copy(b.Data[b.Offsets[to]:], b.Data[first:b.Offsets[from+n]])
	for i := range n {
		b.Offsets[to+i+1] = b.Offsets[from+i+1] - shift
	}
}

// Move copies record from to place to, to < from, where everything between the two is to vanish.
func (b *Batch) Move(to, from int) {
	b.FillKeys()
	b.CID[to], b.MID[to], b.MOID[to] = b.CID[from], b.MID[from], b.MOID[from]
	b.CapNs[to] = b.CapNs[from]
	if b.AcqNs != nil {
		b.AcqNs[to] = b.AcqNs[from]
	}
	if len(b.Tombs) > 0 {
		b.moveTomb(to, from)
	}
	if b.Offsets == nil {
		copy(b.Data[to*b.Stride:(to+1)*b.Stride], b.Data[from*b.Stride:])
		return
	}
	size := b.Offsets[from+1] - b.Offsets[from]
	copy(b.Data[b.Offsets[to]:], b.Data[b.Offsets[from]:b.Offsets[from+1]])
	b.Offsets[to+1] = b.Offsets[to] + size
}

func (b *Batch) moveTomb(to, from int) {
	if b.Tomb(from) {
		b.SetTomb(to)
	} else if b.Tomb(to) {
		b.Tombs[to>>6] &^= 1 << (to & 63)
	}
}

// Head returns the first n records, aliasing the batch.
func (b *Batch) Head(n int) *Batch {
	h := &Batch{CID: b.CID[:n], MID: b.MID[:n], MOID: b.MOID[:n], CapNs: b.CapNs[:n],
		Stride: b.Stride}
	if b.AcqNs != nil {
		h.AcqNs = b.AcqNs[:n]
	}
	if b.CountTombs() > 0 {
		h.Tombs = firstTombs(slices.Clone(b.Tombs), n)
	}
	h.Series = slices.Clone(b.Series)
	h.Series = h.truncateSeries(n)
	if b.Offsets == nil {
		h.Data = b.Data[:n*b.Stride]
		return h
	}
	h.Offsets = b.Offsets[:n+1]
	h.Data = b.Data[:h.Offsets[n]]
	return h
}

// Truncate cuts a batch to its first n records.
func (b *Batch) Truncate(n int) {
	b.CID, b.MID, b.MOID = b.CID[:n], b.MID[:n], b.MOID[:n]
	b.CapNs = b.CapNs[:n]
	if b.AcqNs != nil {
		b.AcqNs = b.AcqNs[:n]
	}
	b.Tombs = firstTombs(b.Tombs, n)
	b.Series = b.truncateSeries(n)
	if b.Offsets == nil {
		b.Data = b.Data[:n*b.Stride]
		return
	}
	b.Offsets = b.Offsets[:n+1]
	b.Data = b.Data[:b.Offsets[n]]
}

// firstTombs cuts a bitmap to n bits, in place.
func firstTombs(tombs []uint64, n int) []uint64 {
	if words := (n + 63) >> 6; len(tombs) >= words {
		tombs = tombs[:words]
		if words > 0 && n&63 != 0 {
			tombs[words-1] &= 1<<(n&63) - 1
		}
	}
	return tombs
}

// onlyTombs reports whether a batch holds nothing but tombstones without bytes in their places.
func (b *Batch) onlyTombs() bool {
	return b.Offsets == nil && len(b.Data) == 0 && b.CountTombs() == len(b.CID)
}

// fillTombs makes a dense batch without bytes that holds nothing but tombstones one of payloads of
// size bytes.
func (b *Batch) fillTombs(size int) {
	b.Stride = size
	b.Data = appendZeros(b.Data, size*len(b.CID))
}

func appendZeros(dst []byte, n int) []byte {
	at := len(dst)
	dst = slices.Grow(dst, n)[:at+n]
	clear(dst[at:])
	return dst
}

// checkTombs checks that the bitmap has no bits beyond the records.
func (b *Batch) checkTombs() error {
	n := b.Len()
	words := (n + 63) >> 6
	if len(b.Tombs) > words || len(b.Tombs) == words && n&63 != 0 && b.Tombs[words-1]>>(n&63) != 0 {
		return invalid("batch", Inconsistent, "the bitmap of tombstones has bits beyond %d records",
			n)
	}
	return nil
}

// checkTomb checks that the bytes in the place of a tombstone's payload, which keep a batch dense,
// say nothing.
func (b *Batch) checkTomb(i int) *InvalidError {
	for _, v := range b.RawPayload(i) {
		if v != 0 {
			return invalid("payload", Inconsistent, "a tombstone has no payload")
		}
	}
	return nil
}
