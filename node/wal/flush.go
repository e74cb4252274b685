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
	flushMagic       = 0x314c5450 // "PTL1"
	flushVersion     = 2          // 1: first; 2: whole sectors, scrambled; a checksum of the header
	flushHeaderBytes = 48         // magic u32, version u16, unsynced u16, sequence u64, start
	//                               u64, bytes u64, frames u32, weak u32, crc u32 of what follows
	//                               the header, crc u32 of the header before it
	frameHeaderBytes = 28 // bytes u32, shard u32, term u64, index u64, kind u8, zero [3]
)

const (
	// maxFlushBytes bounds one flush: some of the largest batches at once. A larger length in a
	// file is damage.
	maxFlushBytes = 1 << 30
	// maxUnsynced bounds the flushes that wait for a sync: the header of a flush counts them.
	maxUnsynced = math.MaxUint16
)

// Entry is one frame of the log. Data is opaque; what Append gets stays the caller's, what replay
// hands out is valid during the call.
type Entry struct {
	Shard uint32
	Term  uint64
	Index uint64
	Kind  uint8
	Data  []byte
	Rest  []byte // of the data, for Append: what lies elsewhere; replay hands out none
}

func (e *Entry) size() int { return frameHeaderBytes + len(e.Data) + len(e.Rest) }

// appendFlush appends a flush that starts at an offset of its file; unsynced flushes before it wait
// for a sync, and size is that of its frames.
func appendFlush(
	dst []byte, seq, unsynced, start uint64, entries []Entry, size int,
) []byte {
	at := len(dst)
	whole := int(sector.Round(flushHeaderBytes + uint64(size)))
	dst = slices.Grow(dst, whole)
	dst = dst[:at+flushHeaderBytes]
	for i := range entries {
		e := &entries[i]
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(e.Data)+len(e.Rest)))
		dst = binary.LittleEndian.AppendUint32(dst, e.Shard)
		dst = binary.LittleEndian.AppendUint64(dst, e.Term)
		dst = binary.LittleEndian.AppendUint64(dst, e.Index)
		dst = append(dst, e.Kind, 0, 0, 0)
		dst = append(append(dst, e.Data...), e.Rest...)
	}
	end := len(dst)
	dst = dst[:at+whole]
	clear(dst[end:])
	head, body := dst[at:at+flushHeaderBytes], dst[at+flushHeaderBytes:]
	sector.Scramble(body)
	binary.LittleEndian.PutUint32(head, flushMagic)
	binary.LittleEndian.PutUint16(head[4:], flushVersion)
	binary.LittleEndian.PutUint16(head[6:], uint16(unsynced))
	binary.LittleEndian.PutUint64(head[8:], seq)
	binary.LittleEndian.PutUint64(head[16:], start)
	binary.LittleEndian.PutUint64(head[24:], uint64(end-at-flushHeaderBytes))
	binary.LittleEndian.PutUint32(head[32:], uint32(len(entries)))
	binary.LittleEndian.PutUint32(head[36:], sector.NearZero(dst[at+sector.Size:]))
	binary.LittleEndian.PutUint32(head[40:], crc32c.Sum(body))
	binary.LittleEndian.PutUint32(head[44:], crc32c.Sum(head[:44]))
	return dst
}

// StartsFile reports whether a file that starts so is a log file.
func StartsFile(start []byte) bool {
	return len(start) >= 4 && binary.LittleEndian.Uint32(start) == flushMagic
}

// rawFlush is a flush whose checksums hold; body aliases the file.
type rawFlush struct {
	seq      uint64
	unsynced uint64 // flushes just before it that were not known to be synced
	entries  uint32
	size     uint64 // of the frames
	bytes    uint64 // of the flush in the file
	body     []byte // scrambled frames and padding, until unscramble
}

// unscramble returns the frames. It changes the bytes that were parsed, so it is called once.
func (f *rawFlush) unscramble() []byte {
	sector.Scramble(f.body)
	return f.body[:f.size]
}

// flushError says why no flush can be read at an offset. Torn: a part of it never reached the disk,
// so the write was not acknowledged, unless a later flush says that this one was synced.
type flushError struct {
	reason string
	torn   bool
	other  *formats.Error // it is whole, and of another version; nil: it is not
}

