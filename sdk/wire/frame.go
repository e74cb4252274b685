// Package wire owns every byte that crosses the network between a pentad node and its clients:
// frames, batches in packed columns, queries, answers and error kinds. PROTOCOL.md describes them.
//
// It knows nothing of HTTP, files or plugins. Append functions extend a slice, Parse functions
// treat their input as written by an enemy: nothing is allocated on the word of a length field. It
// starts no goroutines.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/pentad-db/pentad/sdk/crc32c"
)

// ContentType is the media type of bodies that are made of frames.
const ContentType = "application/vnd.pentad.v1"

// FeedHeader has the number by which a node knows a feed that another one merges with its own.
const FeedHeader = "Pentad-Feed"

// Layout of a frame, PROTOCOL.md section 1.
const (
	frameMagic       = 0x50 // 'P'
	frameVersion     = 1    // 1: first
	frameHeaderBytes = 12   // magic u8, version u8, type u8, zero u8, length u32, crc u32
)

// FrameType says what a frame holds.
type FrameType uint8

// Types of frames; all of version 1.
const (
	FramePut      FrameType = 1
	FramePutReply FrameType = 2
	FrameQuery    FrameType = 3
	FrameRows     FrameType = 4
	FrameGroups   FrameType = 5
	FrameEnd      FrameType = 6
	FrameError    FrameType = 7
	FrameBox      FrameType = 8
	FrameEvent    FrameType = 9
	FrameModule   FrameType = 10
	FrameClosed   FrameType = 11
	FrameChange   FrameType = 12

	FrameDigestQuery FrameType = 22
	FrameDigests     FrameType = 23
	FrameRange       FrameType = 24
	FrameState       FrameType = 25
	FrameStates      FrameType = 26
	FrameSlotsChange FrameType = 27
	FrameOpenRows    FrameType = 28
	// FramePersistentPut is a put of a persistent writer; its payload is that of a put.
	FramePersistentPut FrameType = 29

	// FrameKeyedGroups and FrameKeyedStates are groups and states with a value of a key each.
	FrameKeyedGroups FrameType = 30
	FrameKeyedStates FrameType = 31

	lastFrameType = FrameKeyedStates
)

// MaxFramePayload bounds the payload of any frame: the largest batch with its keys and some space.
const MaxFramePayload = 72 << 20

// frameChecksum covers the first 8 bytes of the header and the payload.
func frameChecksum(header, payload []byte) uint32 {
	return crc32c.Update(crc32c.Sum(header[:8]), payload)
}

// AppendFrame appends a frame that holds payload.
func AppendFrame(dst []byte, t FrameType, payload []byte) []byte {
	dst, start := beginFrame(dst, t)
	return endFrame(append(dst, payload...), start)
}

// beginFrame appends a header to which endFrame adds length and checksum.
func beginFrame(dst []byte, t FrameType) (out []byte, start int) {
	start = len(dst)
	dst = append(dst, frameMagic, frameVersion, byte(t), 0)
	return append(dst, 0, 0, 0, 0, 0, 0, 0, 0), start
}

