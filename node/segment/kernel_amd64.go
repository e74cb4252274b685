package segment

import (
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

// packedMatch is a match of values of at most 32 bits, and the position of the first.
type packedMatch struct{ low, span, position uint32 }

var (
	hasEights = cpu.X86.HasAVX2 && cpu.X86.HasPOPCNT
	unpacks   = makeUnpackings()
	kept      = makeKept()
)

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
func filterEights(from *byte, eights int, u *unpacking, m *packedMatch, kept *[256][8]uint8,
	out *uint32) (k int)

// filterVector does what filterSpan does with as many of the first rows as it can, eight at a
// time, and returns how many matched and how many were looked at. lo is a multiple of 8.
func (c *column) filterVector(m match, lo int, out []uint32) (k, done int) {
	width := int(c.width)
	if !hasEights || width > eightsWidth {
		return 0, 0
	}
	from := lo / 8 * width
	// A load takes 16 bytes, the last one from half of the bytes of its rows on.
	eights := min(len(out)/8, (len(c.body)-from-16-width/2)/width)
	if eights <= 0 {
		return 0, 0
	}
	p := packedMatch{uint32(m.low), uint32(m.span), uint32(lo)}
	k = filterEights((*byte)(unsafe.Add(c.bodyStart(), from)), eights, &unpacks[width], &p,
		&kept, unsafe.SliceData(out))
	return k, 8 * eights
}
