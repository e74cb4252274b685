// Package sector distinguishes torn writes from damaged ones.
//
// A disk writes whole sectors: after a power loss, each sector of an unfinished write is either new
// or as before, which is zero in a file that only grows. So a write whose sectors are never all
// zero is torn if one of them is zero, and damaged if its checksum fails although none is. Mask
// makes zero sectors nearly impossible; NearZero counts those that remain.
//
// It opens no files, starts no goroutines and has no types.
package sector

import (
	"encoding/binary"
	"math/bits"
)

// Size is the unit that disks write whole: 512 bytes, or a multiple of it.
const Size = 512

// pattern is what Mask changes zeros to: eight different bytes, so that no sector of equal bytes,
// and none of small numbers, becomes zero.
const pattern = 0x9e3779b97f4a7c15

// Round returns the size of the whole sectors that n bytes need.
func Round(n uint64) uint64 { return (n + Size - 1) / Size * Size }

// Mask combines bytes in place with a pattern by exclusive or, so that zeros become the pattern; a
// second call undoes the first.
//
// Cost: 0.1 ns a byte.
func Mask(p []byte) { MaskFrom(p, 0) }

// MaskFrom is Mask for a part that is offset bytes after the beginning of what was masked.
func MaskFrom(p []byte, offset int64) {
	word := bits.RotateLeft64(pattern, -8*int(offset%8))
	for len(p) >= 32 {
		q := p[:32:32]
		binary.LittleEndian.PutUint64(q, binary.LittleEndian.Uint64(q)^word)
		binary.LittleEndian.PutUint64(q[8:], binary.LittleEndian.Uint64(q[8:])^word)
		binary.LittleEndian.PutUint64(q[16:], binary.LittleEndian.Uint64(q[16:])^word)
		binary.LittleEndian.PutUint64(q[24:], binary.LittleEndian.Uint64(q[24:])^word)
		p = p[32:]
	}
	for i := range p {
		p[i] ^= byte(word >> (i % 8 * 8))
	}
}

// NearZero counts the sectors of p with at most one bit set: one flipped bit can make them zero.
// The last sector may be shorter.
func NearZero(p []byte) uint32 { return count(p, 1) }

// Zero counts the sectors of p that are zero.
func Zero(p []byte) uint32 { return count(p, 0) }

// count counts the sectors that have no more bits set than most. A sector with more is left early.
func count(p []byte, most int) (n uint32) {
	for len(p) > 0 {
		s := p[:min(Size, len(p))]
		p = p[len(s):]
		set := 0
		for len(s) >= 8 && set <= most {
			set += bits.OnesCount64(binary.LittleEndian.Uint64(s))
			s = s[8:]
		}
		for i := 0; i < len(s) && set <= most; i++ {
			set += bits.OnesCount8(s[i])
		}
		if set <= most {
			n++
		}
	}
	return n
}

// IsZero reports whether all bytes are zero.
func IsZero(p []byte) bool {
	for _, b := range p {
		if b != 0 {
			return false
		}
	}
	return true
}
