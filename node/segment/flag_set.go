package segment

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"sort"
)

// flagSet is which rows of a block may supersede older ones: a bit for each row, or where these are
// few, a list.
type flagSet struct {
	bitmap []byte
	list   []byte // u16 each, ascending in verified blocks
}

const flagBytes = 2 // of a row in a list

const _ = uint(math.MaxUint16 - maxBlockRows) // a position fits

// flagSet reads the flagged rows of a block.
func (p *frontParser) flagSet(flags uint8) (s flagSet) {
	if flags&blockHasFlags != 0 {
		s.bitmap = p.take(uint64(p.rows+7) / 8)
	}
	if flags&blockHasFlagList != 0 {
		if count := p.take(flagBytes); count != nil {
			s.list = p.take(flagBytes * uint64(binary.LittleEndian.Uint16(count)))
		}
	}
	return s
}

// check looks at what parse does not.
func (s *flagSet) check(rows int) (reason string) {
	last := -1
	for k := range s.listed() {
		row := int(s.row(k))
		if row <= last || row >= rows {
			return "its flagged rows do not follow each other"
		}
		last = row
	}
	return ""
}

func (s *flagSet) listed() int { return len(s.list) / flagBytes }

func (s *flagSet) row(k int) uint32 {
	return uint32(binary.LittleEndian.Uint16(s.list[flagBytes*k:]))
}

// from returns which of the list is the first that is not below a row.
func (s *flagSet) from(row uint32) int {
	return sort.Search(s.listed(), func(k int) bool { return s.row(k) >= row })
}

// count returns how many rows are flagged.
func (s *flagSet) count() (rows int) {
	for _, part := range s.bitmap {
		rows += bits.OnesCount8(part)
	}
	return rows + s.listed()
}

// Flag reports whether the row at a position may supersede an older one.
func (b *Block) Flag(i int) bool {
	if s := &b.flags; s.list != nil {
		k := s.from(uint32(i))
		return k < s.listed() && s.row(k) == uint32(i)
	}
	return b.flags.bitmap != nil && b.flags.bitmap[i>>3]>>(i&7)&1 != 0
}

// FlaggedSpans appends the positions of spans whose row may supersede an older one.
func (b *Block) FlaggedSpans(spans []Span, dst []uint32) []uint32 {
	s := &b.flags
	if s.list == nil && s.bitmap == nil {
		return dst
	}
	for _, span := range spans {
		for k := s.from(span.Lo); k < s.listed() && s.row(k) < span.Hi; k++ {
			dst = append(dst, s.row(k))
		}
		if s.bitmap == nil {
			continue
		}
		for i := span.Lo; i < span.Hi; i++ {
			if s.bitmap[i>>3]>>(i&7)&1 != 0 {
				dst = append(dst, i)
			}
		}
	}
	return dst
}

// Flagged keeps those positions of sel, which ascend, whose row may supersede an older one, in
// place.
func (b *Block) Flagged(sel []uint32) []uint32 {
	s, k := &b.flags, 0
	if s.bitmap == nil {
		kept := sel[:0]
		for i := 0; i < s.listed() && len(sel) > 0; i++ {
			at, found := slices.BinarySearch(sel, s.row(i))
			if sel = sel[at:]; found {
				kept, sel = append(kept, s.row(i)), sel[1:]
			}
		}
		return kept
	}
	for _, i := range sel {
		sel[k] = i
		k += int(s.bitmap[i>>3] >> (i & 7) & 1)
	}
	return sel[:k]
}

// appendFlagSet appends the flagged rows of a block in the smaller form, and returns the flag of
// that form, or 0 if there are none.
func (e *encoder) appendFlagSet(order []uint32, flags []uint64) (flag uint8) {
	at := len(e.columnData)
	if !e.appendFlags(order, flags) {
		return 0
	}
	list, bitmap := e.flagList[:0], e.columnData[at:]
	for i, part := range bitmap {
		for ; part != 0; part &= part - 1 {
			row := 8*i + bits.TrailingZeros8(part)
			list = binary.LittleEndian.AppendUint16(list, uint16(row))
		}
	}
	e.flagList = list
	if flagBytes+len(list) >= len(bitmap) {
		return blockHasFlags
	}
	e.columnData = binary.LittleEndian.AppendUint16(e.columnData[:at],
		uint16(len(list)/flagBytes))
	e.columnData = append(e.columnData, list...)
	return blockHasFlagList
}
