package segment

import (
	"encoding/binary"

	"github.com/pentad-db/pentad/sdk/record"
)

const (
	cacheLineBytes = 64
	// frontBytes is what most headers of blocks take.
	frontBytes = 3 * cacheLineBytes
	// maxAheadBytes is about what the caches hold besides.
	maxAheadBytes = 4 << 10
	maxFrameBytes = 17
)

// AheadFront has the processor load the front of a block that is opened soon, while it does
// something else.
//
// Cost: a few ns.
func (s *Sealed) AheadFront(offset uint64) { s.ahead(offset, frontBytes) }

// AheadColumn does so with the values of a dimension of the rows [lo, hi) of a block, whose front
// should have been loaded by now.
//
// Cost: a few ns, and half a ns for each 64 bytes.
func (s *Sealed) AheadColumn(offset uint64, d record.Dim, lo, hi int) {
	if from, bytes, ok := s.columnAt(offset, int(d), lo, hi); ok {
		s.ahead(from, bytes)
	}
}

// columnAt finds where values should lie. Nothing is checked: a wrong place does no harm.
func (s *Sealed) columnAt(offset uint64, d, lo, hi int) (from, bytes uint64, ok bool) {
	const header = blockHeaderBytes + record.NumDims*maxFrameBytes
	if offset > s.end || uint64(len(s.data))-offset < header {
		return 0, 0, false
	}
	front := s.data[offset:]
	if front[17]&blockHasNumbered != 0 {
		return 0, 0, false
	}
	rows, head := uint64(binary.LittleEndian.Uint16(front[12:])), front[blockHeaderBytes:]
	from = offset + uint64(binary.LittleEndian.Uint16(front[14:]))
	for range d {
		from += (rows*uint64(head[0]&^gcdBit) + 7) / 8
		if head[0]&gcdBit != 0 {
			head = head[8:]
		}
		head = head[9:]
	}
	width := uint64(head[0] &^ gcdBit)
	return from + uint64(lo)*width/8, (uint64(max(0, hi-lo))*width + 7) / 8, true
}

func (s *Sealed) ahead(offset, bytes uint64) {
	if offset < s.end && bytes > 0 {
		lines := (min(bytes, maxAheadBytes) + cacheLineBytes - 1) / cacheLineBytes
		prefetch(&s.data[offset], int(lines))
	}
}
