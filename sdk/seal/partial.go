package seal

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"

	"github.com/pentad-db/pentad/sdk/record"
)

// ErrOtherSchema says that a payload or partial is of another schema than the sum.
var ErrOtherSchema = errors.New("of another schema")

const partialVersion = 1

// Flags of a partial.
const (
	partialMAC    = 1
	partialGroups = 2 // several, see Group
)

// seriesID names a series in a partial.
type seriesID struct {
	cid  int32
	mid  int64
	moid int32
}

// chainID names a chain of a series.
type chainID struct {
	chain uint64
	keyID uint32
}

// Partial is a sum of payloads that are still sealed, with which records it is of. It needs no key:
// a node makes and merges partials, and [Tenant.Decrypt] reads one. Its layout, little-endian:
//
//	u8 version, 1; u8 flags: 1 with MAC; u16 schema; check: 3 bytes of its fingerprint
//	uvarint records that are no corrections by difference; uvarint those that are
//	the lanes of the schema, in the order and with the widths that they have in payloads
//	for each lane of a trend: i128 sum of times, i128 sum of their squares
//	u192 sum of MACs, with flag 1
//	uvarint series: i32 cid, i64 mid, i32 moid,
//	  uvarint chains: u64 chain, u32 key id, runs of sequence numbers
//
// One goroutine uses it.
type Partial struct {
	schema *Schema
	count  uint64
	deltas uint64
	lanes  []wide
	times  [][2]wide // of each lane of a trend: sum and sum of squares
	mac    macSum
	series map[seriesID]map[chainID]runs
}

// NewPartial returns the sum of no records.
func NewPartial(s *Schema) *Partial {
	p := &Partial{schema: s, lanes: make([]wide, len(s.lanes)),
		series: map[seriesID]map[chainID]runs{}}
	for i := range s.lanes {
		if s.lanes[i].kind == laneTrend {
			p.times = append(p.times, [2]wide{})
		}
	}
	return p
}

// Count is how many readings the sum has. It is not authenticated; [Tenant.Decrypt] compares it
// with the records.
func (p *Partial) Count() uint64 { return p.count }

// Hidden returns the sum of a field as it is in the partial, still sealed: a number from which
// nothing follows without the keys.
func (p *Partial) Hidden(field string) (string, error) {
	for i := range p.lanes {
		l := &p.schema.lanes[i]
		if l.kind == laneSum && p.schema.def.Fields[l.field].Name == field {
			v := p.lanes[i].big()
			if v.Sign() < 0 { // of 128 bits, which are not signed as long as they are sealed
				v.Add(v, new(big.Int).Lsh(big.NewInt(1), 128))
			}
			return v.String(), nil
		}
	}
	return "", fmt.Errorf("field %q of schema %d has no sum", field, p.schema.ID())
}

// Add adds a record. After an error the sum is what it was.
//
// Errors: [ErrNotSealed], [ErrOtherSchema], [ErrDuplicate].
func (p *Partial) Add(key record.Key, payload []byte) error {
	h, err := ParseHeader(payload)
	if err != nil {
		return err
	}
	if err := h.fits(p.schema, payload); err != nil {
		return err
	}
	id := seriesID{key.CID, key.MID, key.MOID}
	chain := chainID{h.Chain, h.KeyID}
	known, err := p.series[id][chain].add(h.Seq)
	if err != nil {
		return fmt.Errorf("sequence number %d of chain %016x: %w", h.Seq, h.Chain, err)
	}
	if p.series[id] == nil {
		p.series[id] = map[chainID]runs{}
	}
	p.series[id][chain] = known
	if h.flags&flagDelta != 0 {
		p.deltas++
	} else {
		p.count++
	}
	trend := 0
	for i := range p.schema.lanes {
		l := &p.schema.lanes[i]
		p.lanes[i] = p.lanes[i].plus(loadLane(payload[l.offset:], l.width))
		if l.kind != laneTrend {
			continue
		}
		if h.flags&flagDelta == 0 { // its time was added with the version before
			t := p.schema.def.Fields[l.field].Trend.units(key.CapNs)
			p.times[trend][0] = p.times[trend][0].plus(wideOf(t))
			p.times[trend][1] = p.times[trend][1].plus(times(t, t))
		}
		trend++
	}
	if at := p.schema.mac; at > 0 {
		p.mac.add(binary.LittleEndian.Uint64(payload[at:]),
			binary.LittleEndian.Uint64(payload[at+8:]), 0)
	}
	return nil
}

// Merge adds another sum. After an error p is not to be used.
//
// Errors: [ErrOtherSchema], [ErrDuplicate] if a record is in both.
func (p *Partial) Merge(o *Partial) error {
	if err := o.schema.checked().differs(p.schema.checked()); err != nil {
		return fmt.Errorf("partial %w", err)
	}
	for id, chains := range o.series {
		if p.series[id] == nil {
			p.series[id] = map[chainID]runs{}
		}
		for chain, more := range chains {
			all, err := p.series[id][chain].union(more)
			if err != nil {
				return fmt.Errorf("chain %016x of mid %d, moid %d: %w", chain.chain, id.mid,
					id.moid, err)
			}
			p.series[id][chain] = all
		}
	}
	p.count, p.deltas = p.count+o.count, p.deltas+o.deltas
	for i := range p.lanes {
		p.lanes[i] = p.lanes[i].plus(o.lanes[i])
	}
	for i := range p.times {
		p.times[i] = [2]wide{p.times[i][0].plus(o.times[i][0]), p.times[i][1].plus(o.times[i][1])}
	}
	p.mac.add(o.mac[0], o.mac[1], o.mac[2])
	return nil
}