// of returns the error of a flush of another version in a file; nil of damage.
func (e *flushError) of(file string) error {
	if e.other == nil {
		return nil
	}
	return formats.In(file, e.other)
}

func parseFlush(data []byte, at uint64) (rawFlush, *flushError) {
	src := data[at:]
	damaged := func(format string, args ...any) (rawFlush, *flushError) {
		return rawFlush{}, &flushError{reason: fmt.Sprintf(format, args...)}
	}
	torn := func(format string, args ...any) (rawFlush, *flushError) {
		return rawFlush{}, &flushError{torn: true, reason: fmt.Sprintf(format, args...)}
	}
	if sector.IsZero(src[:min(sector.Size, len(src))]) {
		return torn("the first sector of a flush is not written")
	}
	if len(src) < flushHeaderBytes {
		return torn("the file ends inside the header of a flush")
	}
	if binary.LittleEndian.Uint32(src) != flushMagic {
		return damaged("no flush starts here")
	}
	if isVersion1(src) {
		return rawFlush{}, &flushError{reason: "flush of version 1",
			other: formats.Of("", "", 1, flushVersion)}
	}
	if crc32c.Sum(src[:44]) != binary.LittleEndian.Uint32(src[44:]) {
		return damaged("the checksum of the header of a flush differs")
	}
	if v := binary.LittleEndian.Uint16(src[4:]); v != flushVersion {
		return rawFlush{}, &flushError{other: formats.Of("", "", uint64(v), flushVersion),
			reason: fmt.Sprintf("flush of version %d; this program reads version %d", v,
				flushVersion)}
	}
	if binary.LittleEndian.Uint64(src[16:]) != at {
		return damaged("the flush belongs to another place")
	}
	f := rawFlush{seq: binary.LittleEndian.Uint64(src[8:]),
		unsynced: uint64(binary.LittleEndian.Uint16(src[6:])),
		entries:  binary.LittleEndian.Uint32(src[32:]), size: binary.LittleEndian.Uint64(src[24:])}
	if f.size > maxFlushBytes {
		return damaged("a flush of %d bytes, at most %d", f.size, maxFlushBytes)
	}
	if f.unsynced >= f.seq {
		return damaged("flush %d cannot follow %d that were not synced", f.seq, f.unsynced)
	}
	f.bytes = sector.Round(flushHeaderBytes + f.size)
	if f.bytes > uint64(len(src)) {
		return torn("the file ends inside a flush")
	}
	f.body = src[flushHeaderBytes:f.bytes:f.bytes]
	if crc32c.Sum(f.body) == binary.LittleEndian.Uint32(src[40:]) {
		return f, nil
	}
	zero := sector.Zero(src[sector.Size:f.bytes])
	if nearZeroSectors := binary.LittleEndian.Uint32(src[36:]); zero > nearZeroSectors {
		return torn("%d of the %d sectors of a flush are not written", zero-nearZeroSectors,
			f.bytes/sector.Size)
	}
	return damaged("the checksum of a flush differs, although all of its sectors were written")
}

// isVersion1 reports whether a whole flush of version 1 starts here, which had one checksum for a
// header of 40 bytes and its frames. From version 2 on, the first 48 bytes are those of the header
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

func parseFrame(src []byte) (e Entry, rest []byte, reason string) {
	if len(src) < frameHeaderBytes {
		return e, nil, "a flush ends inside the header of a frame"
	}
	size := uint64(binary.LittleEndian.Uint32(src))
	if size > uint64(len(src)-frameHeaderBytes) {
		return e, nil, "a frame is longer than its flush"
	}
	if src[25]|src[26]|src[27] != 0 {
		return e, nil, "reserved bytes of a frame are not zero"
	}
	return Entry{
		Shard: binary.LittleEndian.Uint32(src[4:]), Term: binary.LittleEndian.Uint64(src[8:]),
		Index: binary.LittleEndian.Uint64(src[16:]), Kind: src[24],
		Data: src[frameHeaderBytes : frameHeaderBytes+size : frameHeaderBytes+size],
	}, src[frameHeaderBytes+size:], ""
}
