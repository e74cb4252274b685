package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
)

// Sizes of an envelope beside its content.
const (
	nonceBytes  = 12
	gcmTagBytes = 16
)

// chainKeys open the records of one chain. What a sum seldom needs is derived when it is asked for.
// One goroutine uses them.
type chainKeys struct {
	schema *Schema
	keys   seriesKeys
	chain  uint64
	pads   []*padBlock // of each field, nil for one without lanes
	macPad *padBlock
	mac    *macKey     // see macKey
	aead   cipher.AEAD // see envelope
}

func newChainKeys(s *Schema, keys *seriesKeys, chain uint64) *chainKeys {
	c := &chainKeys{schema: s, keys: *keys, chain: chain, pads: make([]*padBlock, len(s.padWidth))}
	for i, width := range s.padWidth {
		if width > 0 {
			key := laneKeyOf(&keys.series, s.def.Fields[i].ID, chain)
			c.pads[i] = newPadBlock(&key, width)
		}
	}
	if s.def.MAC != nil {
		key := derive(&keys.series, labelMACPad, be64(chain))
		c.macPad = newPadBlock(&key, macBytes)
	}
	return c
}

// macKey returns the factors of the MAC.
func (c *chainKeys) macKey() *macKey {
	if c.mac == nil {
		k := newMACKey(c.keys.of(c.schema.def.MAC.Scope), c.keys.moid, c.schema)
		c.mac = &k
	}
	return c.mac
}

// envelope returns the cipher of envelopes.
func (c *chainKeys) envelope() cipher.AEAD {
	if c.aead != nil {
		return c.aead
	}
	key := envelopeKeyOf(&c.keys.series, c.chain)
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic("BUG: " + err.Error()) // only for other sizes of keys
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic("BUG: " + err.Error()) // only for other ciphers
	}
	c.aead = aead
	return aead
}

// addressed appends what an envelope authenticates beside its content: the record's place, and all
// that lies in front of it. The acq is not there, as a node gives it after the record is sealed.
func addressed(dst []byte, cid int32, keys *seriesKeys, capNs int64, prefix []byte) []byte {
	dst = append(dst, "pentad/aad/v1"...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(cid))
	dst = binary.BigEndian.AppendUint64(dst, uint64(keys.mid))
	dst = binary.BigEndian.AppendUint32(dst, uint32(keys.moid))
	dst = binary.BigEndian.AppendUint64(dst, uint64(capNs))
	dst = binary.BigEndian.AppendUint64(dst, 0)
	return append(dst, prefix...)
}

// laneValues appends the numbers that a record adds to its lanes. Before holds the values that it
// corrects by a difference, nil if it does not.
func (s *Schema) laneValues(dst []wide, capNs int64, values, before []Value) []wide {
	for i := range s.lanes {
		dst = append(dst, s.laneValue(&s.lanes[i], capNs, values, before))
	}
	return dst
}

// laneValue is what a record adds to one lane.
func (s *Schema) laneValue(l *lane, capNs int64, values, before []Value) wide {
	if l.kind == laneSum && before == nil {
		return wideOf(values[l.field].Number)
	}
	f := &s.def.Fields[l.field]
	v := l.of(f, capNs, values[l.field].Number)
	if before != nil {
		v = v.minus(l.of(f, capNs, before[l.field].Number))
	}
	return v
}

// of is what a value adds to the lane.
func (l *lane) of(f *Field, capNs, v int64) wide {
	switch l.kind {
	case laneSquares:
		return times(v, v)
	case laneTrend:
		return times(v, f.Trend.units(capNs))
	case laneCount:
		return wide{lo: uint64(boolInt(f.histogramBucket(v) == l.bucket))}
	}
	return wideOf(v)
}
