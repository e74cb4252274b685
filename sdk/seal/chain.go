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

// chainKeys open the records of one chain. One goroutine uses them.
type chainKeys struct {
	schema *Schema
	keys   *seriesKeys
	chain  uint64
	pads   []*padBlock // of each field, nil for one without lanes
	mac    macKey
	macPad *padBlock
	aead   cipher.AEAD
}

func newChainKeys(s *Schema, keys *seriesKeys, chain uint64) *chainKeys {
	c := &chainKeys{schema: s, keys: keys, chain: chain, pads: make([]*padBlock, len(s.padWidth))}
	for i, width := range s.padWidth {
		if width > 0 {
			key := laneKeyOf(&keys.series, s.def.Fields[i].ID, chain)
			c.pads[i] = newPadBlock(&key, width)
		}
	}
	if s.def.MAC != nil {
		key := derive(&keys.series, labelMACPad, be64(chain))
		c.macPad = newPadBlock(&key, macBytes)
		c.mac = newMACKey(keys.of(s.def.MAC.Scope), keys.moid, s)
	}
	if s.def.Envelope {
		c.aead = newEnvelope(&keys.series, chain)
	}
	return c
}

func newEnvelope(series *Key, chain uint64) cipher.AEAD {
	key := envelopeKeyOf(series, chain)
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic("BUG: " + err.Error()) // only for other sizes of keys
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic("BUG: " + err.Error()) // only for other ciphers
	}
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
		l := &s.lanes[i]
		f := &s.def.Fields[l.field]
		v := l.of(f, capNs, values[l.field].Number)
		if before != nil {
			v = v.minus(l.of(f, capNs, before[l.field].Number))
		}
		dst = append(dst, v)
	}
	return dst
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
