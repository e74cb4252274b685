package wal

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/pentad-db/pentad/node/internal/formats"
	"github.com/pentad-db/pentad/node/internal/sector"
	"github.com/pentad-db/pentad/sdk/crc32c"
)

// Layout of a log file, FORMAT.md.
const (
	magic       = 0x314c5450 // "PTL1"
	version     = 2          // 1: first; 2: whole sectors, masked; a checksum of the header
	headerBytes = 48         // magic u32, version u16, unsynced u16, number u64, start
	//                               u64, size u64, entries u32, nearZero u32, crc u32 of what
	//                               follows the header, crc u32 of the header before it
	entryHeaderBytes = 28 // bytes u32, shard u32, term u64, lsn u64, kind u8, zero [3]
)

const (
	// maxAppendBytes bounds one append: some of the largest batches at once. A larger length in a
	// file is damage.
	maxAppendBytes = 1 << 30
	// maxUnsynced bounds the appends that wait for a sync: the header of an append counts them.
	maxUnsynced = math.MaxUint16
)

// Entry is one entry of the log. Data is opaque; what Append gets stays the caller's, what replay
// hands out is valid during the call.
type Entry struct {
	Shard uint32
	Term  uint64
	LSN   uint64 // log sequence number: its caller counts the entries of a shard
	Kind  uint8
	Data  []byte
	Rest  []byte // of the data, for Append: what lies elsewhere; replay hands out none
}

func (e *Entry) size() int { return entryHeaderBytes + len(e.Data) + len(e.Rest) }

// encodeAppend appends an append that starts at an offset of its file; unsynced appends before it
// wait for a sync, and size is that of its entries.
func encodeAppend(
	dst []byte, number, unsynced, start uint64, entries []Entry, size int,
) []byte {
	at := len(dst)
	whole := int(sector.Round(headerBytes + uint64(size)))
	dst = slices.Grow(dst, whole)
	dst = dst[:at+headerBytes]
	for i := range entries {
		e := &entries[i]
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(e.Data)+len(e.Rest)))
		dst = binary.LittleEndian.AppendUint32(dst, e.Shard)
		dst = binary.LittleEndian.AppendUint64(dst, e.Term)
		dst = binary.LittleEndian.AppendUint64(dst, e.LSN)
		dst = append(dst, e.Kind, 0, 0, 0)
		dst = append(append(dst, e.Data...), e.Rest...)
	}
	end := len(dst)
	dst = dst[:at+whole]
	clear(dst[end:])
	head, body := dst[at:at+headerBytes], dst[at+headerBytes:]
	sector.Mask(body)
	binary.LittleEndian.PutUint32(head, magic)
	binary.LittleEndian.PutUint16(head[4:], version)
	binary.LittleEndian.PutUint16(head[6:], uint16(unsynced))
	binary.LittleEndian.PutUint64(head[8:], number)
	binary.LittleEndian.PutUint64(head[16:], start)
	binary.LittleEndian.PutUint64(head[24:], uint64(end-at-headerBytes))
	binary.LittleEndian.PutUint32(head[32:], uint32(len(entries)))
	binary.LittleEndian.PutUint32(head[36:], sector.NearZero(dst[at+sector.Size:]))
	binary.LittleEndian.PutUint32(head[40:], crc32c.Sum(body))
	binary.LittleEndian.PutUint32(head[44:], crc32c.Sum(head[:44]))
	return dst
}

// StartsFile reports whether a file that starts so is a log file.
func StartsFile(start []byte) bool {
	return len(start) >= 4 && binary.LittleEndian.Uint32(start) == magic
}

// rawAppend is an append whose checksums hold; body aliases the file.
type rawAppend struct {
	number   uint64
	unsynced uint64 // appends just before it that were not known to be synced
	entries  uint32
	size     uint64 // of the entries
	bytes    uint64 // of the append in the file
	body     []byte // masked entries and padding, until unmask
}

// unmask returns the entries. It changes the bytes that were parsed, so it is called once.
func (a *rawAppend) unmask() []byte {
	sector.Mask(a.body)
	return a.body[:a.size]
}

// appendError says why no append can be read at an offset. Torn: a part of it never reached the
// disk, so the write was not acknowledged, unless a later append says that this one was synced.
type appendError struct {
	reason string
	torn   bool
	other  *formats.Error // it is whole, and of another version; nil: it is not
}