func compareSeries(a, b seriesID) int {
	return cmp.Or(cmp.Compare(a.cid, b.cid), cmp.Compare(a.mid, b.mid),
		cmp.Compare(a.moid, b.moid))
}

func compareChains(a, b chainID) int {
	return cmp.Or(cmp.Compare(a.chain, b.chain), cmp.Compare(a.keyID, b.keyID))
}

// Append appends the bytes of the sum, with series, chains and runs in ascending order. The same
// records give the same bytes, in whatever order they were added and merged.
func (p *Partial) Append(dst []byte) []byte {
	dst = p.schema.appendFront(dst, 0)
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, p.count), p.deltas)
	for i := range p.lanes {
		width := p.schema.lanes[i].width
		at := len(dst)
		dst = append(dst, make([]byte, width)...)
		storeLane(dst[at:], width, p.lanes[i])
	}
	for _, t := range p.times {
		for _, v := range t {
			dst = binary.LittleEndian.AppendUint64(dst, v.lo)
			dst = binary.LittleEndian.AppendUint64(dst, v.hi)
		}
	}
	if p.schema.def.MAC != nil {
		for _, word := range p.mac {
			dst = binary.LittleEndian.AppendUint64(dst, word)
		}
	}
	return p.appendSeries(dst)
}

// appendSeries appends which records a sum is of.
func (p *Partial) appendSeries(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(p.series)))
	for _, id := range slices.SortedFunc(maps.Keys(p.series), compareSeries) {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(id.cid))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(id.mid))
		dst = binary.LittleEndian.AppendUint32(dst, uint32(id.moid))
		dst = binary.AppendUvarint(dst, uint64(len(p.series[id])))
		for _, c := range slices.SortedFunc(maps.Keys(p.series[id]), compareChains) {
			dst = binary.LittleEndian.AppendUint64(dst, c.chain)
			dst = binary.LittleEndian.AppendUint32(dst, c.keyID)
			dst = p.series[id][c].append(dst)
		}
	}
	return dst
}

// ParsePartial reads a sum of payloads of a schema. What it allocates is bounded by the bytes that
// are there.
//
// Errors: [ErrOtherSchema], and what of the bytes is wrong.
func ParsePartial(s *Schema, source []byte) (*Partial, error) {
	in := parser{rest: source}
	p, err := in.partial(s)
	if err != nil {
		return nil, err
	}
	if len(in.rest) > 0 {
		in.fail("%d bytes follow its end", len(in.rest))
	}
	return p, in.err
}

// partial reads a sum of payloads of a schema, which others may follow.
func (in *parser) partial(s *Schema) (*Partial, error) {
	if err := in.front(s, 0); err != nil {
		return nil, err
	}
	p := NewPartial(s)
	p.count, p.deltas = in.uvarint(), in.uvarint()
	for i := range p.lanes {
		width := s.lanes[i].width
		if b := in.take(uint64(width)); b != nil {
			p.lanes[i] = loadLane(b, width)
		}
	}
	for i := range p.times {
		for k := range p.times[i] {
			p.times[i][k] = wide{in.u64(), in.u64()}
		}
	}
	if s.def.MAC != nil {
		p.mac = macSum{in.u64(), in.u64(), in.u64()}
	}
	p.parseSeries(in)
	return p, in.err
}

// parseSeries reads which records a sum is of. A node lists series and chains as it met them, and
// may come back to one.
func (p *Partial) parseSeries(in *parser) {
	for n := in.uvarint(); n > 0 && in.err == nil; n-- {
		id := seriesID{int32(in.u32()), int64(in.u64()), int32(in.u32())}
		if p.series[id] == nil {
			p.series[id] = map[chainID]runs{}
		}
		chains := in.uvarint()
		if chains == 0 {
			in.fail("a series without records")
		}
		for ; chains > 0 && in.err == nil; chains-- {
			c := chainID{in.u64(), in.u32()}
			all, err := p.series[id][c].union(in.runs())
			if err != nil {
				in.err = fmt.Errorf("partial: chain %016x: %w", c.chain, err)
			}
			p.series[id][c] = all
		}
	}
}

// KeyIDs returns the ids of the root keys of the records, ascending.
func (p *Partial) KeyIDs() []uint32 {
	ids := map[uint32]bool{}
	for _, chains := range p.series {
		for c := range chains {
			ids[c.keyID] = true
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// Tenant returns the tenant of the records. It is not the only one if they are of several; of no
// records it is 0.
func (p *Partial) Tenant() (cid int32, only bool) {
	first := true
	for id := range p.series {
		if !first && id.cid != cid {
			return 0, false
		}
		cid, first = id.cid, false
	}
	return cid, true
}
