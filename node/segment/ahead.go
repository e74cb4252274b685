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
	// aheadWords is how many words of payloads are loaded: those that are looked at most.
	aheadWords       = 2
	maxFrameBytes    = 17
	aheadHeaderBytes = blockHeaderBytes + record.NumDims*maxFrameBytes +
		aheadWords*(5+maxFrameBytes)
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

// AheadWords does so with the first words of the payloads of rows.
//
// Cost: some 10 ns, and half a ns for each 64 bytes.
func (s *Sealed) AheadWords(offset uint64, rows []Span) {
	p, ok := s.aheadOf(offset)
	if !ok || p.front[16] != payloadWords {
		return
	}
	p.skipKeys()
	for range min(aheadWords, binary.LittleEndian.Uint16(p.front[18:])) {
		from, width := p.word()
		for _, r := range rows {
			s.ahead(from+uint64(r.Lo)*width/8, (uint64(r.Hi-r.Lo)*width+7)/8)
		}
	}
}

// columnAt finds where values should lie. Blocks that number their devices are not looked into.
func (s *Sealed) columnAt(offset uint64, d, lo, hi int) (from, bytes uint64, ok bool) {
	p, ok := s.aheadOf(offset)
	if !ok {
		return 0, 0, false
	}
	for range d {
		p.key()
	}
	from, width := p.key()
	return from + uint64(lo)*width/8, (uint64(max(0, hi-lo))*width + 7) / 8, true
}

// aheadParser finds columns by their headers. Nothing is checked: a wrong place does no harm.
type aheadParser struct {
	front []byte // at least of aheadHeaderBytes
	head  int    // in front
	at    uint64 // in the file
	rows  uint64
}

func (s *Sealed) aheadOf(offset uint64) (p aheadParser, ok bool) {
	if offset > s.end || uint64(len(s.data))-offset < aheadHeaderBytes {
		return p, false
	}
	p.front = s.data[offset:][:aheadHeaderBytes]
	p.head, p.rows = blockHeaderBytes, uint64(binary.LittleEndian.Uint16(p.front[12:]))
	p.at = offset + uint64(binary.LittleEndian.Uint16(p.front[14:]))
	return p, p.front[17]&blockHasNumbered == 0
}

// key returns where the next column starts, and its width.
func (p *aheadParser) key() (from, width uint64) {
	from, width = p.at, uint64(p.front[p.head]&^gcdBit)
	if p.front[p.head]&gcdBit != 0 {
		p.head += 8
	}
	p.head += 9
	p.at += (p.rows*width + 7) / 8
	return from, width
}

// skipKeys passes over what stands before the words of payloads.
func (p *aheadParser) skipKeys() {
	for range record.NumDims {
		p.key()
	}
	for _, bit := range [...]byte{blockHasFlags, blockHasTombs} {
		if p.front[17]&bit != 0 {
			p.at += (p.rows + 7) / 8
		}
	}
}

// word is key for a word of payloads.
func (p *aheadParser) word() (from, width uint64) {
	switch p.front[p.head] {
	case columnDec:
		p.head += 2
	case columnDict:
		p.at += 8 * uint64(binary.LittleEndian.Uint32(p.front[p.head+1:]))
		p.head += 5
	default:
		p.head++
	}
	return p.key()
}

func (s *Sealed) ahead(offset, bytes uint64) {
	if offset < s.end && bytes > 0 {
		lines := (min(bytes, maxAheadBytes) + cacheLineBytes - 1) / cacheLineBytes
		prefetch(&s.data[offset], int(lines))
	}
}
