package sealed

import (
	"encoding/binary"
	"math/bits"

	"github.com/pentad-db/pentad/sdk/plugin/guest"
)

// Sum is the sum of payloads of a layout that are still sealed, and which records it is of. The
// zero value is the sum of none. It is the state of an aggregate that is registered with
// guest.RegisterGrowing; the batches need cid, mid, moid and cap.
type Sum struct {
	count  uint64 // of records that are no corrections by difference
	deltas uint64 // of those that are
	lanes  []wide
	times  [][2]wide // of each trend: the sum of times and of their squares
	mac    [3]uint64 // the sum of MACs
	chains []chain   // in the order in which they came
	runs   []run     // of all chains
	slots  []int32   // lists of chains by hash: the number of the first, from 1
	sorted []run     // where runs are sorted, reused
	last   int       // the chain of the record before
}

// Count is how many records the sum is of.
func (s *Sum) Count() uint64 { return s.count + s.deltas }

// prepare makes the lanes of a sum that has none.
func (s *Sum) prepare(l *Layout) {
	if s.lanes == nil {
		s.lanes, s.times = make([]wide, len(l.lanes)), make([][2]wide, l.trends)
	}
}

// Add adds row i of a batch, whose payload is p.
//
// Errors: a payload that is not of the schema.
func (s *Sum) Add(l *Layout, b *guest.Batch, i int, p []byte) error {
	h, ok := l.Schema.Header(p)
	if !ok {
		return l.Schema.Other(p, i)
	}
	s.prepare(l)
	id := chainID{seriesID{b.MID[i], b.CID[i], b.MOID[i]}, h.Chain, h.KeyID}
	s.addRun(s.chain(&id), h.Seq, h.Seq)
	delta := h.Flags&FlagDelta != 0
	if delta {
		s.deltas++
	} else {
		s.count++
	}
	s.addLanes(l, p, b.CapNs[i], delta)
	if l.hasMAC() {
		mac := p[l.Schema.Prefix-macBytes:]
		s.addMAC(binary.LittleEndian.Uint64(mac), binary.LittleEndian.Uint64(mac[8:]), 0)
	}
	return nil
}

func (s *Sum) addLanes(l *Layout, p []byte, capNs int64, delta bool) {
	at, trend := HeaderBytes, 0
	for k := range l.lanes {
		one := &l.lanes[k]
		s.lanes[k].add(load(p[at:], one.width))
		at += one.width
		if !one.trend {
			continue
		}
		if !delta { // its time was added with the version before
			s.addTime(trend, one.units(capNs))
		}
		trend++
	}
}

func (s *Sum) addTime(trend int, t int64) {
	s.times[trend][0].add(wide{uint64(t), uint64(t >> 63)})
	n := uint64(t)
	if t < 0 {
		n = -n
	}
	hi, lo := bits.Mul64(n, n)
	s.times[trend][1].add(wide{lo, hi})
}

// addMAC adds as integers of 192 bits: there is no modular arithmetic on a node.
func (s *Sum) addMAC(lo, mid, hi uint64) {
	var carry uint64
	s.mac[0], carry = bits.Add64(s.mac[0], lo, 0)
	s.mac[1], carry = bits.Add64(s.mac[1], mid, carry)
	s.mac[2], _ = bits.Add64(s.mac[2], hi, carry)
}

// AppendFront appends what partials of the layout begin with; extra are further flags of them.
func (l *Layout) AppendFront(dst []byte, extra uint8) []byte {
	if l.hasMAC() {
		extra |= 1
	}
	dst = append(dst, 1, extra)
	dst = binary.LittleEndian.AppendUint16(dst, l.Schema.ID)
	return append(dst, l.Schema.Check[:]...)
}

// Append appends the sum as a partial, which Load takes and who has the keys decrypts.
func (s *Sum) Append(l *Layout, dst []byte) []byte {
	s.prepare(l)
	s.sortRuns()
	dst = l.AppendFront(dst, 0)
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, s.count), s.deltas)
	for i := range l.lanes {
		dst = s.lanes[i].append(dst, l.lanes[i].width)
	}
	for _, t := range s.times {
		dst = t[1].append(t[0].append(dst, 16), 16)
	}
	if l.hasMAC() {
		for _, word := range s.mac {
			dst = binary.LittleEndian.AppendUint64(dst, word)
		}
	}
	return s.appendChains(dst)
}

// Load adds a partial that Append wrote, maybe in another instance.
//
// Errors: bytes that Append does not write; the sum is then of no use.
func (s *Sum) Load(l *Layout, src []byte) error {
	rest, err := s.Take(l, src)
	if err == nil && len(rest) > 0 {
		err = damaged()
	}
	return err
}

// Take adds the partial at the start of src, as Load does, and returns the bytes behind it.
func (s *Sum) Take(l *Layout, src []byte) (rest []byte, err error) {
	s.prepare(l)
	in := saved{rest: src}
	front := l.AppendFront(nil, 0)
	if string(in.take(uint64(len(front)))) != string(front) {
		return src, damaged()
	}
	s.count += in.uvarint()
	s.deltas += in.uvarint()
	for i := range l.lanes {
		if b := in.take(uint64(l.lanes[i].width)); b != nil {
			s.lanes[i].add(load(b, l.lanes[i].width))
		}
	}
	for i := range s.times {
		for k := range s.times[i] {
			s.times[i][k].add(wide{in.u64(), in.u64()})
		}
	}
	if l.hasMAC() {
		s.addMAC(in.u64(), in.u64(), in.u64())
	}
	for n := in.uvarint(); n > 0 && !in.bad; n-- {
		series := seriesID{cid: int32(in.u32()), mid: int64(in.u64()), moid: int32(in.u32())}
		for chains := in.uvarint(); chains > 0 && !in.bad; chains-- {
			in.chain(s, series)
		}
	}
	if in.bad {
		return src, damaged()
	}
	return in.rest, nil
}
