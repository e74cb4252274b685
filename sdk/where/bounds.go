package where

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// maxFields is how many fields a rule may have bounds of.
const maxFields = 4

// Field is a field of payloads that a rule tests.
type Field struct {
	Offset uint32
	Bits   uint8 // of a number; 0: of a text
	kind   kind
}

// Bounds say where the values of a field are in some payloads: from Low to High in the order of
// values; of texts in that of their first 8 bytes. Low is above High where there are none.
type Bounds struct {
	Low, High uint64
	NaN       bool // some are not a number: these are not between
}

// NoBounds are those of no payloads.
func NoBounds() Bounds { return Bounds{Low: 1} }

// fieldsOf numbers the fields of the leaves below a node.
func (r *Rule) fieldsOf(n *Node) {
	for i := range n.Subs {
		r.fieldsOf(&n.Subs[i])
	}
	if n.Kind == NumberIn || n.Kind == TextIn {
		f := Field{n.Offset, n.Bits, n.kind}
		if n.Field = slices.Index(r.Fields, f); n.Field < 0 {
			n.Field = len(r.Fields)
			r.Fields = append(r.Fields, f)
		}
	}
}

// identify makes the identity of the rule's payloads and fields.
func (r *Rule) identify() {
	r.fieldsOf(&r.Node)
	if len(r.Fields) > maxFields {
		r.Fields = nil
	}
	var b strings.Builder
	_, _ = fmt.Fprint(&b, r.MOIDs, r.MOIDs == nil, r.Size, r.Need, r.Fields)
	r.Identity = b.String()
}

// Add makes bounds hold the bits of a number, or the place of a text.
func (f *Field) Add(b *Bounds, bits uint64) {
	place := bits
	if f.Bits != 0 {
		place = f.kind.order(bits)
		if f.kind.float && f.kind.isNaN(place) {
			b.NaN = true
			return
		}
	}
	if b.Low > b.High {
		b.Low, b.High = place, place
		return
	}
	b.Low, b.High = min(b.Low, place), max(b.High, place)
}

// isNaN reports whether a place in a type of floats is beyond the infinite ones.
func (k kind) isNaN(place uint64) bool {
	exponent := uint64(0x7f800000)
	if k.bits == 64 {
		exponent = 0x7ff0000000000000
	}
	return place > k.order(exponent) || place < k.order(exponent|1<<(k.bits-1))
}

// AddPayload makes the bounds of the rule's fields hold a payload, if it fits.
func (r *Rule) AddPayload(all []Bounds, payload []byte) {
	if !r.Fits(len(payload)) {
		return
	}
	for i := range r.Fields {
		f := &r.Fields[i]
		rest := payload[f.Offset:]
		switch f.Bits {
		case 0:
			f.Add(&all[i], textPlace(rest))
		case 32:
			f.Add(&all[i], uint64(binary.LittleEndian.Uint32(rest)))
		default:
			f.Add(&all[i], binary.LittleEndian.Uint64(rest))
		}
	}
}

// textPlace returns the first 8 bytes of a text.
func textPlace[T ~string | ~[]byte](text T) uint64 {
	var first [8]byte
	copy(first[:], text)
	return binary.BigEndian.Uint64(first[:])
}

// Excludes reports whether no payload between the bounds of the rule's fields can meet it.
func (r *Rule) Excludes(all []Bounds) bool { return r.Node.excludes(all) }

func (n *Node) excludes(all []Bounds) bool {
	switch n.Kind {
	case AllOf:
		return slices.ContainsFunc(n.Subs, func(s Node) bool { return s.excludes(all) })
	case AnyOf:
		return !slices.ContainsFunc(n.Subs, func(s Node) bool { return !s.excludes(all) })
	}
	b := &all[n.Field]
	if n.Kind == TextIn {
		return b.Low > b.High || !n.Negate && !slices.ContainsFunc(n.Texts, func(text string) bool {
			low := textPlace(text)
			high := low
			if n.Prefix && len(text) < 8 {
				high |= 1<<(64-8*uint(len(text))) - 1
			}
			return low <= b.High && b.Low <= high
		})
	}
	return !slices.ContainsFunc(n.Places, func(r Range) bool {
		return r.Low <= b.High && b.Low <= r.High && b.Low <= b.High ||
			b.NaN && (n.kind.isNaN(r.Low) || n.kind.isNaN(r.High))
	})
}
