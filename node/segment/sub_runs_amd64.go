package segment

import (
	"unsafe"

	"github.com/pentad-db/pentad/sdk/record"
)

// knownDevices is what a row is filled with devices by: the number of the device of the row before,
// of the last one, and of the next that is absent.
type knownDevices struct{ number, last, absent int }

// fillEights writes the devices of eight rows at a time, until the next absent device is reached.
//
//go:noescape
func fillEights(firsts *byte, eights int, places *[1 << (filledRows - 1)][filledRows]uint8,
	mids *int64, known *knownDevices, out *int64) (done int)

// selectFirsts is findFirsts by single instructions.
//
//go:noescape
func selectFirsts(firsts *byte, row, end, n, more int) (first, last int)

// findFirsts returns the first of the rows [row, end) before which n of them are the first of a
// device, and which is one, too, and the first before which this many more are; or end.
func (b *Block) findFirsts(row, end, n, more int) (first, last int) {
	if t := filterTables(); t != nil && t.sixteens {
		return selectFirsts(b.keys[record.MID].byteAt(0), row, end, n, more)
	}
	return b.skipTwice(row, end, n, more)
}

// fillVector is fillByEights by vectors, and returns how many rows it has written.
func (c *deviceCursor) fillVector(firsts []byte, number int, out []int64) (done, last int) {
	t, eights := filterTables(), len(out)/filledRows
	if t == nil || !t.sixteens || eights == 0 {
		return 0, number
	}
	mids := c.block.subRuns.unpacked
	known := knownDevices{number, c.block.subRuns.devices - 1, c.nextAbsent}
	done = fillEights(unsafe.SliceData(firsts), eights, &t.places, unsafe.SliceData(mids), &known,
		unsafe.SliceData(out))
	return done * filledRows, known.number
}
