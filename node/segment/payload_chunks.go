package segment

import (
	"encoding/binary"

	"github.com/pentad-db/pentad/sdk/where"
)

// wholeShare: where one in this number of the rows of a block is looked at, or more, all chunks are
// opened at once.
const wholeShare = 4

// filterChunks is Rows for rows of the rule whose payloads are in chunks.
func (f *PayloadFilter) filterChunks(sel []uint32) ([]uint32, error) {
	b, k := f.block, 0
	if len(sel)*wholeShare >= b.rows {
		if err := b.openWhole(); err != nil {
			return nil, err
		}
		if n := &f.rule.Node; b.open.end == b.rows && b.kind == payloadFixedChunks &&
			!f.learning && n.Kind == where.NumberIn {
			return filterNumbers(n, b.open.raw, b.stride, sel), nil
		}
	}
	for _, at := range sel {
		row := int(at)
		if row < b.open.first || row >= b.open.end {
			if err := b.openRow(row); err != nil {
				return nil, err
			}
		}
		sel[k] = at
		payload := b.openPayload(row)
		if f.learning {
			f.rule.AddPayload(f.bounds, payload)
		}
		if f.rule.Match(payload) {
			k++
		}
	}
	return sel[:k], nil
}

// filterNumbers is filterChunks for payloads of one size, and a comparison of a number.
func filterNumbers(n *where.Node, payloads []byte, stride int, sel []uint32) []uint32 {
	payloads = payloads[n.Offset:]
	bits := func(at uint32) uint64 {
		if n.Bits == 32 {
			return uint64(binary.LittleEndian.Uint32(payloads[int(at)*stride:]))
		}
		return binary.LittleEndian.Uint64(payloads[int(at)*stride:])
	}
	k := 0
	if len(n.Words) == 1 {
		low, span := n.Words[0].Low, n.Words[0].High-n.Words[0].Low
		for _, at := range sel {
			sel[k] = at
			if bits(at)-low <= span {
				k++
			}
		}
		return sel[:k]
	}
	for _, at := range sel {
		sel[k] = at
		if n.HasWord(bits(at)) {
			k++
		}
	}
	return sel[:k]
}
