package seal

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// checkBytes is how much of a fingerprint a payload, a layout and a partial show: enough that a
// changed definition is noticed, and named in the error.
const checkBytes = 3

// fingerprint is a hash of all that a definition says. Keys follow from it, so what was sealed by
// one definition is not to be read, added or compared by another of the same number. SEALING.md
// says what is hashed.
func fingerprint(def *Definition) [sha256.Size]byte {
	b := binary.BigEndian.AppendUint16([]byte("pentad/schema/v1\x00"), def.ID)
	b = binary.BigEndian.AppendUint64(b, def.MaxRecords)
	b = append(b, byte(boolInt(def.Envelope)))
	if def.MAC == nil {
		b = append(b, 0)
	} else {
		b = def.MAC.Scope.hashed(b)
	}
	b = binary.BigEndian.AppendUint16(b, uint16(len(def.Fields)))
	for i := range def.Fields {
		b = def.Fields[i].hashed(b)
	}
	return sha256.Sum256(b)
}

// hashed appends what the fingerprint has of a field.
func (f *Field) hashed(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, f.ID)
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(f.Name))), f.Name...)
	b = append(b, byte(boolInt(f.Kind == Text)), f.Digits)
	b = binary.BigEndian.AppendUint64(b, f.Max)
	b = append(b, byte(boolInt(f.Sum)), byte(boolInt(f.SumSquares)))
	if t := f.Trend; t == nil {
		b = append(b, 0)
	} else {
		b = binary.BigEndian.AppendUint64(append(b, 1), uint64(t.OriginNs))
		b = binary.BigEndian.AppendUint64(b, uint64(t.UnitNs))
		b = binary.BigEndian.AppendUint64(b, t.MaxUnits)
	}
	b = binary.BigEndian.AppendUint16(b, uint16(len(f.Histogram)))
	for _, bound := range f.Histogram {
		b = binary.BigEndian.AppendUint64(b, uint64(bound))
	}
	if o := f.Order; o == nil {
		b = append(b, 0)
	} else {
		b = binary.BigEndian.AppendUint64(o.Scope.hashed(b), uint64(o.Low))
		b = binary.BigEndian.AppendUint64(b, o.Width)
		b = binary.BigEndian.AppendUint32(b, o.Buckets)
	}
	if e := f.Equal; e == nil {
		return append(b, 0)
	}
	return binary.BigEndian.AppendUint64(f.Equal.Scope.hashed(b), uint64(f.Equal.PeriodNs))
}

// hashed appends 1 for a device and 2 for a tenant, as 0 says that there is nothing with a scope.
func (s Scope) hashed(b []byte) []byte { return append(b, byte(1+boolInt(s == OfTenant))) }

// Fingerprint is a hash of all that the definition says, from which keys follow.
func (s *Schema) Fingerprint() [sha256.Size]byte { return s.print }

// checked names a schema as messages and layouts do: its number and the beginning of its
// fingerprint.
type checked struct {
	id    uint16
	check [checkBytes]byte
}

func (s *Schema) checked() checked { return checked{s.def.ID, [checkBytes]byte(s.print[:])} }

func (c checked) String() string { return fmt.Sprintf("%d:%x", c.id, c.check) }

// differs says that something is of another schema than the one at hand: nil if it is not.
func (c checked) differs(want checked) error {
	switch {
	case c == want:
		return nil
	case c.id == want.id:
		return fmt.Errorf("%w: %v, and the definition at hand is %v, so it was changed; take the "+
			"one that was used, and give a changed one another number", ErrOtherSchema, c, want)
	}
	return fmt.Errorf("%w: %v, and the definition at hand is %v", ErrOtherSchema, c, want)
}
