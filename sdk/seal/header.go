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
//	21      check: the first 3 bytes of the fingerprint of the schema
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
	check [checkBytes]byte // of the schema
}

func (h *Header) append(dst []byte) []byte {
	dst = append(dst, version1, suite1)
	dst = binary.LittleEndian.AppendUint16(dst, h.Schema)
	dst = binary.LittleEndian.AppendUint32(dst, h.KeyID)
	dst = binary.LittleEndian.AppendUint64(dst, h.Chain)
	dst = binary.LittleEndian.AppendUint32(dst, h.Seq)
	return append(append(dst, h.flags), h.check[:]...)
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
		check:  [checkBytes]byte(payload[21:]),
	}
	switch {
	case payload[0] != version1:
		err = fmt.Errorf("version %d is not known: %w", payload[0], ErrNotSealed)
	case payload[1] != suite1:
		err = fmt.Errorf("suite %d is not known: %w", payload[1], ErrNotSealed)
	case h.flags&^knownFlags != 0:
		err = fmt.Errorf("flags %#02x are not known: %w", payload[20], ErrNotSealed)
	case h.Seq == 0:
		err = fmt.Errorf("sequence number 0: %w", ErrNotSealed)
	}
	return h, err
}

// fits says why a payload with the header is not one of a schema.
func (h *Header) fits(s *Schema, payload []byte) error {
	if err := (checked{h.Schema, h.check}).differs(s.checked()); err != nil {
		return err
	}
	wrong := len(payload) < s.prefix || !s.def.Envelope && len(payload) > s.prefix
	if wrong || h.flags&^(flagCorrection|flagDelta) != s.flags {
		return fmt.Errorf("%d bytes whose parts are not those of schema %v: %w", len(payload),
			s.checked(), ErrNotSealed)
	}
	return nil
}