// of returns the error of an append of another version in a file; nil of damage.
func (e *appendError) of(file string) error {
	if e.other == nil {
		return nil
	}
	return formats.In(file, e.other)
}

func parseAppend(data []byte, at uint64) (rawAppend, *appendError) {
	src := data[at:]
	damaged := func(format string, args ...any) (rawAppend, *appendError) {
		return rawAppend{}, &appendError{reason: fmt.Sprintf(format, args...)}
	}
	torn := func(format string, args ...any) (rawAppend, *appendError) {
		return rawAppend{}, &appendError{torn: true, reason: fmt.Sprintf(format, args...)}
	}
	if sector.IsZero(src[:min(sector.Size, len(src))]) {
		return torn("the first sector of an append is not written")
	}
	if len(src) < headerBytes {
		return torn("the file ends inside the header of an append")
	}
	if binary.LittleEndian.Uint32(src) != magic {
		return damaged("no append starts here")
	}
	if isVersion1(src) {
		return rawAppend{}, &appendError{reason: "append of version 1",
			other: formats.Of("", "", 1, version)}
	}
	if crc32c.Sum(src[:44]) != binary.LittleEndian.Uint32(src[44:]) {
		return damaged("the checksum of the header of an append differs")
	}
	if v := binary.LittleEndian.Uint16(src[4:]); v != version {
		return rawAppend{}, &appendError{other: formats.Of("", "", uint64(v), version),
			reason: fmt.Sprintf("append of version %d; this program reads version %d", v,
				version)}
	}
	if binary.LittleEndian.Uint64(src[16:]) != at {
		return damaged("the append was written for another offset")
	}
	a := rawAppend{number: binary.LittleEndian.Uint64(src[8:]),
		unsynced: uint64(binary.LittleEndian.Uint16(src[6:])),
		entries:  binary.LittleEndian.Uint32(src[32:]), size: binary.LittleEndian.Uint64(src[24:])}
	if a.size > maxAppendBytes {
		return damaged("an append of %d bytes, at most %d", a.size, maxAppendBytes)
	}
	if a.unsynced >= a.number {
		return damaged("append %d cannot follow %d that were not synced", a.number, a.unsynced)
	}
	a.bytes = sector.Round(headerBytes + a.size)
	if a.bytes > uint64(len(src)) {
		return torn("the file ends inside an append")
	}
	a.body = src[headerBytes:a.bytes:a.bytes]
	if crc32c.Sum(a.body) == binary.LittleEndian.Uint32(src[40:]) {
		return a, nil
	}
	zero := sector.Zero(src[sector.Size:a.bytes])
	if nearZeroSectors := binary.LittleEndian.Uint32(src[36:]); zero > nearZeroSectors {
		return torn("%d of the %d sectors of an append are not written", zero-nearZeroSectors,
			a.bytes/sector.Size)
	}
	return damaged("the checksum of an append differs, although all of its sectors were written")
}

// isVersion1 reports whether a whole append of version 1 starts here, which had one checksum for a
// header of 40 bytes and its entries. From version 2 on, the first 48 bytes are those of the header
// and their checksum in every version.
func isVersion1(src []byte) bool {
	const header = 40
	if binary.LittleEndian.Uint16(src[4:]) != 1 {
		return false
	}
	size := binary.LittleEndian.Uint64(src[24:])
	if size > uint64(len(src)-header) {
		return false
	}
	sum := crc32c.Update(crc32c.Sum(src[:header-4]), src[header:header+size])
	return sum == binary.LittleEndian.Uint32(src[header-4:])
}

func parseEntry(src []byte) (e Entry, rest []byte, reason string) {
	if len(src) < entryHeaderBytes {
		return e, nil, "an append ends inside the header of an entry"
	}
	size := uint64(binary.LittleEndian.Uint32(src))
	if size > uint64(len(src)-entryHeaderBytes) {
		return e, nil, "an entry is longer than its append"
	}
	if src[25]|src[26]|src[27] != 0 {
		return e, nil, "reserved bytes of an entry are not zero"
	}
	return Entry{
		Shard: binary.LittleEndian.Uint32(src[4:]), Term: binary.LittleEndian.Uint64(src[8:]),
		LSN: binary.LittleEndian.Uint64(src[16:]), Kind: src[24],
		Data: src[entryHeaderBytes : entryHeaderBytes+size : entryHeaderBytes+size],
	}, src[entryHeaderBytes+size:], ""
}
