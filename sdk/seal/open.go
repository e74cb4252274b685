package seal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pentad-db/pentad/sdk/record"
)

// ErrTampered says that a payload, or a sum, is not what was sealed.
var ErrTampered = errors.New("does not authenticate: it was changed, is not of " +
	"this record, or was sealed with other keys")

// Opened is what a payload holds.
type Opened struct {
	Header
	Schema     *Schema
	Values     []Value // of all fields
	Opaque     []byte
	Correction bool
	// Authentic: the values, the payload and the record's cid, mid, moid and cap are what was
	// sealed. It is false for lean payloads, in which a node can change values unnoticed.
	Authentic bool
}

// Open opens the payload of a record. The acq of the key is not authenticated, as a node gives it.
//
// Errors: [ErrNotSealed], [ErrOtherSchema], [ErrTampered], [ErrImplausible], [ErrNoKey].
func (t *Tenant) Open(ctx context.Context, key record.Key, payload []byte) (o Opened, err error) {
	if o.Header, err = ParseHeader(payload); err != nil {
		return o, err
	}
	s, err := t.schema(o.Header.Schema)
	if err != nil {
		return o, err
	}
	if err := o.fits(s, payload); err != nil {
		return o, err
	}
	if key.CID != t.cid {
		return o, fmt.Errorf("the record is of tenant %d, and the keys are those of %d", key.CID,
			t.cid)
	}
	o.Schema, o.Correction = s, o.flags&flagCorrection != 0
	id := keptChain{s.ID(), o.KeyID, key.MID, key.MOID, o.Chain}
	err = t.withChain(ctx, s, id, func(c *chainKeys) error { return o.open(c, key, payload) })
	return o, err
}

// open reads what a payload has.
func (o *Opened) open(c *chainKeys, key record.Key, payload []byte) error {
	s := o.Schema
	lanes := c.openLanes(payload, o.Seq)
	if s.def.MAC != nil && !c.checkMAC(payload, o.Seq, lanes) {
		return ErrTampered
	}
	o.Values = make([]Value, len(s.def.Fields))
	for i := range s.lanes {
		if l := &s.lanes[i]; l.kind == laneSum {
			o.Values[l.field].Number = int64(lanes[i].lo)
			if max := int64(s.def.Fields[l.field].Max); !s.def.Envelope &&
				(!lanes[i].fits64() || int64(lanes[i].lo) > max || int64(lanes[i].lo) < -max) {
				return fmt.Errorf("field %q: its value %w", s.def.Fields[l.field].Name,
					ErrImplausible)
			}
		}
	}
	if !s.def.Envelope {
		return nil
	}
	address := addressed(nil, key.CID, &c.keys, key.CapNs, payload[:s.prefix])
	inner, err := c.envelope().Open(nil, nil, payload[s.prefix:], address)
	if err != nil {
		return ErrTampered
	}
	o.Authentic = true
	return o.parseInner(inner)
}

// openLanes returns the numbers in the lanes of a record.
func (c *chainKeys) openLanes(payload []byte, seq uint32) []wide {
	out := make([]wide, len(c.schema.lanes))
	for i := range c.schema.lanes {
		l := &c.schema.lanes[i]
		p := c.pads[l.field]
		v := loadLane(payload[l.offset:], l.width)
		v = v.minus(loadLane(p.row(uint64(seq))[l.pad:], l.width))
		v = v.plus(loadLane(p.row(uint64(seq) - 1)[l.pad:], l.width))
		out[i] = v.signed(l.width)
	}
	return out
}

func (c *chainKeys) checkMAC(payload []byte, seq uint32, lanes []wide) bool {
	got := parseElement(payload[c.schema.mac:])
	want := c.macKey().of(lanes).plus(parseElement(c.macPad.row(uint64(seq)))).
		minus(parseElement(c.macPad.row(uint64(seq) - 1)))
	return got == want
}

// parseInner reads the content of an envelope, as [Writer] makes it.
func (o *Opened) parseInner(inner []byte) error {
	delta := o.flags&flagDelta != 0
	for i := range o.Schema.def.Fields {
		switch f := &o.Schema.def.Fields[i]; {
		case f.Kind == Text:
			size, n := binary.Uvarint(inner)
			if n <= 0 || size > uint64(len(inner)-n) {
				return fmt.Errorf("field %q of the envelope: %w", f.Name, ErrNotSealed)
			}
			o.Values[i].Text = string(inner[n : n+int(size)])
			inner = inner[n+int(size):]
		case !f.Sum || delta:
			v, n := binary.Varint(inner)
			if n <= 0 {
				return fmt.Errorf("field %q of the envelope: %w", f.Name, ErrNotSealed)
			}
			o.Values[i].Number = v
			inner = inner[n:]
		}
	}
	o.Opaque = inner
	return nil
}
