package sealed

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
)

// HeaderBytes are the first bytes of each payload; lanes follow.
const HeaderBytes = 24

// Flags of a payload.
const (
	FlagCorrection = 1 << 0 // it corrects a reading
	FlagDelta      = 1 << 1 // its lanes are what changed since the version before
	FlagMAC        = 1 << 4
	FlagEnvelope   = 1 << 5
)

// checkBytes is how many bytes of the fingerprint of its schema a payload has.
const checkBytes = 3

// Schema is what payloads of a schema have in common.
type Schema struct {
	ID     uint16
	Check  [checkBytes]byte // the first bytes of its fingerprint
	Prefix int              // bytes before the envelope
	Flags  uint8            // FlagMAC and FlagEnvelope
}

// ParseSchema reads what layouts and tokens begin with: SCHEMA:CHECK PREFIX FLAGS and a space. What
// follows is left to others.
func ParseSchema(text []byte) (Schema, error) {
	r := reader{rest: text}
	if s := r.schema(); !r.bad {
		return s, nil
	}
	return Schema{}, invalid("schema must be SCHEMA:CHECK PREFIX FLAGS and a space, as layouts " +
		"and tokens begin")
}

// Header is what a payload says in the clear about how it is sealed.
type Header struct {
	KeyID uint32
	Chain uint64
	Seq   uint32
	Flags uint8
}

// Header returns the header of a payload, or false for one that is not of the schema.
//
// Cost: no allocation.
func (s *Schema) Header(p []byte) (h Header, ok bool) {
	if len(p) < s.Prefix || len(p) < HeaderBytes {
		return h, false
	}
	h = Header{KeyID: binary.LittleEndian.Uint32(p[4:]), Chain: binary.LittleEndian.Uint64(p[8:]),
		Seq: binary.LittleEndian.Uint32(p[16:]), Flags: p[20]}
	ok = p[0] == 1 && p[1] == 1 && binary.LittleEndian.Uint16(p[2:]) == s.ID && h.Seq != 0 &&
		h.Flags&^(FlagCorrection|FlagDelta) == s.Flags && [checkBytes]byte(p[21:]) == s.Check
	return h, ok
}

// Other returns the error for row i, whose payload is not of the schema, and says of which it is.
func (s *Schema) Other(p []byte, i int) error {
	text := "record " + strconv.Itoa(i) + " of the batch is "
	ends := "; choose the quantity that is, or the layout of its schema"
	if len(p) >= HeaderBytes && p[0] == 1 && p[1] == 1 {
		o := Schema{ID: binary.LittleEndian.Uint16(p[2:]), Check: [checkBytes]byte(p[21:])}
		if o.ID != s.ID || o.Check != s.Check {
			text += "sealed by schema " + o.name() + ", "
			if o.ID == s.ID {
				ends = ": its definition was changed"
			}
		}
	}
	return fail(StatusNotSealed, text+"not sealed by schema "+s.name()+ends)
}

// name is how a schema is named in layouts, tokens and errors.
func (s *Schema) name() string {
	return strconv.Itoa(int(s.ID)) + ":" + hex.EncodeToString(s.Check[:])
}

// reader reads the texts of layouts and tokens. After an error it reads zeros.
type reader struct {
	rest []byte
	bad  bool
}

// number reads a decimal number of at most 19 digits, modulo 2^64.
func (r *reader) number() int64 {
	minus := r.next('-')
	n, digits := uint64(0), 0
	for len(r.rest) > 0 && r.rest[0]-'0' < 10 {
		n = n*10 + uint64(r.rest[0]-'0')
		r.rest = r.rest[1:]
		digits++
	}
	r.bad = r.bad || digits == 0 || digits > 19
	if minus {
		n = -n
	}
	return int64(n)
}

// next takes a byte if it comes next.
func (r *reader) next(c byte) bool {
	if len(r.rest) == 0 || r.rest[0] != c {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

// want takes a byte that has to come next.
func (r *reader) want(c byte) {
	if !r.next(c) {
		r.bad = true
	}
}

// below reads a number from low to below high.
func (r *reader) below(low, high int64) int64 {
	n := r.number()
	r.bad = r.bad || n < low || n >= high
	return n
}

// hex reads n bytes in lower-case digits.
func (r *reader) hex(dst []byte) {
	if r.bad || len(r.rest) < 2*len(dst) {
		r.bad = true
		return
	}
	for _, c := range r.rest[:2*len(dst)] {
		r.bad = r.bad || c >= 'A' && c <= 'F'
	}
	if _, err := hex.Decode(dst, r.rest[:2*len(dst)]); err != nil {
		r.bad = true
	}
	r.rest = r.rest[2*len(dst):]
}

// schema reads SCHEMA:CHECK PREFIX FLAGS and a space.
func (r *reader) schema() (s Schema) {
	s.ID = uint16(r.below(0, 1<<16))
	r.want(':')
	r.hex(s.Check[:])
	r.want(' ')
	s.Prefix = int(r.below(HeaderBytes, 1<<16))
	r.want(' ')
	s.Flags = uint8(r.below(0, 1<<8))
	r.want(' ')
	return s
}
