package seal

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/pentad-db/pentad/sdk/record"
)

// Group is the sum of records that have one equality tag, as the plugin sealed-group makes it.
type Group struct {
	Tag     [tagBytes]byte
	Example record.Key // a record with the tag; its acq is 0
	Payload []byte     // of the example
	Partial *Partial
}

// TagOffset is where the equality tag of a field lies in a payload: a parameter of sealed-group.
func (s *Schema) TagOffset(field string) (int, error) {
	at, err := s.sectionOf(s.equal, field, "equal")
	return at.offset, err
}

// KeyOffset is a parameter of sealed-group, in place of the offset of a tag, with which each group
// has the records of one key: a sum over several keys is authenticated by the MACs of each.
const KeyOffset = 0

// ParseGroups reads what the plugin sealed-group made of payloads of a schema.
//
// Errors: [ErrOtherSchema], [ErrDuplicate] if a record is in two groups, and what of the bytes is
// wrong.
func ParseGroups(s *Schema, source []byte) (groups []Group, err error) {
	in := parser{rest: source}
	if err := in.front(s, partialGroups); err != nil {
		return nil, err
	}
	for n := in.uvarint(); n > 0 && in.err == nil; n-- {
		var g Group
		copy(g.Tag[:], in.take(tagBytes))
		g.Example = record.Key{CID: int32(in.u32()), MID: int64(in.u64()), MOID: int32(in.u32()),
			CapNs: int64(in.u64())}
		g.Payload = bytes.Clone(in.take(in.uvarint()))
		if g.Partial, err = in.partial(s); err != nil {
			return nil, err
		}
		groups = append(groups, g)
	}
	if in.err == nil && len(in.rest) > 0 {
		in.fail("%d bytes follow its end", len(in.rest))
	}
	return groups, in.err
}

// AppendGroups appends groups as the plugin writes them, for [ParseGroups].
func AppendGroups(dst []byte, s *Schema, groups []Group) []byte {
	dst = s.appendFront(dst, partialGroups)
	dst = binary.AppendUvarint(dst, uint64(len(groups)))
	for i := range groups {
		g := &groups[i]
		dst = binary.LittleEndian.AppendUint32(append(dst, g.Tag[:]...), uint32(g.Example.CID))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(g.Example.MID))
		dst = binary.LittleEndian.AppendUint32(dst, uint32(g.Example.MOID))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(g.Example.CapNs))
		dst = binary.AppendUvarint(dst, uint64(len(g.Payload)))
		dst = g.Partial.Append(append(dst, g.Payload...))
	}
	return dst
}

// MergeGroups adds groups to others by their tags: those of another node, or of another part of a
// query. After an error neither is to be used.
//
// Errors: as [Partial.Merge].
func MergeGroups(groups, more []Group) ([]Group, error) {
	at := map[[tagBytes]byte]int{}
	for i := range groups {
		at[groups[i].Tag] = i
	}
	for _, g := range more {
		i, known := at[g.Tag]
		if !known {
			groups = append(groups, g)
			continue
		}
		if err := groups[i].Partial.Merge(g.Partial); err != nil {
			return nil, err
		}
	}
	return groups, nil
}

// ValueGroup is the sum of the records that have one value.
type ValueGroup struct {
	Value   Value
	Partial *Partial
	Parts   []*Partial // the same by tags, so that each is of one key; see [Tenant.DecryptAll]
}

// OpenGroups learns from the example of each group which value its tag is of, and adds up groups of
// one value whose tags differ, as those of two devices do. It returns them in ascending order. That
// an example has its tag is checked; which of the other records have it, is what the node says.
//
// Errors: [ErrTampered], [ErrNoKey], [ErrDuplicate].
func (t *Tenant) OpenGroups(
	ctx context.Context, s *Schema, field string, groups []Group,
) ([]ValueGroup, error) {
	at, err := s.sectionOf(s.equal, field, "equal")
	if err != nil {
		return nil, err
	}
	byValue := map[Value]*ValueGroup{}
	for i := range groups {
		v, err := t.openExample(ctx, s, at, &groups[i])
		if err != nil {
			return nil, err
		}
		if byValue[v] == nil {
			byValue[v] = &ValueGroup{Value: v, Partial: NewPartial(s)}
		}
		if err := byValue[v].Partial.Merge(groups[i].Partial); err != nil {
			return nil, err
		}
		byValue[v].Parts = append(byValue[v].Parts, groups[i].Partial)
	}
	out := make([]ValueGroup, 0, len(byValue))
	for _, g := range byValue {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b ValueGroup) int {
		return cmp.Or(cmp.Compare(a.Value.Number, b.Value.Number),
			strings.Compare(a.Value.Text, b.Value.Text))
	})
	return out, nil
}

// openExample returns the value of the example of a group, which must have the tag of the group.
func (t *Tenant) openExample(
	ctx context.Context, s *Schema, at section, g *Group,
) (v Value, err error) {
	failed := func(err error) error {
		return fmt.Errorf("example of a group, mid %d, moid %d: %w", g.Example.MID, g.Example.MOID,
			err)
	}
	o, err := t.Open(ctx, g.Example, g.Payload)
	if err != nil {
		return v, failed(err)
	}
	f := &s.def.Fields[at.field]
	k, err := t.seriesKeys(ctx, s, o.KeyID, g.Example.MID, g.Example.MOID)
	if err != nil {
		return v, failed(err)
	}
	v = o.Values[at.field]
	key := equalKeyOf(k.of(f.Equal.Scope), k.moid, s, f.ID, f.Equal.period(g.Example.CapNs))
	if o.Schema != s || !bytes.Equal(newEqualHash(&key).tag(nil, f.Kind, v), g.Tag[:]) {
		return v, failed(ErrTampered)
	}
	return v, nil
}

// front reads what partials of a schema begin with.
func (p *parser) front(s *Schema, extra uint8) error {
	version, flags, of := p.u8(), p.u8(), checked{id: p.u16()}
	copy(of.check[:], p.take(checkBytes))
	want := extra
	if s.def.MAC != nil {
		want |= partialMAC
	}
	switch {
	case p.err != nil:
		return p.err
	case version != partialVersion:
		return fmt.Errorf("partial: version %d is not known", version)
	case of != s.checked():
		return fmt.Errorf("partial %w", of.differs(s.checked()))
	case flags != want:
		return fmt.Errorf("partial: flags %#02x do not fit schema %d", flags, of.id)
	}
	return nil
}

// appendFront appends what partials of a schema begin with.
func (s *Schema) appendFront(dst []byte, extra uint8) []byte {
	if s.def.MAC != nil {
		extra |= partialMAC
	}
	dst = binary.LittleEndian.AppendUint16(append(dst, partialVersion, extra), s.ID())
	return append(dst, s.print[:checkBytes]...)
}
