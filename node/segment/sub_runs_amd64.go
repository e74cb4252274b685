package segment

import "unsafe"

// selectOnes is findOnes by single instructions.
//
//go:noescape
func selectOnes(bits *byte, bit, end, n, more int) (first, last int)

// expandBits writes the devices of rows up to eight at a time.
//
//go:noescape
func expandBits(bits *byte, e *expansion, places *[256][filledRows]uint8, mids, out *int64, rows int)

// numberRows is numberByRow by single instructions.
//
//go:noescape
func numberRows(z *zeroCounts, bits *byte, sel *uint32, rows int, out *[numberedRows]uint16)

// findOnes returns the first bit of [bit, end) before which n are ones and which is one, too, and
// the first before which this many more are; or end.
func (t *subRunTable) findOnes(bit, end, n, more int) (first, last int) {
	if f := filterTables(); f != nil && f.sixteens {
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

// number finds the devices of rows of its sub-run that ascend, at most numberedRows.
func (z *zeroCounts) number(t *subRunTable, sel []uint32, out *[numberedRows]uint16) {
	if f := filterTables(); f == nil || !f.sixteens {
		z.numberByRow(t, sel, out)
		return
	}
	numberRows(z, unsafe.SliceData(t.bits), unsafe.SliceData(sel), len(sel), out)
}
