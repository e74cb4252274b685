package segment

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// selectOnes is findOnes by single instructions.
//
//go:noescape
func selectOnes(bits *byte, bit, end, n, more int) (first, last int)

// expandBits writes the devices of rows up to eight at a time.
//
//go:noescape
func expandBits(bits *byte, e *expansion, places *[256][filledRows]uint8, mids, out *int64, rows int)

// numberBits writes the numbers of the devices of rows of 32 bits at a time.
//
//go:noescape
func numberBits(bits *byte, e *expansion, below *[32]uint32, out *uint32, rows int)

// findOnes returns the first bit of [bit, end) before which n are ones and which is one, too, and
// the first before which this many more are; or end.
func (t *subRunTable) findOnes(bit, end, n, more int) (first, last int) {
	if cpu.X86.HasBMI1 && cpu.X86.HasBMI2 && cpu.X86.HasPOPCNT {
		return selectOnes(unsafe.SliceData(t.bits), bit, end, n, more)
	}
	return t.skipOnes(bit, end, n, more)
}

// expandBits writes the devices of rows, which are unpacked. Of damaged bytes, it may write fewer.
func (t *subRunTable) expandBits(e *expansion, out []int64) {
	f := filterTables()
	if f == nil || !f.sixteens {
		t.expandByRow(e, out)
		return
	}
	expandBits(unsafe.SliceData(t.bits), e, &f.places, unsafe.SliceData(t.unpacked),
		unsafe.SliceData(out), len(out))
}

// numberBits writes the numbers of the devices of rows. Of damaged bytes, they may be anything.
func (t *subRunTable) numberBits(e *expansion, out []uint32, rows int) {
	f := filterTables()
	if f == nil || !f.countsBits {
		t.numberByRow(e, out, rows)
		return
	}
	_ = out[rows+numberedRows-1]
	numberBits(unsafe.SliceData(t.bits), e, &f.below, unsafe.SliceData(out), rows)
}
