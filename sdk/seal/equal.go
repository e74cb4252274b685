package seal

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// tagBytes is the size of equality tags. Shorter ones would be equal for different values now and
// then, and no sum by such a tag would be exact.
const tagBytes = 8

// Canonical forms begin with what the value is, so that a text and a number never have one tag.
const (
	canonicalNumber = 'n'
	canonicalText   = 't'
)

// equalHash makes the tags of a field and period. One goroutine uses it.
type equalHash struct {
	mac     hash.Hash
	scratch [sha256.Size]byte
	text    []byte
}

func newEqualHash(key *Key) *equalHash { return &equalHash{mac: hmac.New(sha256.New, key[:])} }

// tag appends the tag of a value.
func (h *equalHash) tag(dst []byte, kind Kind, v Value) []byte {
	h.mac.Reset()
	if kind == Text {
		h.text = append(append(h.text[:0], canonicalText), v.Text...)
		h.mac.Write(h.text)
	} else {
		h.scratch[0] = canonicalNumber
		binary.BigEndian.PutUint64(h.scratch[1:], uint64(v.Number))
		h.mac.Write(h.scratch[:9])
	}
	return append(dst, h.mac.Sum(h.scratch[:0])[:tagBytes]...)
}

// period is the number of the period of a cap, rounded down; 0 without periods.
func (e *Equal) period(capNs int64) int64 {
	if e.PeriodNs == 0 {
		return 0
	}
	n := capNs / e.PeriodNs
	if capNs%e.PeriodNs < 0 {
		n--
	}
	return n
}
