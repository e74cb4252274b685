package queryflags

import (
	"encoding/binary"
	"math"
	"unicode/utf8"

	"github.com/pentad-db/pentad/node/cmd/pentad/internal/cli"
)

// opaqueHint is what to do about payloads that are shown as base64 because their quantity is not
// declared and no type is given. It is about the first of them.
type opaqueHint struct {
	wanted bool // until one has been seen
	moid   int32
	kind   string // its likely type; "" if none was seen
}

// see remembers the first payload that is not empty.
func (h *opaqueHint) see(moid int32, payload []byte) {
	if len(payload) > 0 {
		*h = opaqueHint{moid: moid, kind: likelyType(payload)}
	}
}

// NoteOpaque says once what to do about payloads of a quantity that is not declared, if there were
// any.
func (p *Payloads) NoteOpaque(a *cli.App) {
	h := p.opaque
	if h.kind == "" {
		return
	}
	p.opaque = opaqueHint{}
	if h.kind == sealedBytes {
		a.Note("quantity %d has payloads that look encrypted; who has the keys reads them with "+
			"pentad seal open, and --type hex shows their bytes", h.moid)
		return
	}
	const why = "quantity %d is not declared, so its payloads are shown as base64; "
	if h.kind == anyBytes {
		a.Note(why+"if they have fields, declare them: pentad quantity set %[1]d --name NAME "+
			"--fields FIELD:f32:0,FIELD:f32:4", h.moid)
		return
	}
	a.Note(why+"add --type %s, or declare it: pentad quantity set %[1]d --name NAME --unit UNIT "+
		"--type %[2]s", h.moid, h.kind)
}

// anyBytes is the type of what is neither a number nor text, sealedBytes that of what begins as
// sealed payloads do.
const (
	anyBytes    = "bytes"
	sealedBytes = "sealed"
)

// likelyType guesses the type of a payload for a hint, which is tried out at no cost.
func likelyType(payload []byte) string {
	switch len(payload) {
	case 8:
		bits := binary.LittleEndian.Uint64(payload)
		if exponent := bits << 1 >> 53; bits != 0 && (exponent == 0 || exponent == 1<<11-1) {
			return "i64" // a small integer, which as a float has no exponent or is a NaN
		}
		return "f64"
	case 4:
		f := math.Float32frombits(binary.LittleEndian.Uint32(payload))
		if size := math.Abs(float64(f)); f != 0 && !(size > 1e-30 && size < 1e30) {
			return "i32"
		}
		return "f32"
	}
	switch {
	case utf8.Valid(payload):
		return "text"
	case sealedPayload(payload):
		return sealedBytes
	}
	return anyBytes
}

// sealedPayload reports whether a payload begins as the sealed ones of version 1 and suite 1 do:
// see sdk/seal/SEALING.md.
func sealedPayload(b []byte) bool {
	return len(b) > 24 && b[0] == 1 && b[1] == 1 && b[20]&^0x33 == 0
}
