package seal

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The first bytes of every payload, little-endian:
//
//	 0 u8   version, 1
//	 1 u8   suite, 1: AES-256-CTR pads, HKDF with SHA-256, AES-256-GCM, order tags of
//	        2-bit digits, HMAC-SHA-256 in 64 bits
//	 2 u16  schema
//	 4 u32  key id
//	 8 u64  chain
//	16 u32  sequence number, from 1
//	20 u8   flags
//	21 u8   0
//	22 u16  bytes in front of the envelope
const (
	headerBytes = 24

	version1 = 1
	suite1   = 1
)

// Flags of a payload.
const (
	flagCorrection = 1 << 0 // corrects a reading
	flagDelta      = 1 << 1 // lanes are what changed since the version before
	flagMAC        = 1 << 4
	flagEnvelope   = 1 << 5

	knownFlags = flagCorrection | flagDelta | flagMAC | flagEnvelope
)

// ErrNotSealed says that a payload has not the form of a sealed one.
var ErrNotSealed = errors.New("is not a sealed payload")

// Header is what a payload says in the clear about how it is sealed.
type Header struct {
	Schema uint16
	KeyID  uint32
	// Chain and Seq name the pads of the record: no two records of a series have both in common.
	Chain uint64
	Seq   uint32
	flags uint8

	prefix int
}

func (h *Header) append(dst []byte) []byte {
	dst = append(dst, version1, suite1)
	dst = binary.LittleEndian.AppendUint16(dst, h.Schema)
	dst = binary.LittleEndian.AppendUint32(dst, h.KeyID)
	dst = binary.LittleEndian.AppendUint64(dst, h.Chain)
	dst = binary.LittleEndian.AppendUint32(dst, h.Seq)
	dst = append(dst, h.flags, 0)
	return binary.LittleEndian.AppendUint16(dst, uint16(h.prefix))
}

// ParseHeader reads the header of a payload. It refuses what it does not know: a version, a suite
// or a flag of a later program could change what the rest means. The error wraps [ErrNotSealed].
func ParseHeader(payload []byte) (h Header, err error) {
	if len(payload) < headerBytes {
		return h, fmt.Errorf("%d bytes: %w", len(payload), ErrNotSealed)
	}
	h = Header{
		Schema: binary.LittleEndian.Uint16(payload[2:]),
		KeyID:  binary.LittleEndian.Uint32(payload[4:]),
		Chain:  binary.LittleEndian.Uint64(payload[8:]),
		Seq:    binary.LittleEndian.Uint32(payload[16:]),
		flags:  payload[20],
		prefix: int(binary.LittleEndian.Uint16(payload[22:])),
	}
	switch {
	case payload[0] != version1:
		err = fmt.Errorf("version %d is not known: %w", payload[0], ErrNotSealed)
	case payload[1] != suite1:
		err = fmt.Errorf("suite %d is not known: %w", payload[1], ErrNotSealed)
	case h.flags&^knownFlags != 0 || payload[21] != 0:
		err = fmt.Errorf("flags %#02x %#02x are not known: %w", payload[20], payload[21],
			ErrNotSealed)
	case h.Seq == 0:
		err = fmt.Errorf("sequence number 0: %w", ErrNotSealed)
	case h.prefix < headerBytes || h.prefix > len(payload):
		err = fmt.Errorf("%d bytes of %d in front of the envelope: %w", h.prefix, len(payload),
			ErrNotSealed)
	case h.flags&flagEnvelope == 0 && h.prefix != len(payload):
		err = fmt.Errorf("%d bytes follow, and there is no envelope: %w", len(payload)-h.prefix,
			ErrNotSealed)
	}
	return h, err
}

// fits says why a payload is not one of a schema.
func (h *Header) fits(s *Schema) error {
	has := func(flag uint8) bool { return h.flags&flag != 0 }
	if h.prefix != s.prefix || has(flagMAC) != (s.def.MAC != nil) ||
		has(flagEnvelope) != s.def.Envelope {
		return fmt.Errorf("its parts are not those of schema %d: %w", s.def.ID, ErrNotSealed)
	}
	return nil
}
