package segment

import (
	"sync"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// eightsWidth is the widest value that lies in 32 bits at any bit of its first byte.
const eightsWidth = 25

// unpacking says how vectors of eight values of one width are made of the bytes that hold them.
type unpacking struct {
	bytes  [32]uint8 // in either half of a vector, four for each value
	before [8]uint32 // bits before the value in its four bytes
	mask   uint32
	_      uint32
	width  uint64
}

// sixteenUnpacking is unpacking for vectors of sixteen values, taken from 64 bytes at once.
type sixteenUnpacking struct {
	bytes  [64]uint8
	before [16]uint32
	lanes  [16]uint32 // 0, 1, 2 and so on
	mask   uint32
	_      uint32
	size   uint64 // bytes of sixteen values
}

// packedMatch is a match of values of at most 32 bits, and the position of the first.
type packedMatch struct{ low, span, position uint32 }

// wideUnpacking is unpacking for wider values, which are loaded two at a time.
type wideUnpacking struct {
	bytes  [64]uint8 // in each quarter of two vectors, eight for each value
	before [8]uint64
	mask   uint64
	width  uint64
	pairs  [3]uint64 // bytes before each pair but the first
}

// denseUnpacking is wideUnpacking for vectors of eight values, taken from 64 bytes at once.
type denseUnpacking struct {
	bytes  [64]uint8 // eight for each value
	before [8]uint64
	mask   uint64
	width  uint64
}

// wideMatch is packedMatch for wider values. With a sign, that of the span is turned.
type wideMatch struct {
	low, span, sign uint64
	position        uint32
}

// tables are what vectors are filtered with.
type tables struct {
	sixteens bool // vectors may have sixteen values of 32 bits, or eight of 64
	sixteen  [eightsWidth + 1]sixteenUnpacking
	narrow   [eightsWidth + 1]unpacking
	wide     [maxPackedWidth + 1][8]wideUnpacking  // by the first row's number, modulo 8
	dense    [maxPackedWidth + 1][8]denseUnpacking // likewise
	kept     [256][8]uint8
}

var filterTables = sync.OnceValue(func() *tables {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasPOPCNT {
		return nil
	}
	return &tables{sixteens: cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VBMI,
		sixteen: makeSixteenUnpackings(), narrow: makeUnpackings(), wide: makeWideUnpackings(),
		dense: makeDenseUnpackings(), kept: makeKept()}
})

func makeSixteenUnpackings() (all [eightsWidth + 1]sixteenUnpacking) {
	for width := range all {
		u := &all[width]
		u.mask, u.size = 1<<width-1, uint64(2*width)
		for i := range 16 {
			bit := i * width
			u.before[i], u.lanes[i] = uint32(bit&7), uint32(i)
			for k := range 4 {
				u.bytes[4*i+k] = uint8(bit>>3 + k)
			}
		}
	}
	return all
}

// makeUnpackings makes them by width. The upper half of a vector is loaded from half the bytes on.
func makeUnpackings() (all [eightsWidth + 1]unpacking) {
	for width := range all {
		u := &all[width]
		u.mask, u.width = 1<<width-1, uint64(width)
		for i := range 8 {
			bit := i * width
			if i >= 4 {
				bit -= width / 2 * 8
			}
			u.before[i] = uint32(bit & 7)
			for k := range 4 {
				u.bytes[4*i+k] = uint8(bit>>3 + k)
			}
		}
	}
	return all
}

func makeWideUnpackings() (all [maxPackedWidth + 1][8]wideUnpacking) {
	for width := range all {
		for row := range all[width] {
			u, start := &all[width][row], row*width&^7
			u.mask, u.width = 1<<width-1, uint64(width)
			for i := range 8 {
				pair := ((row+i&^1)*width - start) >> 3
				if i >= 2 {
					u.pairs[i/2-1] = uint64(pair)
				}
				bit := (row+i)*width - start - 8*pair
				u.before[i] = uint64(bit & 7)
				for k := range 8 {
					u.bytes[8*i+k] = uint8(bit>>3 + k)
				}
			}
		}
	}
	return all
}

func makeDenseUnpackings() (all [maxPackedWidth + 1][8]denseUnpacking) {
	for width := range all {
		for row := range all[width] {
			u, start := &all[width][row], row*width&7
			u.mask, u.width = 1<<width-1, uint64(width)
			for i := range 8 {
				bit := start + i*width
				u.before[i] = uint64(bit & 7)
				for k := range 8 {
					u.bytes[8*i+k] = uint8(bit>>3 + k)
				}
			}
		}
	}
	return all
}

// makeKept lists, for every set of eight rows, those in it.
func makeKept() (all [256][8]uint8) {
	for set := range all {
		k := 0
		for i := range 8 {
			if set>>i&1 != 0 {
				all[set][k] = uint8(i)
				k++
			}
		}
	}
	return all
}

//go:noescape
func filterSixteens(from *byte, sixteens int, u *sixteenUnpacking, m *packedMatch,
	out *uint32) (k int)

//go:noescape
func filterEights(from *byte, eights int, u *unpacking, m *packedMatch, kept *[256][8]uint8,
	out *uint32) (k int)

//go:noescape
func filterWideEights(from *byte, eights int, u *wideUnpacking, m *wideMatch,
	kept *[256][8]uint8, out *uint32) (k int)

//go:noescape
func filterDense(from *byte, eights int, u *denseUnpacking, m *wideMatch, out *uint32) (k int)

// filterVector does what filterSpan does with as many of the first rows as it can, some at a time,
// and returns how many matched and how many were looked at. lo is a multiple of 8.
func (c *column) filterVector(m match, lo int, out []uint32) (k, done int) {
	t, width := filterTables(), int(c.width)
	if t == nil || width > maxPackedWidth {
		return 0, 0
	}
	at := lo / 8 * width
	switch left := len(c.body) - at - 64; { // loads take 64 bytes
	case !t.sixteens || left <= 0:
	case width <= eightsWidth:
		if sixteens := min(len(out)/16, left/(2*width)); sixteens > 0 {
			p := packedMatch{uint32(m.low), uint32(m.span), uint32(lo)}
			k = filterSixteens(c.byteAt(at), sixteens, &t.sixteen[width], &p,
				unsafe.SliceData(out))
			done = 16 * sixteens
		}
	default:
		if eights := min(len(out)/8, left/width); eights > 0 {
			p := wideMatch{low: m.low, span: m.span, position: uint32(lo)}
			k = filterDense(c.byteAt(at), eights, &t.dense[width][0], &p, unsafe.SliceData(out))
			done = 8 * eights
		}
	}
	lo, at, out = lo+done, at+done/8*width, out[k:][:len(out)-done]
	eights := min(len(out)/8, (len(c.body)-at-16)/width) // loads begin in their values
	if eights <= 0 {
		return k, done
	}
	n := 0
	if width <= eightsWidth {
		p := packedMatch{uint32(m.low), uint32(m.span), uint32(lo)}
		n = filterEights(c.byteAt(at), eights, &t.narrow[width], &p, &t.kept,
			unsafe.SliceData(out))
	} else {
		const sign = 1 << 63
		p := wideMatch{m.low, m.span ^ sign, sign, uint32(lo)}
		n = filterWideEights(c.byteAt(at), eights, &t.wide[width][0], &p, &t.kept,
			unsafe.SliceData(out))
	}
	return k + n, done + 8*eights
}

func (c *column) byteAt(at int) *byte { return (*byte)(unsafe.Add(c.bodyStart(), at)) }
