package segment

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/cpu"
)

const (
	// roundFloat is 1.5 * 2^52. Added to its bits, an integer n of less than maxRound becomes the
	// bits of roundFloat + n.
	roundFloat = 3 << 51
	roundBits  = 0x4338000000000000
	maxRound   = 1 << 51
)

// decoding says how values are made of packed ones: base + gcd * packed, and with an inverse, whose
// base has roundBits added, that over power.
type decoding struct {
	base, gcd, gcdHigh    uint64
	round, inverse, power float64
}

// inversesOf10 are correctly rounded, and none is further than half of what is possible from what
// it stands for. Then n * inverse is one of the two floats next to n / power, and its remainder,
// which is exact, times the inverse corrects it to the nearest (Markstein 1990).
var inversesOf10 = [len(powersOf10)]float64{1, 1e-1, 1e-2, 1e-3, 1e-4}

//go:noescape
func decodeEights(from *byte, eights int, u *wideUnpacking, d *decoding, out unsafe.Pointer,
	stride int)

//go:noescape
func decodeDense(from *byte, eights int, u *denseUnpacking, d *decoding, out unsafe.Pointer)

// writeVector does what writeRun does with as many of the first n rows as it can, eight at a time,
// and returns how many. There are eight at least.
func (c *column) writeVector(lo, n int, w *wordWriter) (done int) {
	t, width := filterTables(), int(c.width)
	if t == nil || width > maxPackedWidth {
		return 0
	}
	d := decoding{base: c.base, gcd: c.gcd, gcdHigh: c.gcd >> 32, round: roundFloat}
	if c.kind == columnDec {
		if !cpu.X86.HasFMA || !c.staysBelow(maxRound) {
			return 0
		}
		d.base += roundBits
		d.power, d.inverse = powersOf10[c.exponent], inversesOf10[c.exponent]
	}
	at, row := lo*width/8, lo&7
	if t.sixteens && w.stride == 8 {
		out, room := unsafe.Add(w.out, w.at), len(c.body)-64
		if eights := min(n/8, (room-at)/width); eights > 0 {
			decodeDense(c.byteAt(at), eights, &t.dense[width][row], &d, out)
			done, at = 8*eights, at+width*eights
		}
		// What is left comes once more with some of those before.
		if last := lo + n - 8; n-8 < done && done < n && last*width/8 <= room {
			decodeDense(c.byteAt(last*width/8), 1, &t.dense[width][last&7], &d,
				unsafe.Add(out, 8*(n-8)))
			done = n
		}
	}
	eights := min((n-done)/8, (len(c.body)-at-16)/width) // loads begin in their values
	if eights > 0 {
		out := unsafe.Add(w.out, w.at+uintptr(done)*w.stride)
		decodeEights(c.byteAt(at), eights, &t.wide[width][row], &d, out, int(w.stride))
		done += 8 * eights
	}
	if c.kind == columnDict {
		c.lookUp(wordWriter{out: w.out, at: w.at, stride: w.stride}, done)
	}
	w.at += uintptr(done) * w.stride
	return done
}

// lookUp replaces the numbers of n entries of the dictionary by these.
func (c *column) lookUp(w wordWriter, n int) {
	for range n {
		number := binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(w.out, w.at))[:])
		w.put(binary.LittleEndian.Uint64(c.dict[8*number:]))
	}
}

// staysBelow reports whether all values that can be packed lie between -limit and limit.
func (c *column) staysBelow(limit int64) bool {
	base := int64(c.base)
	return -limit < base && base < limit && c.low <= uint64(limit-base-1)/c.gcd
}
