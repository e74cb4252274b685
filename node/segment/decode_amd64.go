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
	// wholeFloat is 2^52: with a positive n of less than that for its last bits, it is 2^52 + n.
	wholeFloat = 1 << 52
)

// decoding says how values are made of packed ones: base + gcd * packed, and with an inverse, whose
// base has roundBits added, that over a power of ten.
type decoding struct {
	base, gcd, gcdHigh          uint64
	round, inverse, inverseLack float64
	whole, back, plus, times    float64 // of decimals: 2^52, that less base, base, gcd
}

// inversesOf10 are to twice the precision of a float: what is nearest, and what that lacks. An
// integer of up to 52 bits times lack, rounded, plus that times nearest, rounded once, is the float
// next to the quotient: before it is rounded the second time it errs by 2^-105 of itself, and no
// such quotient is nearer than 2^-68 of itself to where rounding turns.
var inversesOf10 = [len(powersOf10)]struct{ nearest, lack float64 }{
	{1, 0},
	{1e-1, -5.551115123125783e-18},
	{1e-2, -2.0816681711721684e-19},
	{1e-3, -2.0816681711721686e-20},
	{1e-4, -4.79217360238593e-21},
}

//go:noescape
func decodeEights(from *byte, eights int, u *wideUnpacking, d *decoding, out unsafe.Pointer,
	stride int)

// decodeDense also has memory loaded from load on, so many bytes further with every eight rows.
//
//go:noescape
func decodeDense(body *byte, lo, n int, u *[8]denseUnpacking, d *decoding, out unsafe.Pointer,
	load *byte, step int)

// vectors is how a column is written eight rows at a time.
type vectors struct {
	decoding
	tables *tables        // nil when it is not
	loads  *PrefetchQueue // nil for none
}

// interleavesPrefetch reports whether memory is loaded while rows are decoded.
func interleavesPrefetch() bool {
	t := filterTables()
	return t != nil && t.sixteens
}

func (c *column) vectors() (v vectors) {
	t := filterTables()
	if t == nil || c.width > maxPackedWidth {
		return v
	}
	v.decoding = decoding{base: c.base, gcd: c.gcd, gcdHigh: c.gcd >> 32, round: roundFloat}
	if c.kind == columnDec {
		if !cpu.X86.HasFMA || !c.staysBelow(maxRound) {
			return v
		}
		by := inversesOf10[c.exponent]
		v.base += roundBits
		v.inverse, v.inverseLack = by.nearest, by.lack
		v.plus, v.times = float64(int64(c.base)), float64(c.gcd)
		v.whole, v.back = wholeFloat, wholeFloat-v.plus
	}
	v.tables = t
	return v
}

// rebase makes them those of a column that differs in its base.
func (v *vectors) rebase(base uint64) {
	v.base = base
	if v.inverse != 0 {
		v.base += roundBits
		v.plus = float64(int64(base))
		v.back = wholeFloat - v.plus
	}
}

// writeVector does what writeRun does with as many of the first n rows as it can, and returns how
// many. There are eight at least.
func (c *column) writeVector(v *vectors, lo, n int, w *wordWriter) (done int) {
	t, width := v.tables, int(c.width)
	if t == nil || width > maxPackedWidth { // a frame may be wider than damaged headers say
		return 0
	}
	if left := len(c.body) - 64; left >= 0 && t.sixteens && w.stride == 8 {
		// It loads 64 bytes for the last eight rows.
		fit := n
		if (lo+n)*width/8 > left {
			fit = min(n, (8*left+7)/width+8-lo)
		}
		if fit >= 8 {
			done = fit
			c.writeDense(v, lo, done, unsafe.Add(w.out, w.at))
		}
	}
	if done < n {
		at, row := (lo+done)*width/8, (lo+done)&7
		eights := min((n-done)/8, (len(c.body)-at-16)/width) // loads begin in their values
		if eights > 0 {
			out := unsafe.Add(w.out, w.at+uintptr(done)*w.stride)
			decodeEights(c.byteAt(at), eights, &t.wide[width][row], &v.decoding, out,
				int(w.stride))
			done += 8 * eights
		}
	}
	if c.kind == columnDict {
		c.lookUp(wordWriter{out: w.out, at: w.at, stride: w.stride}, done)
	}
	w.at += uintptr(done) * w.stride
	return done
}

// writeDense is writeVector for all of n rows, eight at least.
func (c *column) writeDense(v *vectors, lo, n int, out unsafe.Pointer) {
	u := &v.tables.dense[c.width]
	for {
		load, step, rows := c.byteAt(0), 0, n
		if v.loads.pending() {
			load, step, rows = v.loads.next(n)
		}
		decodeDense(c.byteAt(0), lo, rows, u, &v.decoding, out, load, step)
		if n -= rows; n == 0 {
			return
		}
		lo, out = lo+rows, unsafe.Add(out, 8*rows)
	}
}

// lookUp replaces the numbers of n entries of the dictionary by these.
func (c *column) lookUp(w wordWriter, n int) {
	for range n {
		number := binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(w.out, w.at))[:])
		w.put(c.word(number))
	}
}

// staysBelow reports whether all values that can be packed lie between -limit and limit.
func (c *column) staysBelow(limit int64) bool {
	base := int64(c.base)
	return -limit < base && base < limit && c.maxPacked <= uint64(limit-base-1)/c.gcd
}