func endFrame(dst []byte, start int) []byte {
	header, payload := dst[start:start+frameHeaderBytes], dst[start+frameHeaderBytes:]
	binary.LittleEndian.PutUint32(header[4:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(header[8:], frameChecksum(header, payload))
	return dst
}

// notFrame is the error of bytes that do not begin as a frame.
func notFrame(first byte) error {
	what := "not the pentad protocol"
	if first == '{' || first == '[' {
		what = "this is JSON, expected a binary frame"
	}
	return badFrame("frame starts with %#02x, not %#02x: %s", first, frameMagic, what)
}

func checkHeader(h []byte, maxPayload int) error {
	switch {
	case h[0] != frameMagic:
		return notFrame(h[0])
	case h[1] != frameVersion:
		return &Error{Kind: KindUnsupportedVersion,
			Message: fmt.Sprintf("frame of version %d; this side speaks version %d", h[1],
				frameVersion)}
	case h[2] == 0 || FrameType(h[2]) > lastFrameType:
		return badFrame("frame of type %d; version 1 has types 1 to %d", h[2], lastFrameType)
	case h[3] != 0:
		return badFrame("reserved byte 3 of a frame is %#02x, not 0", h[3])
	}
	if size := binary.LittleEndian.Uint32(h[4:]); uint64(size) > uint64(maxPayload) {
		return &Error{Kind: KindTooLarge,
			Message: fmt.Sprintf("frame of %d bytes, at most %d", size, maxPayload)}
	}
	return nil
}

// ParseFrame splits the first frame off src.
//
// Returns: the payload and what follows the frame, both aliasing src.
// Errors: *Error of kind KindBadFrame, KindUnsupportedVersion or KindTooLarge.
func ParseFrame(src []byte, maxPayload int) (t FrameType, payload, rest []byte, err error) {
	if len(src) > 0 && src[0] != frameMagic {
		return 0, nil, nil, notFrame(src[0])
	}
	if len(src) < frameHeaderBytes {
		return 0, nil, nil, badFrame("%d bytes end inside a frame header", len(src))
	}
	if err := checkHeader(src, maxPayload); err != nil {
		return 0, nil, nil, err
	}
	size := uint64(binary.LittleEndian.Uint32(src[4:]))
	if size > uint64(len(src)-frameHeaderBytes) {
		return 0, nil, nil, badFrame("frame of %d bytes, %d follow its header",
			size, len(src)-frameHeaderBytes)
	}
	end := frameHeaderBytes + size
	payload = src[frameHeaderBytes:end:end]
	if frameChecksum(src, payload) != binary.LittleEndian.Uint32(src[8:]) {
		return 0, nil, nil, badFrame("checksum of a frame differs")
	}
	return FrameType(src[2]), payload, src[end:], nil
}

// Reader reads frames from a stream.
type Reader struct {
	r          io.Reader
	maxPayload int
	header     [frameHeaderBytes]byte
	buf        []byte
}

// NewReader returns a reader of frames with payloads of at most maxPayload bytes.
func NewReader(r io.Reader, maxPayload int) *Reader {
	return &Reader{r: r, maxPayload: maxPayload}
}

// mostKept is how much memory a reader takes along to another stream.
const mostKept = 4 << 20

// Reset makes r read another stream, in the memory that it has. No payload that it returned is
// valid any more.
func (r *Reader) Reset(from io.Reader) {
	r.r = from
	if cap(r.buf) > mostKept {
		r.buf = nil
	}
}

// readStep is how much is read, and so allocated, before more of a frame has arrived.
const readStep = 256 << 10

// Next returns the next frame; the payload is valid until the next call. The error is io.EOF at
// the end of the stream between frames, io.ErrUnexpectedEOF inside one.
func (r *Reader) Next() (FrameType, []byte, error) {
	if _, err := io.ReadFull(r.r, r.header[:]); err != nil {
		return 0, nil, err
	}
	if err := checkHeader(r.header[:], r.maxPayload); err != nil {
		return 0, nil, err
	}
	size := int(binary.LittleEndian.Uint32(r.header[4:]))
	r.buf = r.buf[:0]
	for len(r.buf) < size {
		from, step := len(r.buf), min(size-len(r.buf), max(readStep, len(r.buf)))
		r.buf = slices.Grow(r.buf, step)[:from+step]
		if _, err := io.ReadFull(r.r, r.buf[from:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return 0, nil, err
		}
	}
	if frameChecksum(r.header[:], r.buf) != binary.LittleEndian.Uint32(r.header[8:]) {
		return 0, nil, badFrame("checksum of a frame differs")
	}
	return FrameType(r.header[2]), r.buf, nil
}

// expect parses a body that is one frame of a type.
func expect(src []byte, want FrameType) ([]byte, error) {
	t, payload, rest, err := ParseFrame(src, MaxFramePayload)
	if err != nil {
		return nil, err
	}
	if t != want {
		return nil, badFrame("frame of type %d where type %d belongs", t, want)
	}
	if len(rest) != 0 {
		return nil, badFrame("%d bytes follow the frame", len(rest))
	}
	return payload, nil
}
